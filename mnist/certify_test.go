package main

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hvae/ad"
	"hvae/linalg"
	"hvae/linalg/random"
	"hvae/mnist/data"
	"hvae/mnist/model"
)

// logEvidence returns log p(x) = log ∫ p(x, z) dz for a model with one latent variable z. It computes the integral as a
// sum over n + 1 points from −8 to 8.
func logEvidence(c model.Checkpoint, x linalg.Matrix[float32]) float64 {
	const n, edge = 800, 8.0
	z := linalg.New[float32](1, n+1)
	for j := range z.Cols {
		z.Data[j] = float32(edge * (2*float64(j)/n - 1))
	}
	var tape ad.Tape[float32]
	network := c.Const(&tape)
	logits := network.Decode(tape.Const(z)).Value
	terms := make([]float64, n+1)
	for j := range terms {
		terms[j] = -float64(z.Data[j])*float64(z.Data[j])/2 + math.Log(2*edge/n/math.Sqrt(2*math.Pi))
		for i, pixel := range x.Data {
			a := float64(logits.At(i, j))
			terms[j] += float64(pixel)*a - math.Log1p(math.Exp(-math.Abs(a))) - max(a, 0)
		}
	}
	return linalg.LogSumExp(terms)
}

// simulatedImage draws image i of a run as eval -simulated does: first z, then each pixel.
func simulatedImage(c model.Checkpoint, seed uint64, run, i int) linalg.Matrix[float32] {
	var tape ad.Tape[float32]
	network := c.Const(&tape)
	rng := random.Stream(seed, "mnist eval simulated", run, i)
	z := linalg.New[float32](c.Config.Latent, 1)
	for k := range z.Data {
		z.Data[k] = float32(rng.NormFloat64())
	}
	x := linalg.New[float32](784, 1)
	for p, logit := range network.Decode(tape.Const(z)).Value.Data {
		if float64(rng.Float32()) < 1/(1+math.Exp(-float64(logit))) {
			x.Data[p] = 1
		}
	}
	return x
}

// On any number of cores, the bounds that eval -method ais prints must agree with log p(x), which is computed here by
// quadrature for the same images. The other numbers that eval prints must agree with each other and with the output of
// '-method is'.
func TestBoundsAgreeWithTheEvidence(t *testing.T) {
	set := digits(t)
	for _, c := range []struct {
		config       model.Config
		images, runs int
		flags        string // for -method is and -method ais
		annealing    string
	}{
		{model.Config{Kind: "vae", Tempering: "none", Latent: 1}, 2, 2, "-seed 7 -limit 2 -runs 2 -samples 50", "-simulated"},
		{model.Config{Kind: "hvae", K: 2, Tempering: "free", Latent: 1}, 3, 1, "-data synthetic -seed 7 -limit 3 -runs 1 -samples 60", ""},
	} {
		name, checkpoint := trained(t, c.config, 4)
		run := func(more string) string {
			t.Helper()
			stdout, _ := mustRun(t, append([]string{"eval", "-checkpoint", name}, strings.Fields(c.flags+" "+more)...)...)
			return stdout
		}
		flags := "-method ais -steps 32 -chains 12 " + c.annealing
		got, text := jsonLines[map[string]any](t, run(flags+" -json"))[0], ""
		func() {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
			text = run(flags)
		}()
		exact := 0.0
		for r := range c.runs {
			for i := range c.images {
				x := linalg.New[float32](784, 1)
				if c.annealing == "-simulated" {
					x = simulatedImage(checkpoint, 7, r, i)
				} else {
					data.Binarise(x, 0, set.Test.Image(i), random.Stream(7, "mnist eval pixels", r, i))
				}
				exact += logEvidence(checkpoint, x) / float64(c.runs*c.images)
			}
		}
		const tight = 0.1 // nats; larger than the gap and the random error of the bounds
		number := func(key string) string { return fmt.Sprintf("%.2f ± %.2f", got[key], got[key+"_se"]) }
		want := fmt.Sprintf("annealed importance sampling, 32 steps, 12 chains, acceptance %.2f (± standard errors over images)\nlog p(x) ≥ %s\n", got["acceptance"], number("lower"))
		lower := got["lower"].(float64)
		mean := 0.0
		for _, v := range got["image_lower"].([]any) {
			mean += v.(float64) / float64(c.images)
		}
		if !(math.Abs(mean-lower) <= 1e-9) {
			t.Errorf("%s: the lower bounds of the images are %v, but their mean is %v", flags, got["image_lower"], lower)
		}
		if missed := got["missed"].(float64); !(math.Abs(lower-exact) <= tight) || !(math.Abs(missed-(lower+got["nll"].(float64))) <= 1e-9) {
			t.Errorf("%s: the lower bound is %.3f, with missed = %v and nll = %v, but log p(x) is %.3f", flags, lower, missed, got["nll"], exact)
		}
		if c.annealing == "-simulated" {
			upper := got["upper"].(float64)
			if !(math.Abs(upper-exact) <= tight) || !(math.Abs(got["gap"].(float64)-(upper-lower)) <= 1e-9) {
				t.Errorf("%s: the upper bound is %.3f and the gap is %v, but log p(x) is %.3f", flags, upper, got["gap"], exact)
			}
			want += fmt.Sprintf("log p(x) ≤ %s, a gap of %s\n", number("upper"), number("gap"))
			want = fmt.Sprintf("log p(x) ≤ %s from reverse paths, a gap of %s (± standard errors over images)\n", number("reverse_upper"), number("reverse_gap")) + want
			if gap := got["reverse_upper"].(float64) + got["nll"].(float64); !(math.Abs(got["reverse_gap"].(float64)-gap) <= 1e-9) {
				t.Errorf("%s: the gap of the reverse bound is %v, want %v", flags, got["reverse_gap"], gap)
			}
		} else {
			if got["upper"] != nil || got["gap"] != nil || got["upper_se"] != nil || got["gap_se"] != nil {
				t.Errorf("%s: the object contains upper bounds, although the images are not simulated: %v", flags, got)
			}
			for key, v := range jsonLines[map[string]any](t, run("-json"))[0] {
				if !cmp.Equal(got[key], v) && key != "seconds" {
					t.Errorf("%s: %s = %v, want %v as with -method is", flags, key, got[key], v)
				}
			}
		}
		fields := 29
		if c.annealing == "-simulated" {
			fields = 33
		}
		want += fmt.Sprintf("the importance-sampling estimate is %s below the lower bound\n", number("missed"))
		if a := got["acceptance"].(float64); !(a > 0.4 && a < 0.9) || got["method"] != "ais" || got["steps"] != 32.0 || got["chains"] != 12.0 || len(got) != fields {
			t.Errorf("%s: acceptance %v, want 0.4 to 0.9, and %d fields, want %d: %v", flags, a, len(got), fields, got)
		}
		if !strings.HasSuffix(text, want) {
			t.Errorf("%s prints\n%swant at the end\n%s", flags, text, want)
		}
	}
}
