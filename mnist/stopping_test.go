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

// validationNoise is the standard deviation of the validation ELBO over fresh noise, in nats. It was
// measured with the weights of results/vae.safetensors and the noise of 100 epochs. Its standard error
// is 0.003.
const validationNoise = 0.044

// stopped returns the number of epochs after which early stopping ends a run with the given validation
// ELBOs, and the best epoch.
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

// The VAE with seed 85547 in results/full was validated with the same noise after each epoch and did not stop
// early. The authors' code uses fresh noise in each epoch. The test adds fresh noise to the validation ELBOs of
// the VAE and applies the authors' stopping rule, 400 times for each standard deviation of the noise.
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
		loss := 0.0 // mean of the noise-free ELBO of the selected epoch minus the ELBO of the best epoch
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
			t.Errorf("results/README.md lacks the line\n%s", line)
		}
	}
}
