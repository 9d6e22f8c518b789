package hvae_test

import (
	"math"
	"testing"

	"hvae/ad"
	"hvae/hvae"
	"hvae/hvae/hvaetest"
	"hvae/linalg"
	"hvae/linalg/random"
)

// The reverse sample of the end of a path must be the sample of the path, with the same log p̂, for every shape of α, s and
// ε, and for targets with and without a closed form.
func TestReverseHISOfTheEndOfAPathIsThePath(t *testing.T) {
	const dims, draws = 2, 5
	var tape ad.Tape[float64]
	constant := func(rows, cols int, values ...float64) *ad.Var[float64] {
		return tape.Const(linalg.Of(rows, cols, values))
	}
	for name, f := range map[string]*hvae.Flow[float64]{
		"K = 0":        {Target: hvaetest.Bimodal},
		"no tempering": {K: 2, Target: hvaetest.Bimodal, StepSize: constant(2, 2, 0.2, 0.3, 0.4, 0.1)},
		"closed form":  {K: 2, Target: conjugate{linalg.Column(1.0, -2)}, StepSize: constant(1, 2, 0.2, 0.3)},
		"fixed":        {K: 2, Target: hvaetest.Bimodal, StepSize: constant(1, 2, 0.2, 0.3), Tempering: hvae.FixedTempering(2, tape.Scalar(1.4))},
		"free [K×ℓ]":   {K: 2, Target: hvaetest.Bimodal, StepSize: constant(2, 2, 0.2, 0.3, 0.4, 0.1), Tempering: hvae.FreeTempering(constant(2, 2, 0.8, 0.9, 0.7, 0.6))},
		"untied [K×1]": {K: 2, Target: hvaetest.Bimodal, StepSize: constant(1, 2, 0.2, 0.3), Tempering: hvae.UntiedTempering(constant(2, 1, 0.8, 1.3), constant(1, 1, 1.2))},
		"untied [K×ℓ]": {K: 2, Target: hvaetest.Bimodal, StepSize: constant(1, 2, 0.2, 0.3), Tempering: hvae.UntiedTempering(constant(2, 2, 0.8, 1.3, 0.7, 0.9), constant(1, 2, 1.2, 0.9))},
	} {
		noise := linalg.New[float64](2*dims, draws)
		random.FillNormal(random.Stream(1, "reverse"), noise)
		prior := hvae.DiagonalNormal[float64]{Mean: constant(2, 1, 0.3, -1), SD: constant(2, 1, 0.5, 2)}
		s := hvae.HIS(f, prior, tape.Const(noise.RowRange(0, dims)), tape.Const(noise.RowRange(dims, 2*dims)))
		back := hvae.ReverseHIS(f, prior, s.End.Z, s.End.Rho)
		for quantity, pair := range map[string][2]*ad.Var[float64]{
			"z₀":     {back.Start.Z, s.Start.Z},
			"ρ₀":     {back.Start.Rho, s.Start.Rho},
			"log p̂": {back.LogEstimate(), s.LogEstimate()},
		} {
			got, want := pair[0].Value.Data, pair[1].Value.Data
			if e := hvaetest.Distance(got, want) / hvaetest.Norm(want); !(e <= 1e-12) {
				t.Errorf("%s: the relative error of %s is %.2g", name, quantity, e)
			}
		}
	}
}

func TestReverseEstimateAveragesOverMomentaFirst(t *testing.T) {
	// Two momenta for each of three z, with the means 4, 2 and 0 of 1/p̂.
	logs := []float64{-math.Log(3), -math.Log(5), -math.Log(4), math.Inf(1), math.NaN(), math.NaN()}
	e := hvae.ReverseEstimate(logs, 2)
	if want := -math.Log(2); !(math.Abs(e.Log-want) <= 1e-15) {
		t.Errorf("log p(x) is estimated as %v, want −log 2 = %v", e.Log, want)
	}
	if want := math.Sqrt(1.0 / 3); !(math.Abs(e.StandardError-want) <= 1e-15) { // of 2, 1 and 0
		t.Errorf("the standard error is %v, want %v", e.StandardError, want)
	}
	if e.Draws != 3 || e.Diverged != 2 {
		t.Errorf("there are %d draws and %d diverged estimates, want 3 and 2", e.Draws, e.Diverged)
	}
	mustPanic(t, "6 estimates do not fit 4 momenta", func() { hvae.ReverseEstimate(logs, 4) })
}
