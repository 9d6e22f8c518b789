package main

import (
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"hvae/linalg"
	"hvae/mnist/eval"
	"hvae/mnist/model"
)

// trained writes a model to a new file. It returns the name of the file and the model. The weights are large, so that
// the estimates vary widely.
func trained(t *testing.T, config model.Config, seed uint64) (string, model.Checkpoint) {
	t.Helper()
	c := model.Checkpoint{Network: model.New[float32](config, -2, 5), Seed: seed, Epoch: 12, ELBO: -101.5}
	c.Data = "synthetic"
	for _, p := range c.Params() {
		if strings.HasSuffix(p.Name, ".weight") {
			linalg.Scale(p.Value, 2, p.Value)
		}
	}
	name := filepath.Join(t.TempDir(), modelFile)
	write(t, c.Encode(), name)
	return name, c
}

// withoutSeconds removes the duration from the first line that eval prints.
func withoutSeconds(text string) string {
	return regexp.MustCompile(`, \d+ s\n`).ReplaceAllString(text, "\n")
}

// All numbers that eval prints must match the oracle (oracle_test.go). Each run must binarise the images again.
func TestEvalMatchesTheOracle(t *testing.T) {
	vae, wide := model.Config{Kind: "vae", Tempering: "none", Latent: 3}, model.Config{Kind: "vae", Tempering: "none", Latent: 64}
	hvae := model.Config{Kind: "hvae", K: 3, Tempering: "free", VaryEps: true, Latent: 5}
	set := digits(t)
	for _, c := range []struct {
		config                model.Config
		flags                 string
		seed                  uint64
		images, samples, runs int
		name                  string // of the model in the output
	}{
		{hvae, "-limit 3 -samples 100 -runs 2 -seed 18446744073709551615", 1<<64 - 1, 3, 100, 2, "hvae, K = 3, free tempering, ε varied"},
		{hvae, "-limit 3 -samples 48 -runs 2 -K 0", 1, 3, 48, 2, "hvae, K = 0"},
		{wide, "-limit 3 -samples 150 -runs 1 -seed 7", 7, 3, 150, 1, "vae"}, // the last tape has fewer samples than the others
		{vae, "-limit 2", 1, 2, 1000, 3, "vae"},
		{vae, "-samples 1 -runs 1", 1, 400, 1, 1, "vae"},
	} {
		t.Run(c.flags, func(t *testing.T) {
			name, checkpoint := trained(t, c.config, 4)
			args := append(strings.Fields(c.flags), "-checkpoint", name, "-data", "synthetic")
			began := time.Now()
			stdout, _ := mustRun(t, slices.Concat([]string{"eval", "-json"}, args)...)
			took := time.Since(began).Seconds()
			text, _ := mustRun(t, append([]string{"eval"}, args...)...)

			if strings.Contains(c.flags, "-K 0") { // the expected results are the results of a VAE with the same weights
				with := checkpoint.Network
				checkpoint.Network = model.New[float32](model.Config{Kind: "vae", Tempering: "none", Latent: with.Config.Latent}, 0, 1)
				checkpoint.SetEncoderAndDecoder(with)
			}
			var elbos, nlls, tails []float64
			for r := range c.runs {
				elbo, nll, shapes := estimated(checkpoint, set.Test, c.images, c.seed, r, c.samples)
				elbos, nlls, tails = append(elbos, elbo), append(nlls, nll), append(tails, shapes...)
			}
			heavy, limit := 0.0, min(1-1/math.Log10(float64(c.samples)), 0.7)
			for _, k := range tails {
				if k > limit {
					heavy += 1 / float64(len(tails))
				}
			}
			elbo, elboSD := eval.MeanSD(elbos)
			nll, nllSD := eval.MeanSD(nlls)
			tail, _ := eval.MeanSD(tails)
			got := jsonLines[map[string]any](t, stdout)[0]
			want := fmt.Sprintf("ELBO %.2f\nNLL  %.2f\n", got["elbo"], got["nll"])
			if c.runs > 1 {
				want = fmt.Sprintf("ELBO %.2f ± %.2f\nNLL  %.2f ± %.2f\n", got["elbo"], got["elbo_sd"], got["nll"], got["nll_sd"])
			}
			if c.samples >= 100 {
				want += fmt.Sprintf("tail shape of the importance weights %.2f, above %.3g for %.0f %% of the images\n", got["tail_shape"], limit, 100*heavy)
			} else {
				heavy = math.NaN()
			}
			want = fmt.Sprintf("%s, epoch 12, on %d test images of synthetic, %d samples each, runs: %d\n", c.name, c.images, c.samples, c.runs) + want
			if withoutSeconds(text) != want {
				t.Errorf("eval prints\n%swant\n%s", text, want)
			}
			for key, want := range map[string]eval.Number{"elbo": elbo, "nll": nll, "elbo_sd": elboSD, "nll_sd": nllSD, "tail_shape": tail, "heavy_tails": eval.Number(heavy),
				"images": eval.Number(c.images), "samples": eval.Number(c.samples), "runs": eval.Number(c.runs)} {
				if v, ok := got[key].(float64); ok == (want != want) || ok && !(math.Abs(v-float64(want)) <= 1e-6*math.Abs(float64(elbo))) {
					t.Errorf("%s is %v, want %v", key, got[key], want)
				}
			}
			if got["data"] != "synthetic" || got["trained_on"] != "synthetic" || len(got) != 16 {
				t.Errorf("the object contains wrong names of data or other fields than expected: %v", got)
			}
			mean := 0.0
			for _, v := range got["image_elbo"].([]any) {
				mean += v.(float64) / float64(c.images)
			}
			if !near(mean, float64(elbo)) || len(got["image_elbo"].([]any)) != c.images || len(got["image_nll"].([]any)) != c.images {
				t.Errorf("the ELBOs of the images are %v, want %d values with the mean %v", got["image_elbo"], c.images, elbo)
			}
			if seconds, ok := got["seconds"].(float64); !ok || !(seconds > 0 && seconds <= took) {
				t.Errorf("seconds is %v", got["seconds"])
			}
		})
	}
}

// huge sets all elements to the largest float32.
func huge(x []float32) {
	for i := range x {
		x[i] = math.MaxFloat32
	}
}

func TestModelsThatHaveDivergedFail(t *testing.T) {
	name, c := trained(t, model.Config{Kind: "hvae", K: 2, Tempering: "free", Latent: 2}, 1)
	for _, p := range c.Params() {
		huge(p.Value.Data)
	}
	write(t, c.Encode(), name)
	_, stderr, status := mnist(t.Context(), "eval", "-limit", "2", "-samples", "2", "-data", "synthetic", "-checkpoint", name)
	if want := name + ": the evaluation is not finite (ELBO NaN, NLL "; status != 1 || !strings.Contains(stderr, want) {
		t.Errorf("status %d, stderr %q; want %q", status, stderr, want)
	}
}
