package main

import (
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"hvae/linalg"
	"hvae/mnist/eval"
	"hvae/mnist/model"
)

// trained writes a model with large weights, whose estimates vary widely, to a file. It returns the file's name, too.
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

// closeTo reports whether two statistics are equal up to rounding errors in float32, or both NaN.
func closeTo[T ~float64](a, b T) bool {
	return a != a && b != b || math.Abs(float64(a-b)) <= 1e-4
}

// runEval returns the evaluation that eval writes as JSON. It checks that the text that eval prints begins with the
// name of the model and ends with the same results.
func runEval(t *testing.T, name string, flags ...string) evaluation {
	t.Helper()
	file := filepath.Join(t.TempDir(), "evaluation.json")
	text, _ := mustRun(t, append([]string{"eval", "-o", file}, flags...)...)
	e := jsonLines[evaluation](t, string(read(t, file)))[0]
	if !strings.HasPrefix(text, name+", epoch 12, on ") || !strings.HasSuffix(text, e.Evaluation.String()) {
		t.Errorf("eval prints\n%swant the model %s and the results\n%v", text, name, e.Evaluation)
	}
	return e
}

// All numbers that eval prints must match the oracle (oracle_test.go). Each run must binarise the images again.
func TestEvalMatchesTheOracle(t *testing.T) {
	vae := model.Config{Kind: "vae", Tempering: "none", Latent: 3}
	wide := model.Config{Kind: "vae", Tempering: "none", Latent: 64}
	hvae := model.Config{Kind: "hvae", K: 3, Tempering: "free", VaryEps: true, Latent: 5}
	withoutFlow := model.Config{Kind: "vae", Tempering: "none", Latent: 5} // has the results of hvae with -K 0
	set := ownImages(t, 6, 7)
	for _, c := range []struct {
		config, same          model.Config // config must have the results of the model same with the same weights
		flags                 string
		seed                  uint64
		images, samples, runs int
		name                  string // of the model in the output
	}{
		{hvae, hvae, "-limit 3 -samples 100 -runs 2 -seed 18446744073709551615", 1<<64 - 1, 3, 100, 2, "hvae, K = 3, free tempering, ε varied"},
		{hvae, withoutFlow, "-limit 3 -samples 48 -runs 2 -K 0", 1, 3, 48, 2, "hvae, K = 0"},
		{wide, wide, "-limit 3 -samples 150 -runs 1 -seed 7", 7, 3, 150, 1, "vae"}, // 150 samples are three blocks of 48 and a smaller one
		{vae, vae, "-limit 1", 1, 1, 1000, 3, "vae"},
		{vae, vae, "-samples 1 -runs 1", 1, 7, 1, 1, "vae"},
	} {
		file, checkpoint := trained(t, c.config, 4)
		got := runEval(t, c.name, append(strings.Fields(c.flags), "-checkpoint", file, "-data", set.Folder)...)
		network := model.New[float32](c.same, 0, 1)
		network.SetEncoderAndDecoder(checkpoint.Network)
		if c.same == c.config {
			network = checkpoint.Network
		}
		var elbos, nlls, tails []float64
		for r := range c.runs {
			elbo, nll, shapes := estimated(network, set.Test, c.images, c.seed, r, c.samples)
			elbos = append(elbos, elbo)
			nlls = append(nlls, nll)
			tails = append(tails, shapes...)
		}
		want := evaluation{Seed: c.seed, Epoch: 12}
		want.Images, want.Samples, want.Runs = c.images, c.samples, c.runs
		want.Data, want.Trained = set.Name, "synthetic"
		want.ELBO, want.ELBOSD = eval.MeanSD(elbos)
		want.NLL, want.NLLSD = eval.MeanSD(nlls)
		want.TailShape, _ = eval.MeanSD(tails)
		limit := min(1-1/math.Log10(float64(c.samples)), 0.7)
		for _, k := range tails {
			if k > limit {
				want.HeavyTails += 1 / eval.Number(len(tails))
			}
		}
		if c.samples < 100 {
			want.HeavyTails = eval.Number(math.NaN())
		}
		ofImages := cmpopts.IgnoreFields(evaluation{}, "Seconds", "ImageELBO", "ImageNLL")
		if diff := cmp.Diff(want, got, cmp.Comparer(closeTo[eval.Number]), ofImages); diff != "" {
			t.Errorf("%s: the evaluation (-want +got):\n%s", c.flags, diff)
		}
		elbo, _ := eval.MeanSD(got.ImageELBO)
		nll, _ := eval.MeanSD(got.ImageNLL)
		if len(got.ImageELBO) != c.images || !closeTo(elbo, got.ELBO) || !closeTo(nll, got.NLL) || !(got.Seconds > 0) {
			t.Errorf("%s: the evaluation %+v contradicts its values for images", c.flags, got)
		}
	}
}

func TestModelsThatHaveDivergedFail(t *testing.T) {
	name, c := trained(t, model.Config{Kind: "hvae", K: 2, Tempering: "free", Latent: 2}, 1)
	for _, p := range c.Params() {
		copy(p.Value.Data, slices.Repeat([]float32{math.MaxFloat32, -math.MaxFloat32}, len(p.Value.Data)))
	}
	write(t, c.Encode(), name)
	out := filepath.Join(t.TempDir(), "out")
	for args, want := range map[string]string{
		"eval -limit 2 -samples 2 -data synthetic": name + ": the evaluation is not finite (ELBO undefined, NLL ",
		"sample":                      "the model is damaged or has diverged",
		"reconstruct -data synthetic": "a picture would have pixels that are not finite",
	} {
		_, stderr, status := mnist(t.Context(), append(strings.Fields(args), "-checkpoint", name, "-o", out)...)
		if _, err := os.Stat(out); status != 1 || !strings.Contains(stderr, want) || err == nil {
			t.Errorf("%s: status %d, stderr %q; want %q, and no file", args, status, stderr, want)
		}
	}
	v := evaluation{Evaluation: eval.Evaluation{ImageLower: []float64{math.Inf(-1)}}}
	err := new(evalFlags).print(c, v, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "the evaluation is not finite") {
		t.Errorf("a lower bound of −∞ gives the error %v", err)
	}
}
