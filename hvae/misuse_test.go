package hvae_test

import (
	"context"
	"math"
	"testing"

	"hvae/ad"
	"hvae/hvae"
	"hvae/hvae/hvaetest"
	"hvae/linalg"
)

// summed is an invalid target. Its PotentialGradient returns a matrix [1×B] instead of [ℓ×B].
type summed struct{ hvaetest.Quadratic }

func (summed) PotentialGradient(z *ad.Var[float64]) *ad.Var[float64] { return ad.SumTo(z, 1, z.Cols()) }

// unshaped is an invalid variational prior. Its Draw returns a log density [1×1] instead of [1×B].
type unshaped struct{}

func (unshaped) Draw(epsilon *ad.Var[float64]) (z0, logDensity *ad.Var[float64]) {
	return epsilon, epsilon.Tape().Scalar(0)
}

var none context.Context

// Each mistake in a flow, a target or a prior must cause a panic whose message contains the given text.
func TestMisuseOfFlowsAndPriorsPanics(t *testing.T) {
	var tp ad.Tape[float64]
	z, flat := tp.Fill(2, 3, 0), hvaetest.Quadratic{} // p(x, z) = 1
	draw := func(prior hvae.Prior[float64], change func(f *hvae.Flow[float64])) func() {
		return func() {
			f := &hvae.Flow[float64]{Target: flat, K: 3, StepSize: tp.Fill(1, 2, 0.1)}
			change(f)
			hvae.HIS(f, prior, z, z)
		}
	}
	flow := func(change func(f *hvae.Flow[float64])) func() { return draw(hvae.StandardNormal[float64]{}, change) }
	untied := func(alpha, s *ad.Var[float64]) func() {
		f := &hvae.Flow[float64]{Target: flat, K: 3, Tempering: hvae.UntiedTempering(alpha, s)}
		return func() { f.Inverse(hvae.Phase[float64]{Z: z, Rho: z}) }
	}
	prior := func(q hvae.Prior[float64]) func() { return draw(q, func(*hvae.Flow[float64]) {}) }
	diagonal := func(mean, sd *ad.Var[float64]) func() { return prior(hvae.DiagonalNormal[float64]{Mean: mean, SD: sd}) }
	alpha := tp.Fill(3, 1, 0.9)
	for want, f := range map[string]func(){
		"Flow.Target is nil":                       flow(func(f *hvae.Flow[float64]) { f.Target = nil }),
		"Flow.K is -1; it must be at least 0":      flow(func(f *hvae.Flow[float64]) { f.K = -1 }),
		"the step size is nil":                     flow(func(f *hvae.Flow[float64]) { f.StepSize = nil }),
		"the step size is [1×3]; it must be [1×2]": flow(func(f *hvae.Flow[float64]) { f.StepSize = tp.Fill(1, 3, 0.1) }),
		"the step size is [2×2]; it must be [3×2]": flow(func(f *hvae.Flow[float64]) { f.StepSize = tp.Fill(2, 2, 0.1) }),
		"Tempering.Alpha or MomentumSD is nil":     untied(nil, tp.Scalar(1)),
		"α is [4×1]; it must be [3×1]":             untied(tp.Fill(4, 1, 1), tp.Scalar(1)),
		"α is [3×3]; it must be [3×2]":             untied(tp.Fill(3, 3, 1), tp.Scalar(1)),
		"s is [1×3]; it must be [1×2]":             untied(alpha, tp.Fill(1, 3, 1)),
		"s is [3×1]; it must be [1×1]":             untied(alpha, alpha),
		"log joint density is [2×3]; it must be [1×3]": flow(
			func(f *hvae.Flow[float64]) { f.Target = density(ad.Square[float64]) }),
		"potential gradient is [1×3]; it must be [2×3]": flow(func(f *hvae.Flow[float64]) { f.Target = summed{} }),

		"the variational prior is nil":                                   prior(nil),
		"log q⁰(z₀) of the variational prior is [1×1]; it must be [1×3]": prior(unshaped{}),
		"DiagonalNormal.Mean or SD is nil":                               diagonal(z, nil),
		"DiagonalNormal.Mean is [1×1]; it must be [2×1]":                 diagonal(tp.Scalar(0), z),
		"DiagonalNormal.SD is [1×1]; it must be [2×1]":                   diagonal(z, tp.Scalar(1)),
		"Normal.Mean is nil":                                             prior(hvae.Normal[float64]{Factor: z}),
		"Normal.Factor is [2×1]; it must be [2×2]":                       prior(hvae.Normal[float64]{Mean: z, Factor: tp.Fill(2, 1, 1)}),

		"the momentum is [1×3]; it must be [2×3]": func() {
			(&hvae.Flow[float64]{Target: flat}).Inverse(hvae.Phase[float64]{Z: z, Rho: tp.Fill(1, 3, 0)})
		},
		"FixedTempering: 1/√β₀ is [2×1]; it must be [1×1]":    func() { hvae.FixedTempering(3, tp.Fill(2, 1, 1.5)) },
		"FixedTempering: 1/√β₀ is 0.5; it must be at least 1": func() { hvae.FixedTempering(3, tp.Scalar(0.5)) },
		"FreeTempering: α is nil":                             func() { hvae.FreeTempering[float64](nil) },
		"FreeTempering: an element of α is greater than 1":    func() { hvae.FreeTempering(tp.Fill(3, 1, 1.5)) },
		"Unconstrain: 0.6 is not in the interval (0, 0.5)":    func() { hvae.Unconstrain(0.6, 0, 0.5) },
		"Constrain: the interval is (1, 1)":                   func() { hvae.Constrain(z, 1, 1) },
		"Constrain: the interval is (-Inf, 0)":                func() { hvae.Constrain(z, math.Inf(-1), 0) },
	} {
		mustPanic(t, want, f)
	}
}

func TestMisuseOfAISPanics(t *testing.T) {
	for want, change := range map[string]func(a *hvae.AIS[float64]){
		"AIS.Target is nil": func(a *hvae.AIS[float64]) { a.Target = nil },
		"the target is nil": func(a *hvae.AIS[float64]) { a.Target = func(*ad.Tape[float64]) hvae.Target[float64] { return nil } },
		"AIS has Steps = 2, Leapfrogs = 3 and 0 StepSizes": func(a *hvae.AIS[float64]) { a.StepSizes = nil },
		"AIS has Steps = 0":        func(a *hvae.AIS[float64]) { a.Steps, a.StepSizes = 0, nil },
		"Leapfrogs = 0":            func(a *hvae.AIS[float64]) { a.Leapfrogs = 0 },
		"DiagonalNormal.Mean is [": func(a *hvae.AIS[float64]) { a.Mean = linalg.Column(0.0, 0) },
	} {
		a := annealed(hvaetest.Bimodal, 2)
		change(a)
		mustPanic(t, want, func() { a.Reverse(t.Context(), linalg.New[float64](1, 3), chains(3)) })
	}
	mustPanic(t, "the context is nil", func() { annealed(hvaetest.Bimodal, 2).Forward(none, chains(3)) })
}

func TestMisuseOfTrainersPanics(t *testing.T) {
	step := func(o hvae.Optimiser[float64], b hvae.Batch, bound func(*hvae.Param[float64]) hvae.Bound[float64]) func() {
		p := parameter(1.0)
		return func() { hvae.NewTrainer(p, o, bound(p[0])).Step(t.Context(), b) }
	}
	bound := func(f hvae.Bound[float64]) func() {
		return step(hvae.RMSProp[float64]{}, hvae.Draws(3), func(*hvae.Param[float64]) hvae.Bound[float64] { return f })
	}
	for want, f := range map[string]func(){
		"the optimiser is nil":                   step(nil, hvae.Draws(3), sampled),
		"the batch is empty; it must have":       step(hvae.RMSProp[float64]{}, hvae.Draws(0), sampled),
		"the bound is nil":                       bound(nil),
		"the bound of a block is nil":            bound(func(*hvae.Block[float64]) *ad.Var[float64] { return nil }),
		"the context is nil":                     func() { new(hvae.Evaluator[float64]).Evidence(none, 3, 1, nil) },
		"the bound of a block is [1×0]; it must": bound(func(b *hvae.Block[float64]) *ad.Var[float64] { return b.Noise(1, 0) }),
		"index out of range": bound( // because a batch of Draws has no columns
			func(b *hvae.Block[float64]) *ad.Var[float64] { return b.Columns(linalg.New[float64](1, 5)) }),
	} {
		mustPanic(t, want, f)
	}
}
