package hvae_test

import (
	"context"
	"fmt"
	"math"
	"reflect"
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
	z, rho, flat := tp.Fill(2, 3, 0), tp.Fill(2, 3, 0), hvaetest.Quadratic{} // p(x, z) = 1
	draw := func(prior hvae.Prior[float64], change func(f *hvae.Flow[float64])) func() {
		return func() {
			f := &hvae.Flow[float64]{Target: flat, K: 3, StepSize: tp.Fill(1, 2, 0.1)}
			change(f)
			hvae.HIS(f, prior, z, rho)
		}
	}
	his := func(f *hvae.Flow[float64], epsilon, gamma0 *ad.Var[float64]) func() {
		return func() { hvae.HIS(f, hvae.StandardNormal[float64]{}, epsilon, gamma0) }
	}
	vae, column := &hvae.Flow[float64]{Target: flat}, linalg.New[float64](3, 1)
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
		"α is [3×3]; it must be [3×2]":             untied(tp.Fill(3, 3, 1), tp.Scalar(1)),
		"α is [1×3]; it must be [3×2]": flow(
			func(f *hvae.Flow[float64]) { f.Tempering = hvae.FreeTempering(tp.Fill(1, 3, 0.9)) }),
		"s is [1×3]; it must be [1×2]": untied(alpha, tp.Fill(1, 3, 1)),
		"s is [3×1]; it must be [1×1]": untied(alpha, alpha),
		"log joint density is [2×3]; it must be [1×3]": flow(
			func(f *hvae.Flow[float64]) { f.Target = density(ad.Square[float64]) }),
		"potential gradient is [1×3]; it must be [2×3]": flow(func(f *hvae.Flow[float64]) { f.Target = summed{} }),

		"HIS: the variational prior is nil":                              prior(nil),
		"log q⁰(z₀) of the variational prior is [1×1]; it must be [1×3]": prior(unshaped{}),
		"Mean or SD of q⁰ is nil":                                        diagonal(z, nil),
		"Mean of q⁰ is [1×1]; it must be [2×1]":                          diagonal(tp.Scalar(0), z),
		"SD of q⁰ is [1×1]; it must be [2×1]":                            diagonal(z, tp.Scalar(1)),
		"Below of q⁰ is nil":                                             prior(hvae.Normal[float64]{Mean: z, SD: z}),
		"Below of q⁰ is [2×1]; it must be [2×2]":                         prior(hvae.Normal[float64]{Mean: z, SD: z, Below: tp.Fill(2, 1, 1)}),

		"the momentum is [1×3]; it must be [2×3]": func() {
			(&hvae.Flow[float64]{Target: flat}).Inverse(hvae.Phase[float64]{Z: z, Rho: tp.Fill(1, 3, 0)})
		},
		"FixedTempering: 1/√β₀ is [2×1]; it must be [1×1]":    func() { hvae.FixedTempering(3, tp.Fill(2, 1, 1.5)) },
		"FixedTempering: 1/√β₀ is 0.5; it must be at least 1": func() { hvae.FixedTempering(3, tp.Scalar(0.5)) },
		"FreeTempering: α is nil":                             func() { hvae.FreeTempering[float64](nil) },
		"FreeTempering: an element of α is greater than 1":    func() { hvae.FreeTempering(tp.Fill(3, 1, 1.5)) },
		"the flow is nil":                          his(nil, z, rho),
		"HIS: ε is nil":                            his(vae, nil, rho),
		"the momentum is nil":                      his(vae, z, nil),
		"HIS: ε and γ₀ are the same variable or":   his(vae, z, tp.Const(z.Value)),
		"are the same variable or share memory; t": his(vae, ad.RowRange(tp.Const(column), 0, 2), ad.RowRange(tp.Const(column), 1, 3)),
		"ReverseHIS: the variational prior is nil": func() { hvae.ReverseHIS(vae, nil, z, rho) },
		"the position is nil":                      func() { hvae.ReverseHIS(vae, hvae.StandardNormal[float64]{}, nil, z) },

		"ImportanceBound: L is 0 for log p̂ [1×3]":                           func() { hvae.ImportanceBound(tp.Fill(1, 3, 0), 0) },
		"ImportanceBound: L is 2 for log p̂ [1×3]; log p̂ must be [1×(B·L)]": func() { hvae.ImportanceBound(tp.Fill(1, 3, 0), 2) },
		"ImportanceBound: L is 1 for log p̂ [2×3]":                           func() { hvae.ImportanceBound(z, 1) },
		"ImportanceEstimate: the number of draws is 0; it":                   func() { hvae.ImportanceEstimate(nil) },
		"ImportanceBound: log p̂ is nil":                                     func() { hvae.ImportanceBound[float64](nil, 1) },
		"Unconstrain: 0.6 is not in the interval (0, 0.5)":                   func() { hvae.Unconstrain(0.6, 0, 0.5) },
		"Unconstrain: -1 is not in the interval (-Inf, 0)":                   func() { hvae.Unconstrain(-1, math.Inf(-1), 0) },
		"Constrain: the interval is (1, 1)":                                  func() { hvae.Constrain(z, 1, 1) },
		"Constrain: the interval is (-Inf, 0)":                               func() { hvae.Constrain(z, math.Inf(-1), 0) },
	} {
		mustPanic(t, want, f)
	}
}

func TestMisuseOfAISPanics(t *testing.T) {
	for want, change := range map[string]func(a *hvae.AIS[float64]){
		"AIS.Target is nil": func(a *hvae.AIS[float64]) { a.Target = nil },
		"the target is nil": func(a *hvae.AIS[float64]) { a.Target = func(*ad.Tape[float64]) hvae.Target[float64] { return nil } },
		"AIS has Steps = 2, Leapfrogs = 3 and 0 StepSizes": func(a *hvae.AIS[float64]) { a.StepSizes = nil },
		"AIS has Steps = 0": func(a *hvae.AIS[float64]) { a.Steps, a.StepSizes = 0, nil },
		"Leapfrogs = 0":     func(a *hvae.AIS[float64]) { a.Leapfrogs = 0 },
		"AIS has Mean [2×1] and SD [1×1]; both must be [ℓ": func(a *hvae.AIS[float64]) { a.Mean = linalg.New[float64](2, 1) },
		"AIS has Mean [1×1] and SD [2×1]":                  func(a *hvae.AIS[float64]) { a.SD = linalg.New[float64](2, 1) },
		"AIS has Mean [1×2] and":                           func(a *hvae.AIS[float64]) { a.Mean = linalg.New[float64](1, 2) },
		"and SD [1×2]":                                     func(a *hvae.AIS[float64]) { a.SD = linalg.New[float64](1, 2) },
	} {
		a := annealed(hvaetest.Bimodal, 2)
		change(a)
		mustPanic(t, want, func() { a.Reverse(t.Context(), linalg.New[float64](1, 3), chains(3)) })
		if a.Steps > 0 && a.StepSizes != nil { // Tune makes the step sizes
			mustPanic(t, want, func() { a.Tune(t.Context(), chains(3)) })
		}
	}
	a, z := annealed(hvaetest.Bimodal, 1), linalg.New[float64](1, 3)
	for want, f := range map[string]func(){
		"the context is nil": func() { a.Forward(none, chains(3)) },
		"AIS: the number of streams is 0; it must be at least 1": func() { a.Forward(t.Context(), nil) },
		"AIS: a stream is nil": func() { a.Forward(t.Context(), append(chains(1), nil)) },
		"AIS.Reverse: z is [1×3]; it must be [1×2] for 2 streams": func() { a.Reverse(t.Context(), z, chains(2)) },
		"AIS.Reverse: z is [3×1]; it must be [1×1] for 1 streams": func() { a.Reverse(t.Context(), linalg.New[float64](3, 1), chains(1)) },
		"AIS.Evidence: n is 0; it must be at least 1":             func() { a.Evidence(t.Context(), 0, 1) },
	} {
		mustPanic(t, want, f)
	}
}

func TestMisuseOfTrainersPanics(t *testing.T) {
	type block = *hvae.Block[float64]
	trainer := func(ps ...*hvae.Param[float64]) func() {
		return func() { hvae.NewTrainer(ps, hvae.RMSProp[float64]{Rate: 1}, nil) }
	}
	memory := []float64{1, 2, 3}
	param := func(name string, lo, hi int) *hvae.Param[float64] {
		return &hvae.Param[float64]{Name: name, Value: linalg.Column(memory[lo:hi]...)}
	}
	step := func(size int, b hvae.Batch, bound hvae.Bound[float64]) func() {
		return func() {
			tr := hvae.NewTrainer(parameter(1.0), hvae.RMSProp[float64]{Rate: 1}, bound)
			tr.BlockSize = size
			tr.Step(t.Context(), b)
		}
	}
	bound := func(f hvae.Bound[float64]) func() { return step(0, hvae.Draws(3), f) }
	columns := func(rows, cols int, b hvae.Batch) func() {
		return step(0, b, func(b block) *ad.Var[float64] { return b.Columns(linalg.New[float64](rows, cols)) })
	}
	a := param("a", 0, 2)
	for want, f := range map[string]func(){
		"NewTrainer: the number of parameters is 0; it must be at least 1": trainer(),
		"NewTrainer: parameter 1, counted from 0, is nil":                  trainer(a, nil),
		`the parameters "a" and "a" are the same or share memory`:          trainer(a, a),
		`the parameters "a" and "b" are the same or share memory`:          trainer(a, param("b", 1, 3)),
		`the parameters "b" and "c" are the same or share memory`:          trainer(param("b", 0, 3), param("c", 1, 2)),
		"NewTrainer: the optimiser is nil":                                 func() { hvae.NewTrainer(parameter(1.0), nil, nil) },
		`the parameter "a" was not passed to NewTrainer; for a constant`:   bound(func(b block) *ad.Var[float64] { return b.Var(a) }),
		"Block.Var: the parameter is nil":                                  bound(func(b block) *ad.Var[float64] { return b.Var(nil) }),

		"of the batch is 0; it must be at":                     step(0, hvae.Draws(0), nil),
		"BlockSize is -1; it must be at least 0":               step(-1, hvae.Draws(3), nil),
		"Draws: n is -2; it must be at least 0":                func() { hvae.Draws(-2) },
		"the bound is nil":                                     bound(nil),
		"the bound of a block is nil":                          bound(func(block) *ad.Var[float64] { return nil }),
		"the context is nil":                                   func() { new(hvae.Evaluator[float64]).Evidence(none, 3, 1, nil) },
		"the bound of a block is [1×0]; it must":               bound(func(b block) *ad.Var[float64] { return b.Noise(1, 0) }),
		"the data [2×5] have no column -1; all columns of Dra": columns(2, 5, hvae.Draws(3)),
		"the data [2×5] have no column 5":                      columns(2, 5, hvae.Batch{0, 5}),
	} {
		mustPanic(t, want, f)
	}
}

// A bad learning rate must cause a panic before a parameter or an average is written, and the step must not count.
func TestBadLearningRatePanicsAndChangesNothing(t *testing.T) {
	for _, rate := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		for _, o := range []hvae.Optimiser[float64]{hvae.Adamax[float64]{Rate: rate}, &hvae.RMSProp[float64]{Rate: rate}} {
			params := parameter(1.0, 2)
			trainer := hvae.NewTrainer(params, o, sampled(params[0]))
			before := trainer.State()
			mustPanic(t, "the learning rate is "+fmt.Sprint(rate), func() { trainer.Step(t.Context(), hvae.Draws(3)) })
			if after := trainer.State(); !reflect.DeepEqual(after, before) {
				t.Errorf("the rate %v changes the state of %T from %+v to %+v", rate, o, before, after)
			}
		}
	}
}
