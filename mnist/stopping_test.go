package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"hvae/linalg/random"
	"hvae/mnist/run"
)

// validationNoise is the standard deviation of the validation ELBO over fresh noise (z₀ for
// each of 10,000 images), in nats: measured over 100 epochs' noise with the weights of
// results/vae.safetensors, with a standard error of 0.003.
const validationNoise = 0.044

// stopped returns the number of epochs after which early stopping ends a run with the given
// validation ELBOs, and its best epoch.
func stopped(elbo []float64, patience int) (epochs, best int) {
	for epoch := 1; epoch <= len(elbo); epoch++ {
		if best == 0 || elbo[epoch-1] > elbo[best-1] {
			best = epoch
		}
		if epoch-best == patience {
			return epoch, best
		}
	}
	return len(elbo), best
}

// The full VAE was validated with the same noise after every epoch, and did not stop early. The
// test adds fresh noise to its curve, as in the authors' code, and applies their stopping rule,
// 400 times for each standard deviation of the noise.
func TestFreshValidationNoiseExplainsThePublishedStoppingTimes(t *testing.T) {
	metrics, err := run.ReadMetrics("results/full/vae-85547/metrics.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var curve []float64
	for _, m := range metrics {
		curve = append(curve, m.ValELBO)
	}
	text, err := os.ReadFile("results/README.md")
	if err != nil {
		t.Fatal(err)
	}
	thousands := func(n int) string {
		return strings.TrimPrefix(fmt.Sprintf("%d,%03d", n/1000, n%1000), "0,")
	}
	for _, s := range []float64{0, 0.01, 0.02, 0.03, validationNoise, 0.06} {
		var epochs []int
		loss := 0.0 // validation ELBO at the best epoch, minus the maximum without noise
		_, last := stopped(curve, 100)
		for repetition := range 400 {
			rng, noisy := random.Stream(1, "validation noise", repetition), slices.Clone(curve)
			for i := range noisy {
				noisy[i] += s * rng.NormFloat64()
			}
			n, best := stopped(noisy, 100)
			epochs = append(epochs, n)
			loss += (curve[best-1] - curve[last-1]) / 400
		}
		slices.Sort(epochs)
		line := fmt.Sprintf("| %v | %s | %s | %s | %s |\n", s, thousands(epochs[40]), thousands(epochs[200]), thousands(epochs[360]),
			strings.Replace(fmt.Sprintf("%.2f", loss), "-", "−", 1))
		if !strings.Contains(string(text), line) {
			t.Errorf("results/README.md should have the line\n%s", line)
		}
	}
}
