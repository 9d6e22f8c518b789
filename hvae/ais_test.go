package hvae_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"hvae/ad"
	"hvae/hvae"
	"hvae/hvae/hvaetest"
	"hvae/linalg"
	"hvae/linalg/numeric"
	"hvae/linalg/random"
)

// Annealed importance sampling estimates a lower and an upper bound on the log evidence, −1.3, of a target with two
// modes. The upper bound needs exact draws from the posterior.
func ExampleAIS() {
	const chains = 200
	streams := func(purpose string) (s []*rand.Rand) {
		for j := range chains {
			s = append(s, random.Stream(1, purpose, j))
		}
		return s
	}
	ais := &hvae.AIS[float64]{
		Target:    func(*ad.Tape[float64]) hvae.Target[float64] { return hvaetest.Bimodal },
		Mean:      linalg.Column(0.0), // q⁰ = N(0, 2²)
		SD:        linalg.Column(2.0),
		Steps:     400,
		Leapfrogs: 5,
	}
	ctx := context.Background() // if ctx is done, Tune, Forward and Reverse return its error
	ais.StepSizes, _ = ais.Tune(ctx, streams("tuning"))
	end, lower, _ := ais.Forward(ctx, streams("chains"))
	mean, se := numeric.MeanSE(lower)
	// The example prints log p(x) to only one decimal place. An exponential may differ by one ulp on another processor,
	// and a proposal may then be accepted instead of rejected, which changes the later digits.
	fmt.Printf("log p(x) ≥ %.1f, standard error %.2f, acceptance %.1f\n", mean, se, end.Acceptance)

	z := linalg.New[float64](1, chains)
	hvaetest.Bimodal.FillPosterior(random.Stream(1, "posterior"), z)
	_, upper, _ := ais.Reverse(ctx, z, streams("reverse chains"))
	mean, se = numeric.MeanSE(upper)
	fmt.Printf("log p(x) ≤ %.1f, standard error %.2f\n", mean, se)
	// Output:
	// log p(x) ≥ -1.3, standard error 0.01, acceptance 0.7
	// log p(x) ≤ -1.3, standard error 0.01
}

// annealed returns an AIS from q⁰ = N(0, 1) to the given target in one dimension, with a step size of 0.8.
func annealed(target hvae.Target[float64], steps int) *hvae.AIS[float64] {
	return &hvae.AIS[float64]{
		Target: func(*ad.Tape[float64]) hvae.Target[float64] { return target },
		Mean:   linalg.Column(0.0), SD: linalg.Column(1.0),
		Steps: steps, Leapfrogs: 3, StepSizes: slices.Repeat([]float64{0.8}, steps-1),
	}
}

// chains returns the random streams of n chains.
func chains(n int) (streams []*rand.Rand) {
	for j := range n {
		streams = append(streams, random.Stream(1, "ais", j))
	}
	return streams
}

func TestEachAISChainDependsOnlyOnItsStream(t *testing.T) {
	run := func(n int) []float64 {
		a, streams := annealed(hvaetest.Bimodal, 5), chains(n)
		_, forward, _ := a.Forward(t.Context(), streams)
		_, backward, _ := a.Reverse(t.Context(), linalg.New[float64](1, n), streams)
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
		steps int
		omega float64
	}{{2, 2}, {10, 3}, {150, 20}} {
		a, streams := annealed(hvaetest.Quadratic{Omega: c.omega}, c.steps), chains(200)
		a.Mean, a.SD = linalg.New[float64](30, 1), linalg.New[float64](30, 1)
		a.SD.Fill(1)
		a.StepSizes, _ = a.Tune(t.Context(), streams)
		end, _, _ := a.Forward(t.Context(), streams)
		if rate := end.Acceptance; !(math.Abs(rate-0.65) <= 0.05) {
			t.Errorf("the acceptance probability of %d kernels is %.3f, want 0.65 ± 0.05", c.steps-1, rate)
		}
	}
}

// cliff returns a target with p(x, z) = N(z | 0, 1) for z < 1, and the given log p(x, z) for z ≥ 1.
func cliff(beyond float64) density {
	return func(z *ad.Var[float64]) *ad.Var[float64] {
		l := hvae.LogNormal(z)
		for j, v := range z.Value.Data {
			if v >= 1 {
				l.Value.Data[j] = beyond
			}
		}
		return l
	}
}

// A chain must not move to a point of density 0 or NaN, and log p̂ must not be NaN. From density 0, p̂ must be 0.
func TestAISRejectsProposalsWithoutDensity(t *testing.T) {
	for _, beyond := range []float64{math.Inf(-1), math.NaN()} {
		a := annealed(cliff(beyond), 50)
		a.StepSizes = slices.Repeat([]float64{2}, 49)
		start := linalg.Of(1, 4, []float64{0.9, 0, -3, 0.5})
		if math.IsInf(beyond, -1) {
			start.Data[3] = 1.5
		}
		end, logEstimates, err := a.Reverse(t.Context(), start, chains(4))
		noError(t, err)
		for j, l := range logEstimates {
			if z, zero := end.Z.Data[j], start.Data[j] >= 1; math.IsNaN(l) || math.IsInf(l, -1) != zero || !(z < 1) {
				t.Errorf("beyond the cliff, log p is %v: the chain from %v ends at %v with log p̂ = %v", beyond, start.Data[j], z, l)
			}
		}
		if rate := end.Acceptance; !(rate > 0.1 && rate < 0.99) {
			t.Errorf("the acceptance probability is %v, want between 0.1 and 0.99", rate)
		}
	}
}

// Training can produce settings like those in this test, so they must cause an error, not a panic.
func TestAISReturnsAnErrorIfItCannotStart(t *testing.T) {
	for want, change := range map[string]func(a *hvae.AIS[float64]){
		"log q⁰(z) is NaN; neither may be NaN, and SD": func(a *hvae.AIS[float64]) { a.SD = linalg.Column(0.0) },
		"and SD must be positive":                      func(a *hvae.AIS[float64]) { a.SD = linalg.Column(-1.0) },
		"log p(x, z) is NaN and":                       func(a *hvae.AIS[float64]) { a.Mean = linalg.Column(200.0) },
		"the estimate is -Inf": func(a *hvae.AIS[float64]) {
			*a = *annealed(cliff(math.Inf(-1)), 2)
			a.Mean = linalg.Column(200.0)
		},
	} {
		a := annealed(cliff(math.NaN()), 2)
		change(a)
		if _, err := a.Evidence(t.Context(), 3, 1); !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("Evidence returns the error %v, want an error that contains %q", err, want)
		}
	}
}

// The target is evaluated once for the initial states and three times per kernel, so the third of nine kernels makes
// evaluations 8 to 10. Evaluation 9 cancels the context, so this kernel must be the last to run.
func TestCancelledAISReturnsAnError(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context, a *hvae.AIS[float64]) error{
		"Forward": func(ctx context.Context, a *hvae.AIS[float64]) error {
			_, _, err := a.Forward(ctx, chains(2))
			return err
		},
		"Evidence": func(ctx context.Context, a *hvae.AIS[float64]) error { _, err := a.Evidence(ctx, 2, 1); return err },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		evaluations := 0
		err := call(ctx, annealed(density(func(z *ad.Var[float64]) *ad.Var[float64] {
			if evaluations++; evaluations == 9 {
				cancel()
			}
			return hvae.LogNormal(z)
		}), 10))
		if err != context.Canceled || evaluations != 10 {
			t.Errorf("%s evaluates the target %d times, want 10, and returns the error %v", name, evaluations, err)
		}
	}
}
