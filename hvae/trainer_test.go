package hvae_test

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"hvae/ad"
	"hvae/hvae"
	"hvae/hvae/hvaetest"
	"hvae/linalg"
)

// gradients is an optimiser that keeps the number and gradient of the last step and adds the gradient to the parameter.
type gradients[T linalg.Float] struct {
	step int
	last []T
}

func (o *gradients[T]) Ascend(step int, theta, gradient []T, _ linalg.Matrix[T]) {
	o.step, o.last = step, slices.Clone(gradient)
	for i, g := range gradient {
		theta[i] += g
	}
}

// parameter returns a list with one parameter, "theta", which has the given elements.
func parameter[T linalg.Float](values ...T) (ps hvae.Params[T]) {
	ps.Add("theta", linalg.Column(values...))
	return ps
}

// sampled returns the bound −½‖θ − ε‖². Here, θ is the parameter theta [n×1], and ε ~ N(0, I) is the noise of a column.
func sampled(theta *hvae.Param[float64]) hvae.Bound[float64] {
	return func(b *hvae.Block[float64]) *ad.Var[float64] {
		r := ad.Sub(b.Var(theta), b.Noise(theta.Value.Rows, 1))
		return ad.Scale(ad.MulSumTo(r, r, 1, b.Size), -0.5)
	}
}

// In float32, 1e8 + 1 = 1e8. Adding 1e8, 1, −1e8, 1 and 1 from left to right therefore gives 2, but most other orders
// give a different sum. Several goroutines add the gradients, because the parameter has 100,000 elements.
func TestGradientsOfBlocksAreAddedInOrder(t *testing.T) {
	slopes, theta := []float32{1e8, 1, -1e8, 1, 1}, make([]float32, 100_000)
	theta[0] = 1
	for _, procs := range []int{1, 2, 5} {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		o, params := new(gradients[float32]), parameter(theta...)
		trainer := hvae.NewTrainer(params, o, func(b *hvae.Block[float32]) *ad.Var[float32] {
			if b.Batch[0] == 0 {
				time.Sleep(time.Millisecond) // so that other blocks finish before the first
			}
			return ad.Scale(ad.Sum(b.Var(params[0])), slopes[b.Batch[0]])
		})
		trainer.BlockSize = 1
		elbo, err := trainer.Step(t.Context(), hvae.Batch{0, 1, 2, 3, 4})
		if err != nil || elbo != 3./5 { // bounds are added in float64
			t.Errorf("GOMAXPROCS %d: the bound is %v, want 0.6; error %v", procs, elbo, err)
		}
		if i := slices.IndexFunc(o.last, func(g float32) bool { return g != 2./5 }); i >= 0 {
			t.Errorf("GOMAXPROCS %d: element %d of the gradient is %v, want 0.4", procs, i, o.last[i])
		}
	}
}

// The bound of data column j is (7 + 2j)(θ₁ + θ₂), where θ = (2, 3). For each batch and block size, each element of the
// gradient must be the batch's mean of 7 + 2j, and the bound five times this mean, whatever the earlier batches were.
func TestStepAveragesOverBatchesAndBlocksOfAnySize(t *testing.T) {
	data := linalg.Of(2, 7, []float64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13})
	for _, size := range []int{0, 1, 2, 5, 7, 100} {
		o, params := new(gradients[float64]), parameter(2.0, 3)
		theta := params[0]
		trainer := hvae.NewTrainer(params, o, func(b *hvae.Block[float64]) *ad.Var[float64] {
			return ad.Mul(ad.Sum(b.Var(theta)), ad.SumTo(b.Columns(data), 1, b.Size))
		})
		trainer.BlockSize, params[0] = size, nil // the trainer has a copy of the list
		for _, batch := range []hvae.Batch{{4, 0, 0}, {6, 5, 4, 3, 2, 1, 0}, {1, 3}, {2}, {0, 3, 4, 4, 6}} {
			copy(theta.Value.Data, []float64{2, 3})
			mean, want := 0.0, []float64{}
			for _, j := range batch {
				mean, want = mean+float64(7+2*j)/float64(len(batch)), append(want, 5*float64(7+2*j))
			}
			alone, values, err := trainer.Evaluate(t.Context(), batch, 1, trainer.Bound)
			if err != nil || !slices.Equal(values, want) {
				t.Errorf("BlockSize %d: Evaluate returns %v, %v; want %v", size, values, err, want)
			}
			bound, err := trainer.Step(t.Context(), batch)
			got, expected := append(o.last, alone, bound), []float64{mean, mean, 5 * mean, 5 * mean}
			if !(hvaetest.Distance(got, expected) <= 1e-13*mean) || bound != alone || o.step != trainer.Steps() || err != nil {
				t.Errorf("BlockSize %d, columns %v: gradient and bounds are %v, want %v; error %v", size, batch, got, expected, err)
			}
		}
	}
}

// A step must change the parameters of its trainer and no others. If the bound leaves a parameter of the trainer
// unused, Step returns an error. A zero gradient is not an error. In an evaluation, any parameter is a constant.
// Trainers do not share running averages.
func TestStepUpdatesExactlyTheParametersOfTheTrainer(t *testing.T) {
	for _, scale := range []float64{0, 1} {
		var params hvae.Params[float64]
		start := linalg.Column(1.0)
		a, b := params.Add("a", start), params.Add("b", start) // start is copied
		bound := func(block *hvae.Block[float64]) *ad.Var[float64] {
			return ad.Add(sampled(a)(block), ad.Scale(ad.Exp(block.Var(b)), scale))
		}
		constant := func(block *hvae.Block[float64]) *ad.Var[float64] {
			return ad.Add(sampled(a)(block), ad.Scale(ad.Exp(block.Tape.Const(b.Value)), scale))
		}
		first := hvae.NewTrainer(params[:1], hvae.Adamax[float64]{Rate: 0.1}, constant)
		elbo, err := first.Step(t.Context(), hvae.Draws(3))
		if err != nil || a.Value.Data[0] == 1 || b.Value.Data[0] != 1 || (elbo > 0) != (scale > 0) {
			t.Errorf("a step for a gives the bound %v, a = %v, b = %v and the error %v", elbo, a.Value.Data, b.Value.Data, err)
		}
		want, _, _ := first.Evaluate(t.Context(), hvae.Draws(3), 1, first.Bound)
		if got, _, err := first.Evaluate(t.Context(), hvae.Draws(3), 1, bound); got != want || err != nil {
			t.Errorf("with parameter b as a constant, the bound is %v, want %v; error %v", got, want, err)
		}
		averages := first.State().Params[0].Averages
		_, err = hvae.NewTrainer(params, hvae.Adamax[float64]{Rate: 0.1}, bound).Step(t.Context(), hvae.Draws(3))
		if moved := b.Value.Data[0] != 1; err != nil || moved != (scale > 0) {
			t.Errorf("a step for a and b gives b = %v and the error %v", b.Value.Data, err)
		}
		if got := first.State().Params[0].Averages; !reflect.DeepEqual(got, averages) || got.Data[0] == 0 {
			t.Errorf("after a step of another trainer, the averages are %v, want %v", got, averages)
		}
		before := a.Value.Data[0]
		_, err = hvae.NewTrainer(params, new(gradients[float64]), sampled(a)).Step(t.Context(), hvae.Draws(3))
		if !strings.Contains(fmt.Sprint(err), `does not depend on the parameter "b"`) || a.Value.Data[0] != before {
			t.Errorf("with an unused parameter, Step returns the error %v and changes a from %v to %v", err, before, a.Value.Data)
		}
	}
}

// Restore must reject a state that does not fit the trainer, without changing the trainer. The trainer must not share
// memory with a state. (ExampleTrainer_Restore tests that a restored run continues bit-identically.)
func TestRestoreRejectsStatesThatDoNotFit(t *testing.T) {
	var params hvae.Params[float64]
	params.Add("a", linalg.Column(1.0, 2))
	params.Add("b", linalg.Column(0.3))
	trainer := hvae.NewTrainer(params, hvae.Adamax[float64]{Rate: 0.1}, nil)
	before := trainer.State()
	for want, damage := range map[string]func(s *hvae.State[float64]){
		"with -1 steps and":               func(s *hvae.State[float64]) { s.Steps = -1 },
		`"hvae.RMSProp" and 2`:            func(s *hvae.State[float64]) { s.Optimiser = "hvae.RMSProp" },
		"and 1 parameters, ":              func(s *hvae.State[float64]) { s.Params = s.Params[:1] },
		`"c" [1×1]`:                       func(s *hvae.State[float64]) { s.Params[1].Name = "c" },
		`"a" [1×2]`:                       func(s *hvae.State[float64]) { s.Params[0].Value.Rows, s.Params[0].Value.Cols = 1, 2 },
		`"a" [2×1] of 1 elements`:         func(s *hvae.State[float64]) { s.Params[0].Value.Data = []float64{1} },
		"[0×0] of 0 elements into":        func(s *hvae.State[float64]) { s.Params[1].Averages = linalg.Matrix[float64]{} },
		`parameter "a", or an average of`: func(s *hvae.State[float64]) { s.Params[0].Value.Data[1] = math.NaN() },
		`parameter "b", or an average of`: func(s *hvae.State[float64]) { s.Params[1].Averages.Data[1] = math.NaN() },
	} {
		s := trainer.State()
		damage(&s)
		err := trainer.Restore(s)
		if !strings.Contains(fmt.Sprint(err), want) || !reflect.DeepEqual(trainer.State(), before) {
			t.Errorf("Restore returns the error %v, want one that contains %q; the state is %+v", err, want, trainer.State())
		}
	}
	s := hvae.NewTrainer(params, &hvae.Adamax[float64]{}, nil).State() // a pointer to Adamax is the same optimiser
	s.Steps, s.Seed = 7, 8
	err := trainer.Restore(s)
	for _, shared := range []hvae.State[float64]{s, trainer.State()} { // the trainer must not notice these changes
		shared.Params[0].Value.Data[0]++
		shared.Params[0].Averages.Data[0]++
	}
	got := trainer.State()
	a := got.Params[0]
	if err != nil || got.Steps != 7 || got.Seed != 8 || a.Value.Data[0] != 1 || a.Averages.Data[0] != 0 {
		t.Errorf("Restore returns the error %v and restores %+v", err, got)
	}
}

// Noise must depend on the seed, the step or evaluation, and the column's position in the batch, and on nothing else.
func TestNoiseIsSeparateForColumnsStepsSeedsAndEvaluations(t *testing.T) {
	const n = 7
	run := func(seed uint64, procs, blockSize, L int) (noise []float64) {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		drawn, params := make([]float64, 2*n*L), parameter(1.0)
		trainer := hvae.NewTrainer(params, new(gradients[float64]), func(b *hvae.Block[float64]) *ad.Var[float64] {
			copy(drawn[b.First*L:], b.Noise(1, L).Value.Data)
			copy(drawn[(n+b.First)*L:], b.Noise(1, L).Value.Data)
			return sampled(params[0])(b)
		})
		trainer.BlockSize, trainer.Seed = blockSize, seed
		for i := range 5 { // three steps and two evaluations
			var err error
			if i < 3 {
				_, err = trainer.Step(t.Context(), hvae.Draws(n))
			} else {
				_, _, err = trainer.Evaluate(t.Context(), hvae.Draws(n), seed+uint64(i-3)*10, trainer.Bound)
			}
			noError(t, err)
			noise = append(noise, drawn...)
		}
		return noise
	}
	for _, L := range []int{1, 3} {
		first := run(1, 1, 7, L)
		all := append(run(2, 1, 7, L), first...)
		if distinct := slices.Compact(slices.Sorted(slices.Values(all))); len(distinct) != len(all) {
			t.Errorf("L = %d: only %d of %d draws differ", L, len(distinct), len(all))
		}
		for _, size := range []int{1, 2, 3} {
			if !slices.Equal(run(1, 3, size, L), first) {
				t.Errorf("L = %d: the noise depends on the block size, %d instead of 7, or on the number of cores", L, size)
			}
		}
	}
}

// If the context is done before a call or in its first block, no further block may run, and the state must not change.
func TestCancelledCallDoesNotChangeState(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, name := range []string{"Step", "Evaluate"} {
		ctx, cancel := context.WithCancel(t.Context())
		calls, params := 0, parameter(1.0)
		trainer := hvae.NewTrainer(params, hvae.Adamax[float64]{Rate: 0.1}, func(b *hvae.Block[float64]) *ad.Var[float64] {
			calls++
			cancel()
			return sampled(params[0])(b)
		})
		trainer.BlockSize = 2
		before := trainer.State()
		for range 2 { // in the second call, the context is done from the start
			var err error
			if name == "Step" {
				_, err = trainer.Step(ctx, hvae.Draws(8))
			} else {
				_, _, err = trainer.Evaluate(ctx, hvae.Draws(8), 1, trainer.Bound)
			}
			if err != context.Canceled || calls != 1 || !reflect.DeepEqual(trainer.State(), before) {
				t.Errorf("%s returns the error %v after %d calls of the bound; the state is %+v", name, err, calls, trainer.State())
			}
		}
	}
}

// In each case c, the bound is c.f(θ + c.shift) for column 4, counted from 0, and c.f(θ + 1) for all other columns.
// Step must return an error with c.elbo and c.where, and not change the parameter. If c.elbo is empty, only the
// gradient is not finite. Otherwise, Evaluate must also return an error with both strings.
func TestNonFiniteStepIsReportedAndNotTaken(t *testing.T) {
	steep := func(x *ad.Var[float64]) *ad.Var[float64] { return ad.Div(x, ad.AddConst(ad.Square(x), 1e-310)) }
	infinite := func(x *ad.Var[float64]) *ad.Var[float64] { return ad.Add(x, x.Tape().Scalar(math.Inf(1))) }
	huge := func(x *ad.Var[float64]) *ad.Var[float64] { return ad.Scale(x, 0.5e308) }
	const advice = "; a likely cause is a flow whose step size is too large: use a smaller ε, or another Seed"
	for _, c := range []struct {
		f            func(x *ad.Var[float64]) *ad.Var[float64]
		theta, shift float64
		elbo, where  string
	}{
		{ad.Exp[float64], math.NaN(), 1, "", "columns 0 to 1 of the batch, first in a leaf, [1×1], whose element (0, 0) is NaN, counted from 0, the parameter theta"},
		{ad.Log[float64], 0, -1, "NaN", "columns 4 to 5 of the batch, first in the operation ad.log, [1×2], whose element (0, 0) is NaN"},
		{ad.Log[float64], 0, 0, "-Inf", "columns 4 to 5 of the batch, first in the operation ad.log, [1×2], whose element (0, 0) is -Inf"},
		{infinite, 0, 0, "+Inf", "columns 0 to 1 of the batch, first in a constant, [1×1], whose element (0, 0) is +Inf"},
		{huge, 0, 0, "+Inf", "in the sum over blocks, but finite in each block"},
		{steep, 0, 0, "", "in the gradient of theta"},
	} {
		o, params := new(gradients[float64]), parameter(c.theta)
		trainer := hvae.NewTrainer(params, o, func(b *hvae.Block[float64]) *ad.Var[float64] {
			x := b.Tape.Fill(1, b.Size, 1)
			if b.First == 4 {
				x.Value.Data[0] = c.shift
			}
			// The error must name the operation, even if it is inside Recomputed.
			return ad.Recomputed(func(a []*ad.Var[float64]) *ad.Var[float64] { return c.f(a[0]) }, ad.Add(b.Var(params[0]), x))
		})
		trainer.BlockSize = 2
		_, err := trainer.Step(t.Context(), hvae.Draws(8))
		text := fmt.Sprint(err)
		right := strings.Contains(text, "the ELBO ("+c.elbo) && strings.Contains(text, c.where) && strings.Contains(text, advice)
		if !right || o.last != nil {
			t.Errorf("Step returns the error %v and updates by %v, want an error that contains %q", err, o.last, c.where)
		}
		_, _, err = trainer.Evaluate(t.Context(), hvae.Draws(8), 1, trainer.Bound)
		text = fmt.Sprint(err)
		if c.elbo != "" && !(strings.Contains(text, "the bound ("+c.elbo+") is not finite") && strings.Contains(text, c.where)) {
			t.Errorf("Evaluate returns the error %v, want an error that contains %q", err, c.where)
		}
	}
}

// RMSProp squares the gradient, so one gradient of 10²⁰ in float32 would stop the parameter for ever. Step must refuse
// it for every optimiser, but accept a gradient whose squares are finite, even if their sum is infinite.
func TestStepRefusesGradientsWhoseSquareOverflows(t *testing.T) {
	for _, o := range []hvae.Optimiser[float32]{hvae.Adamax[float32]{Rate: 0.1}, hvae.RMSProp[float32]{Rate: 0.1}} {
		params := parameter[float32](1, 2)
		slopes := linalg.Column[float32](1.8e19, 1.8e19) // the squares are 3.24·10³⁸
		trainer := hvae.NewTrainer(params, o, func(b *hvae.Block[float32]) *ad.Var[float32] {
			return ad.BroadcastTo(ad.Dot(b.Var(params[0]), b.Tape.Const(slopes)), 1, b.Size)
		})
		if _, err := trainer.Step(t.Context(), hvae.Draws(1)); err != nil || params[0].Value.Data[0] == 1 {
			t.Errorf("%T: with the gradient %v, Step returns the error %v", o, slopes.Data, err)
		}
		slopes.Data[1] = 1e20
		before, want := trainer.State(), "the gradient of theta is so large that the square of an element overflows; a likely cause"
		_, err := trainer.Step(t.Context(), hvae.Draws(1))
		if !strings.Contains(fmt.Sprint(err), want) || !reflect.DeepEqual(trainer.State(), before) {
			t.Errorf("%T: with the gradient %v, Step returns the error %v and changes the state to %+v", o, slopes.Data, err, trainer.State())
		}
	}
}
