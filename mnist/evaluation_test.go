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
	"hvae/mnist/model"
	"hvae/mnist/safetensors"
)

// trained writes a model with large weights, so that its estimates vary widely. It returns the name of
// the file and the model.
func trained(t *testing.T, config model.Config, seed uint64) (string, model.Checkpoint) {
	t.Helper()
	c := model.Checkpoint{Config: config, Params: model.NewParams[float32](config, -2, 5), Seed: seed, Epoch: 12, ELBO: -101.5}
	c.Data, c.DataSHA256 = "synthetic", syntheticDigest
	for _, p := range c.Params {
		if strings.HasSuffix(p.Name, ".weight") {
			linalg.Scale(p.Value, 2, p.Value)
		}
	}
	name := filepath.Join(t.TempDir(), modelFile)
	write(t, c.File().Encode(), name)
	return name, c
}

// withoutSeconds removes the duration from the first line that eval prints.
func withoutSeconds(text string) string {
	return regexp.MustCompile(`, \d+ s\n`).ReplaceAllString(text, "\n")
}

// All numbers that eval prints must match the oracle (oracle_test.go). Each run binarises the images again.
func TestEvalMatchesTheOracle(t *testing.T) {
	vae, wide := model.Config{Kind: "vae", Tempering: "none", Latent: 3}, model.Config{Kind: "vae", Tempering: "none", Latent: 64}
	hvae := model.Config{Kind: "hvae", K: 3, Tempering: "free", VaryEps: true, Latent: 5}
	set := digits(t)
	for _, c := range []struct {
		config        model.Config
		flags         string
		split         string
		seed          uint64
		images        int
		samples, runs int
	}{
		{hvae, "-limit 3 -samples 100 -runs 2 -seed 18446744073709551615", "test", 1<<64 - 1, 3, 100, 2},
		{hvae, "-limit 3 -samples 49 -split validation", "validation", 1, 3, 49, 3},
		{hvae, "-limit 3 -samples 48 -runs 4 -seed 7", "test", 7, 3, 48, 4},
		{hvae, "-limit 3 -samples 48 -runs 2 -K 0", "test", 1, 3, 48, 2},
		{wide, "-limit 3 -samples 150 -runs 1 -seed 7", "test", 7, 3, 150, 1}, // the last tape has fewer samples than the others
		{vae, "-limit 2", "test", 1, 2, 1000, 3},
		{vae, "-samples 1 -runs 1", "test", 1, 400, 1, 1},
	} {
		t.Run(c.flags, func(t *testing.T) {
			name, checkpoint := trained(t, c.config, 4)
			if strings.Contains(c.flags, "-K 0") { // the expected results are the results of a VAE with the same weights
				checkpoint.Config = model.Config{Kind: "vae", Tempering: "none", Latent: checkpoint.Config.Latent}
				checkpoint.Params = slices.DeleteFunc(checkpoint.Params, func(p model.Param[float32]) bool { return strings.HasPrefix(p.Name, "flow.") })
			}
			began := time.Now()
			run := func(more ...string) string {
				t.Helper()
				stdout, _ := mustRun(t, slices.Concat([]string{"eval", "-checkpoint", name, "-data", "synthetic"}, strings.Fields(c.flags), more)...)
				return stdout
			}
			got := object(t, run("-json"))

			images, which := set.Test, upTo(set.Test.Len())
			if c.split == "validation" { // the run that trained the model determines the split
				images = set.Train
				_, which = parts(images.Len(), checkpoint.Seed)
			}
			var elbos, nlls, tails []float64
			z0, zK := make([]float64, c.images), make([]float64, c.images) // for each image, means over runs
			for r := range c.runs {
				elbo, nll, shapes, starts, ends := estimated(checkpoint, images, which[:c.images], c.seed, r, c.samples)
				tails = append(tails, shapes...)
				elbos, nlls = append(elbos, elbo), append(nlls, nll)
				for i := range c.images {
					z0[i] += starts[i] / float64(c.runs)
					zK[i] += ends[i] / float64(c.runs)
				}
			}
			elbo, elboSD := spread(elbos...)
			nll, nllSD := spread(nlls...)
			for key, want := range map[string]float64{"elbo": elbo, "nll": nll, "images": float64(c.images), "samples": float64(c.samples), "runs": float64(c.runs)} {
				if v, ok := got[key].(float64); !ok || !near(v, want) {
					t.Errorf("%s is %v, want %v", key, got[key], want)
				}
			}
			for key, want := range map[string]float64{"elbo_sd": elboSD, "nll_sd": nllSD} {
				if v, ok := got[key].(float64); ok != (c.runs > 1) || ok && !(math.Abs(v-want) <= 1e-3*want) || !ok && got[key] != nil {
					t.Errorf("%s is %v, want %v", key, got[key], want)
				}
			}
			fields, line := 12, ""
			tail, _ := spread(tails...)
			heavy := 0.0
			for _, k := range tails {
				if k > 0.7 {
					heavy += 1 / float64(len(tails))
				}
			}
			if math.IsNaN(tail) != (c.samples <= 20) {
				t.Fatalf("the mean tail shape of the oracle is %v for %d samples", tail, c.samples)
			}
			if math.IsNaN(tail) {
				if got["tail_shape"] != nil || got["heavy_tails"] != nil {
					t.Errorf("tail_shape is %v and heavy_tails is %v for %d samples, want null", got["tail_shape"], got["heavy_tails"], c.samples)
				}
			} else {
				if v, w := got["tail_shape"].(float64), got["heavy_tails"].(float64); !(math.Abs(v-tail) <= 1e-3) || !(math.Abs(w-heavy) <= 1e-9) {
					t.Errorf("tail_shape is %v and heavy_tails is %v, want %v and %v", v, w, tail, heavy)
				}
				line = fmt.Sprintf("tail shape of the importance weights %.2f, above 0.7 for %.0f %% of the images\n", tail, 100*heavy)
			}
			if checkpoint.Config.K > 0 {
				for key, of := range map[string][]float64{"correlation_z0": z0, "correlation_zk": zK} {
					mean, sd := spread(of...)
					se := sd / math.Sqrt(float64(c.images))
					if v, w := got[key].(float64), got[key+"_se"].(float64); !(math.Abs(v-mean) <= 1e-5*mean) || !(math.Abs(w-se) <= 1e-3*se) {
						t.Errorf("%s is %v ± %v, want %v ± %v", key, v, w, mean, se)
					}
				}
				if v := got["correlation_independent"].(float64); !(math.Abs(v/math.Sqrt(2/(math.Pi*float64(c.samples)))-1) <= 1/float64(c.samples)) {
					t.Errorf("correlation_independent for %d samples is %v", c.samples, v)
				}
				fields += 5
				line += fmt.Sprintf("mean |correlation| of two dimensions given x: z_K %.4f ± %.4f, z_0 %.4f ± %.4f, independent %.4f\n",
					got["correlation_zk"], got["correlation_zk_se"], got["correlation_z0"], got["correlation_z0_se"], got["correlation_independent"])
			}
			if got["data"] != "synthetic" || got["trained_on"] != "synthetic" || len(got) != fields {
				t.Errorf("the object contains wrong names of data or other fields than expected: %v", got)
			}
			if seconds, ok := got["seconds"].(float64); !ok || !(seconds > 0 && seconds <= time.Since(began).Seconds()) {
				t.Errorf("seconds is %v", got["seconds"])
			}

			if c.images*c.samples*c.runs > 500 {
				return // other cases check the text
			}
			runs, spread := "one run", func(string) string { return "" }
			if c.runs > 1 {
				runs, spread = fmt.Sprintf("%d runs", c.runs), func(key string) string { return fmt.Sprintf(" ± %.2f", got[key]) }
			}
			config := c.config.String()
			if checkpoint.Config.K == 0 && c.config.K > 0 {
				config = "hvae, K = 0"
			}
			want := fmt.Sprintf("%v, epoch 12, on %d %s images of synthetic, %d samples each, %s\nELBO %.2f%s\nNLL  %.2f%s\n",
				config, c.images, c.split, c.samples, runs, got["elbo"], spread("elbo_sd"), got["nll"], spread("nll_sd")) + line
			if text := withoutSeconds(run()); text != want {
				t.Errorf("eval prints\n%swant\n%s", text, want)
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

func TestAnEvaluationThatIsNotFiniteFails(t *testing.T) {
	name, c := trained(t, model.Config{Kind: "vae", Tempering: "none", Latent: 2}, 1)
	for _, p := range c.Params {
		huge(p.Value.Data)
	}
	write(t, c.File().Encode(), name)
	for _, more := range [][]string{nil, {"-json"}} {
		refused(t, filepath.Dir(name), append([]string{"eval", "-checkpoint", name, "-data", "synthetic", "-limit", "2", "-samples", "2"}, more...),
			"the evaluation of "+name+" is not finite (ELBO NaN, NLL ", "the model is damaged or has diverged")
	}
}

// Models written by older versions or other tools have no SHA-256.
func TestAModelWithoutADigestIsEvaluatedWithANote(t *testing.T) {
	name, c := trained(t, model.Config{Kind: "vae", Tempering: "none", Latent: 2}, 1)
	args := []string{"eval", "-checkpoint", name, "-data", "synthetic", "-limit", "2", "-samples", "2"}
	want, note := mustRun(t, args...)
	if note != "" {
		t.Errorf("a model with a SHA-256: stderr is %s, want nothing", note)
	}
	f := c.File()
	delete(f.Metadata, safetensors.DigestKey)
	write(t, f.Encode(), name)
	got, note := mustRun(t, args...)
	if withoutSeconds(got) != withoutSeconds(want) || note != "note: "+name+" has no SHA-256, because it was written by an older version or another tool; damage to the file cannot be detected\n" {
		t.Errorf("a model without a SHA-256: the output is %s%s, want a note and %s", note, got, want)
	}
}

func TestEvalSimulates10000ImagesByDefault(t *testing.T) {
	name, _ := trained(t, model.Config{Kind: "vae", Tempering: "none", Latent: 2}, 1)
	stderr, _ := interrupted(t, 0, strings.Fields("eval -simulated -method ais -runs 1 -checkpoint "+name)...)
	if !strings.Contains(stderr, " of 10000 images") {
		t.Errorf("stderr is %q, want a text such as 0 of 10000 images", stderr)
	}
}
