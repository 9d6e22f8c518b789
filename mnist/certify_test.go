package main

import (
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"hvae/ad"
	"hvae/linalg"
	"hvae/linalg/numeric"
	"hvae/linalg/random"
	"hvae/mnist/data"
	"hvae/mnist/eval"
	"hvae/mnist/model"
)

// logEvidence returns log p(x) = log ∫ p(x, z) dz for a model with one latent variable z. It computes the integral as a
// sum over equidistant points from −8 to 8.
func logEvidence(c model.Checkpoint, x linalg.Matrix[float32]) float64 {
	const n, edge = 200, 8.0
	z := linalg.New[float32](1, n+1)
	for j := range z.Cols {
		z.Data[j] = float32(edge * (2*float64(j)/n - 1))
	}
	var tape ad.Tape[float32]
	terms := make([]float64, n+1)
	for j, l := range c.Const(&tape).Flow(tape.Const(x)).Target.LogJoint(tape.Const(z)).Value.Data {
		terms[j] = float64(l) + math.Log(2*edge/n)
	}
	return numeric.LogSumExp(terms)
}

// The bounds that eval -method ais prints must agree with log p(x), which is computed here by quadrature for the same
// images. The other results must be the same as without -method ais.
func TestBoundsAgreeWithTheEvidence(t *testing.T) {
	set := ownImages(t, 12, 3) // so few that the step sizes are tuned on two validation images, which saves time
	for _, c := range []struct {
		config       model.Config
		name, flags  string
		images, runs int
	}{
		{model.Config{Kind: "hvae", K: 2, Tempering: "free", Latent: 1}, "hvae, K = 2, free tempering",
			"-runs 1 -data " + set.Folder, 3, 1},
		{model.Config{Kind: "vae", Tempering: "none", Latent: 1}, "vae", "-simulated -limit 2 -runs 2", 2, 2},
	} {
		file, checkpoint := trained(t, c.config, 4)
		flags := append(strings.Fields(c.flags), "-seed", "8", "-samples", "50", "-checkpoint", file)
		ais := append(flags[:len(flags):len(flags)], "-method", "ais", "-steps", "17", "-chains", "8")
		got := runEval(t, c.name, ais...)
		exact := 0.0
		for r := range c.runs {
			for i := range c.images {
				x := linalg.New[float32](784, 1)
				if got.Data == "simulated" {
					x, _ = eval.Simulate(checkpoint, random.Stream(8, "mnist eval simulated", r, i))
				} else {
					data.Binarise(x, 0, set.Test.Image(i), random.Stream(8, "mnist eval pixels", r, i))
				}
				exact += logEvidence(checkpoint, x) / float64(c.runs*c.images)
			}
		}
		const tight = 0.1 // nats; larger than the gap and the random error of the bounds
		near := func(a, b eval.Number) bool { return math.Abs(float64(a-b)) <= tight }
		mean, se := eval.MeanSE(got.ImageLower)
		switch {
		case !near(got.Lower, eval.Number(exact)) || got.Data == "simulated" && !near(got.Upper, eval.Number(exact)):
			t.Errorf("%s: log p(x) is %.3f, but the bounds are %.3f and %.3f", c.flags, exact, got.Lower, got.Upper)
		case !closeTo(got.Missed, got.Lower+got.NLL) || !closeTo(got.Gap, got.Upper-got.Lower),
			got.Data == "simulated" && !closeTo(got.ReverseGap, got.ReverseUpper+got.NLL),
			!closeTo(mean, got.Lower) || !closeTo(se, got.LowerSE):
			t.Errorf("%s: the results contradict each other: %+v", c.flags, got)
		case !(got.Acceptance > 0.4 && got.Acceptance < 0.9):
			t.Errorf("%s: the acceptance is %v, want 0.4 to 0.9", c.flags, got.Acceptance)
		}
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3)) // the results must not depend on the number of cores
		if c.runs == 1 {
			first := runEval(t, c.name, append(ais, "-limit", "1")...)
			if first.ImageLower[0] != got.ImageLower[0] {
				t.Errorf("%s: with -limit 1 on three cores, the first bound is %v, not %v", c.flags, first.ImageLower, got.ImageLower)
			}
		}
		without := runEval(t, c.name, flags...)
		bounds := cmpopts.IgnoreFields(evaluation{}, "Seconds", "Method", "Steps", "Chains", "Lower", "LowerSE", "Upper",
			"UpperSE", "Gap", "GapSE", "Missed", "MissedSE", "Acceptance", "ImageLower")
		if diff := cmp.Diff(without, got, bounds, cmp.Comparer(closeTo[eval.Number])); diff != "" {
			t.Errorf("%s: the results with -method ais (-without +with):\n%s", c.flags, diff)
		}
	}
}
