package hvae_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"hvae/ad"
	"hvae/hvae"
	"hvae/hvae/hvaetest"
	"hvae/linalg"
)

// unsummed is a target whose LogJoint returns a matrix [ℓ×B] instead of [1×B].
type unsummed struct{}

func (unsummed) LogJoint(z *ad.Var[float64]) *ad.Var[float64] { return ad.Square(z) }

// summed is an invalid target. Its PotentialGradient returns a matrix [1×B] instead of [ℓ×B].
type summed struct{ hvaetest.Quadratic }

func (summed) PotentialGradient(z *ad.Var[float64]) *ad.Var[float64] { return ad.SumTo(z, 1, z.Cols()) }

// unshaped is an invalid variational prior. Its Draw returns a log density [1×1] instead of [1×B].
type unshaped struct{}

func (unshaped) Draw(epsilon *ad.Var[float64]) (z0, logDensity *ad.Var[float64]) {
	return epsilon, epsilon.Tape().Scalar(0)
}

var none context.Context

// Each mistake must panic with a message that contains the given text.
func TestMisuseOfFlowsAndPriorsPanics(t *testing.T) {
	var tp ad.Tape[float64]
	z := tp.Fill(2, 3, 0)
	forward := func(target hvae.Target[float64], K int, epsilon *ad.Var[float64], tempering hvae.Tempering[float64]) func() {
		return func() {
			f := &hvae.Flow[float64]{Target: target, K: K, StepSize: epsilon, Tempering: tempering}
			f.Forward(hvae.Phase[float64]{Z: z, Rho: z})
		}
	}
	his := func(target hvae.Target[float64], prior hvae.Prior[float64]) hvae.Sample[float64] {
		return hvae.HIS(&hvae.Flow[float64]{Target: target}, prior, z, z)
	}
	normal := func(meanRows, meanCols, sdRows, sdCols int) hvae.DiagonalNormal[float64] {
		return hvae.DiagonalNormal[float64]{Mean: tp.Fill(meanRows, meanCols, 0), SD: tp.Fill(sdRows, sdCols, 1)}
	}
	flat, standard, untempered := hvaetest.Quadratic{}, hvae.StandardNormal[float64]{}, hvae.Tempering[float64]{} // p(x, z) = 1
	for want, f := range map[string]func(){
		"Flow.Target is nil":                  forward(nil, 0, nil, untempered),
		"Flow.K is -1; it must be at least 0": forward(flat, -1, nil, untempered),
		"the momentum is [3×2]; it must be [2×3]": func() {
			(&hvae.Flow[float64]{Target: flat}).Forward(hvae.Phase[float64]{Z: z, Rho: tp.Fill(3, 2, 0)})
		},
		"the momentum is [1×3]; it must be [2×3]": func() {
			hvae.Leapfrog(flat, tp.Fill(1, 2, 0.1), hvae.Phase[float64]{Z: z, Rho: tp.Fill(1, 3, 0)})
		},
		"the step size is [1×3] for z [2×3]; it must be [1×2], or [1×2] with one row per step": forward(flat, 1, tp.Fill(1, 3, 0.1), untempered),
		"the step size is [2×2] for z [2×3]; it must be [1×2], or [3×2] with one row per step": forward(flat, 3, tp.Fill(2, 2, 0.1), untempered),
		"the step size is nil": forward(flat, 3, nil, untempered),
		"α is [4×1] and s is [1×1] for a flow of K = 3 steps and ℓ = 2 dimensions; α must be":       forward(flat, 3, tp.Fill(1, 2, 0.1), hvae.FreeTempering(tp.Fill(4, 1, 0.9))),
		"1/√β₀ is [2×1]; it must be [1×1]":                                                          func() { hvae.FixedTempering(3, tp.Fill(2, 1, 1.5)) },
		"1/√β₀, the momentum's standard deviation, contains 0.5; all elements must be in [1, +Inf]": func() { hvae.FixedTempering(3, tp.Scalar(0.5)) },
		"FreeTempering: α contains 1.5; all elements must be in [0, 1]":                             func() { hvae.FreeTempering(tp.Fill(3, 1, 1.5)) },
		"UntiedTempering: s contains -1; all elements must be in [0, +Inf]":                         func() { hvae.UntiedTempering(tp.Fill(3, 1, 1.5), tp.Scalar(-1)) },
		"UntiedTempering: s is [3×1]; it must have one row":                                         func() { hvae.UntiedTempering(tp.Fill(3, 1, 1.5), tp.Fill(3, 1, 1)) },
		"s is [1×3] for a flow of K = 3 steps and ℓ = 2 dimensions":                                 forward(flat, 3, tp.Fill(1, 2, 0.1), hvae.UntiedTempering(tp.Fill(3, 1, 1.5), tp.Fill(1, 3, 1))),
		"log joint density is [2×3]; it must be [1×3]":                                              func() { his(unsummed{}, standard) },
		"potential gradient is [1×3]; it must be [2×3]":                                             forward(summed{}, 1, tp.Fill(1, 2, 0.1), untempered),
		"log q⁰(z₀) of the variational prior is [1×1]; it must be [1×3]":                            func() { his(flat, unshaped{}) },
		"DiagonalNormal.Mean is [1×1]; it must be [2×1]":                                            func() { his(flat, normal(1, 1, 2, 1)) },
		"shapes [2×2], [2×3] and [2×3]":                                                             func() { his(flat, normal(2, 3, 2, 2)) },
		"DiagonalNormal.SD is [1×1]; it must be [3×1]":                                              func() { normal(3, 1, 1, 1).Divergence() },
		"the variational prior is nil":                                                              func() { his(flat, nil) },
		"DiagonalNormal.Mean or SD is nil":                                                          func() { his(flat, hvae.DiagonalNormal[float64]{Mean: z}) },
		"FreeTempering: α is nil":                                                                   func() { hvae.FreeTempering[float64](nil) },
		"the target is nil":                                                                         func() { hvae.PotentialGradient(nil, z) },
		"Unconstrain: 0.6 is not in the interval (0, 0.5)":                                          func() { hvae.Unconstrain(0.6, 0, 0.5) },
		"Constrain: the interval is (1, 1)":                                                         func() { hvae.Constrain(z, 1, 1) },
		"Constrain: the interval is (0, NaN)":                                                       func() { hvae.Constrain(z, 0, math.NaN()) },
		"Constrain: the interval is (-Inf, 0)":                                                      func() { hvae.Constrain(z, math.Inf(-1), 0) },
	} {
		mustPanic(t, want, f)
	}
}

func TestMisuseOfAISPanics(t *testing.T) {
	for want, change := range map[string]func(a *hvae.AIS[float64]){
		"AIS.Target is nil":                                 func(a *hvae.AIS[float64]) { a.Target = nil },
		"AIS has Steps = 2 but 0 StepSizes":                 func(a *hvae.AIS[float64]) { a.StepSizes = nil },
		"AIS.Steps is 0; it must be at least 1":             func(a *hvae.AIS[float64]) { a.Steps = 0 },
		"AIS.Leapfrogs is 0; it must be at least 1":         func(a *hvae.AIS[float64]) { a.Leapfrogs = 0 },
		"AIS has 3 streams for z [1×4]; it needs 4 streams": func(a *hvae.AIS[float64]) {},
		"AIS has z [1×4] but Mean [2×1] and SD [1×1]; all":  func(a *hvae.AIS[float64]) { a.Mean = linalg.Column(0.0, 0) },
	} {
		a := annealed(hvaetest.Bimodal, 2)
		a.StepSizes = []float64{1}
		change(a)
		mustPanic(t, want, func() { a.Reverse(t.Context(), linalg.New[float64](1, 4), chains(3)) })
	}
	mustPanic(t, "the context is nil", func() { annealed(hvaetest.Bimodal, 1).Forward(none, chains(3)) })
}

// These settings may come from a trained model, so they lead to an error and not to a panic.
func TestAISReturnsAnErrorIfItCannotStart(t *testing.T) {
	for want, change := range map[string]func(a *hvae.AIS[float64]){
		"log q⁰(z) is NaN; neither may be NaN, and SD": func(a *hvae.AIS[float64]) { a.SD = linalg.Column(0.0) },
		"log p(x, z) is NaN and":                       func(a *hvae.AIS[float64]) { a.Mean = linalg.Column(2.0) },
	} {
		a := annealed(cliff{math.NaN()}, 2) // log p is NaN for z ≥ 1
		a.SD, a.StepSizes = linalg.Column(0.01), []float64{1}
		change(a)
		_, _, forward := a.Forward(t.Context(), chains(3))
		_, _, reverse := a.Reverse(t.Context(), linalg.Of(1, 3, []float64{2, 2, 2}), chains(3))
		_, tune := a.Tune(t.Context(), chains(3), 1)
		for name, err := range map[string]error{"Forward": forward, "Reverse": reverse, "Tune": tune} {
			if !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("%s returns the error %v, want an error that contains %q", name, err, want)
			}
		}
	}
}

func TestMisuseOfTrainersPanics(t *testing.T) {
	step := func(o hvae.Optimiser[float64], batch hvae.Batch, bound hvae.Bound[float64]) func() {
		return func() { hvae.NewTrainer(parameter(1.0), o, bound).Step(t.Context(), batch) }
	}
	rate := func(rate float64) func() {
		p := parameter(1.0)
		return func() {
			hvae.NewTrainer(p, hvae.Adamax[float64]{Rate: rate}, sampled(p[0])).Step(t.Context(), hvae.Draws(3))
		}
	}
	bound := func(f hvae.Bound[float64]) func() { return step(hvae.RMSProp[float64]{}, hvae.Draws(3), f) }
	for want, f := range map[string]func(){
		"the optimiser is nil":            step(nil, hvae.Draws(3), nil),
		"the learning rate is NaN":        rate(math.NaN()),
		"the learning rate is -1":         rate(-1),
		"the batch has 0 columns; it mus": step(hvae.RMSProp[float64]{}, hvae.Draws(0), nil),
		"the bound is nil":                bound(nil),
		"the bound of a block is nil":     bound(func(*hvae.Block[float64]) *ad.Var[float64] { return nil }),
		"the context is nil":              func() { new(hvae.Evaluator[float64]).Evidence(none, 3, 1, nil) },
		"the bound of a block is [1×0]; it must be [1×3]": bound(
			func(b *hvae.Block[float64]) *ad.Var[float64] { return b.Noise(1, 0) }),
		"index out of range": bound( // because a batch of Draws has no columns
			func(b *hvae.Block[float64]) *ad.Var[float64] { return b.Columns(linalg.New[float64](1, 5)) }),
	} {
		mustPanic(t, want, f)
	}
}
