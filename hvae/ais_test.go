package hvae_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"hvae/ad"
	"hvae/hvae"
	"hvae/hvae/hvaetest"
	"hvae/linalg"
	"hvae/linalg/random"
)

// Annealed importance sampling estimates a lower and an upper bound on the log evidence of a
// target with two modes. The upper bound needs exact draws from the posterior.
func ExampleAIS() {
	const chains = 200
	streams := func(purpose string) (s []*rand.Rand) {
		for j := range chains {
			s = append(s, random.Stream(1, purpose, j))
		}
		return s
	}
	ais := &hvae.AIS[float64]{
		Target:    func(*ad.Tape[float64]) hvae.Target[float64] { return twoModes },
		Mean:      linalg.Column(0.0), // q⁰ = N(0, 2²)
		SD:        linalg.Column(2.0),
		Steps:     400,
		Leapfrogs: 5,
	}
	ctx := context.Background() // if ctx is done, Tune, Forward and Reverse return its error
	ais.StepSizes, _ = ais.Tune(ctx, streams("tuning"), 3)
	end, lower, _ := ais.Forward(ctx, streams("chains"))
	mean, se := linalg.MeanSE(lower)
	// An exponential may differ by one ulp on another processor. A proposal may then be accepted
	// instead of rejected, which changes the later digits. The example therefore prints only one
	// decimal of log p(x).
	fmt.Printf("log p(x) ≥ %.1f, standard error %.2f, acceptance %.1f\n", mean, se, end.Acceptance)

	z := linalg.New[float64](1, chains)
	twoModes.FillPosterior(random.Stream(1, "posterior"), z)
	_, upper, _ := ais.Reverse(ctx, z, streams("reverse chains"))
	mean, se = linalg.MeanSE(upper)
	fmt.Printf("log p(x) ≤ %.1f, standard error %.2f\n", mean, se)
	// Output:
	// log p(x) ≥ -3.0, standard error 0.01, acceptance 0.7
	// log p(x) ≤ -3.0, standard error 0.01
}

// annealed returns an AIS from q⁰ = N(0, 1) to the given target in one dimension. The caller must set StepSizes.
func annealed(target hvae.Target[float64], steps int) *hvae.AIS[float64] {
	return &hvae.AIS[float64]{
		Target: func(*ad.Tape[float64]) hvae.Target[float64] { return target },
		Mean:   linalg.Column(0.0), SD: linalg.Column(1.0), Steps: steps, Leapfrogs: 3,
	}
}

// chains returns the random streams of n chains.
func chains(n int) (streams []*rand.Rand) {
	for j := range n {
		streams = append(streams, random.Stream(1, "ais", j))
	}
	return streams
}

// A counter is a target that counts evaluations of its density.
type counter struct {
	hvae.Target[float64]
	evaluations int
}

func (c *counter) LogJoint(z *ad.Var[float64]) *ad.Var[float64] {
	c.evaluations++
	return c.Target.LogJoint(z)
}

func TestAISEvaluatesOneGradientPerLeapfrogStep(t *testing.T) {
	for _, steps := range []int{1, 2, 7} {
		c := &counter{Target: hvaetest.Bimodal}
		a := annealed(c, steps)
		a.StepSizes = make([]float64, steps-1)
		end, _, _ := a.Forward(t.Context(), chains(10))
		if rate := end.Acceptance; math.IsNaN(rate) != (steps == 1) {
			t.Errorf("after %d kernels, the acceptance probability is %v", steps-1, rate)
		}
		if want := 1 + (steps-1)*a.Leapfrogs; c.evaluations != want {
			t.Errorf("AIS with Steps = %d evaluates the target %d times, want %d", steps, c.evaluations, want)
		}
	}
}

func TestEachAISChainDependsOnlyOnItsStream(t *testing.T) {
	const steps = 5
	run := func(n int) []float64 {
		a, streams := annealed(hvaetest.Bimodal, steps), chains(n)
		a.StepSizes = []float64{0.9, 0.8, 0.7, 0.6}
		_, forward, _ := a.Forward(context.Background(), streams)
		_, backward, _ := a.Reverse(context.Background(), linalg.New[float64](1, n), streams)
		return append(forward, backward...)
	}
	few, many := run(3), run(8)
	for i, want := range few {
		if got := many[i/3*8+i%3]; got != want {
			t.Errorf("chain %d: log p̂ is %v with 8 chains, but %v with 3 chains", i%3, got, want)
		}
	}
}

func TestTunedKernelsAcceptTwoThirdsOfProposals(t *testing.T) {
	for _, c := range []struct {
		steps, passes int
		omega         float64
	}{{2, 20, 2}, {10, 60, 3}, {300, 1, 20}} {
		a, streams := annealed(hvaetest.Quadratic{Omega: c.omega}, c.steps), chains(200)
		a.Mean, a.SD = linalg.New[float64](30, 1), linalg.New[float64](30, 1)
		a.SD.Fill(1)
		a.StepSizes, _ = a.Tune(t.Context(), streams, c.passes)
		end, _, _ := a.Forward(t.Context(), streams)
		if rate := end.Acceptance; !(math.Abs(rate-0.65) <= 0.05) {
			t.Errorf("after %d passes over %d kernels, the acceptance probability is %.3f, want 0.65 ± 0.05", c.passes, c.steps-1, rate)
		}
	}
}

// cliff is a target with p(x, z) = N(z | 0, 1) for z < 1. For z ≥ 1, log p(x, z) is the field beyond.
type cliff struct{ beyond float64 }

func (c cliff) LogJoint(z *ad.Var[float64]) *ad.Var[float64] {
	l := hvae.LogNormal(z)
	for j, v := range z.Value.Data {
		if v >= 1 {
			l.Value.Data[j] = c.beyond
		}
	}
	return l
}

func TestAISEstimateIsZeroIfTheChainStartsWhereDensityIsZero(t *testing.T) {
	for _, steps := range []int{1, 2, 5} {
		a, start := annealed(cliff{math.Inf(-1)}, steps), annealed(cliff{math.Inf(-1)}, 1)
		a.StepSizes = slices.Repeat([]float64{0.1}, steps-1)
		_, logEstimates, _ := a.Forward(t.Context(), chains(100))
		first, _, _ := start.Forward(t.Context(), chains(100))
		for j, l := range logEstimates {
			if z := first.Z.Data[j]; math.IsNaN(l) || math.IsInf(l, -1) != (z >= 1) {
				t.Fatalf("Steps = %d, z₀ = %v: log p̂ is %v, want −Inf for z₀ ≥ 1 and a finite number for z₀ < 1", steps, z, l)
			}
		}
	}
}

func TestAISRejectsNaN(t *testing.T) {
	a := annealed(cliff{math.NaN()}, 50)
	a.SD = linalg.Column(0.1) // so that all chains start at z < 1
	a.StepSizes = slices.Repeat([]float64{4}, 49)
	end, logEstimates, _ := a.Forward(t.Context(), chains(100))
	for j, l := range logEstimates {
		if z := end.Z.Data[j]; math.IsNaN(l) || !(z < 1) {
			t.Fatalf("chain %d ends at z = %v with log p̂ = %v, want z < 1 and log p̂ not NaN", j, z, l)
		}
	}
	if rate := end.Acceptance; !(rate > 0.1) || !(rate < 0.99) {
		t.Errorf("the acceptance probability is %v, want between 0.1 and 0.99", rate)
	}
}

// Without cancellation, Tune evaluates the target 56 times. Evaluation 5 cancels the context within the second kernel.
// This kernel ends with evaluation 7 and must be the last. Forward and Reverse run the chains by the same function.
func TestCancelledAISReturnsAnError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	evaluations := 0
	a := annealed(nil, 10)
	a.Target = func(*ad.Tape[float64]) hvae.Target[float64] {
		if evaluations++; evaluations == 5 {
			cancel()
		}
		return hvaetest.Bimodal
	}
	if _, err := a.Tune(ctx, chains(2), 2); err != context.Canceled || evaluations > 7 {
		t.Errorf("after cancellation, Tune evaluates the target %d times and returns the error %v", evaluations, err)
	}
}
