package hvae_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hvae/ad"
	"hvae/hvae"
	"hvae/hvae/hvaetest"
	"hvae/linalg"
)

// gradients is an optimiser that notes the gradients and moves by them.
type gradients[T linalg.Float] struct{ seen [][]T }

func (o *gradients[T]) Ascend(params, gradients []linalg.Matrix[T]) {
	for i, g := range gradients {
		o.seen = append(o.seen, slices.Clone(g.Data))
		linalg.Add(params[i], params[i], g)
	}
}

// parameter returns the one parameter θ.
func parameter[T linalg.Float](values ...T) []hvae.Param[T] {
	return []hvae.Param[T]{{Name: "theta", Value: linalg.Column(values...)}}
}

// blocksOf cuts batches into blocks of a size.
func blocksOf(size int) func(n int) int { return func(int) int { return size } }

// sampled is the bound −½(θ − ε)² of a draw ε for each column: its gradient depends on the
// noise.
func sampled(b *hvae.Block[float64]) *ad.Var[float64] {
	return ad.Scale(ad.Square(ad.Sub(b.Params[0], hvae.Noise(b.Tape, b.Rng, 1, b.Hi-b.Lo))), -0.5)
}

func TestBlocksAreAddedInTheirOrder(t *testing.T) {
	// In float32, 1e8 + 1 = 1e8: the sum of the slopes is 2 in the order of the blocks, and
	// something else in most others.
	slopes := []float32{1e8, 1, -1e8, 1, 1}
	for _, procs := range []int{1, 2, 5} {
		restore := runtime.GOMAXPROCS(procs)
		o := new(gradients[float32])
		trainer := hvae.NewTrainer(parameter[float32](1), o, func(b *hvae.Block[float32]) *ad.Var[float32] {
			if b.Lo == 0 {
				time.Sleep(time.Millisecond) // the first to begin is not the first to end
			}
			return ad.Scale(b.Params[0], slopes[b.Lo])
		})
		trainer.BlockSize = blocksOf(1)
		elbo, err := trainer.Step(t.Context(), len(slopes))
		if err != nil || elbo != 3./5 { // added in float64
			t.Errorf("GOMAXPROCS %d: the bound is %v, %v", procs, elbo, err)
		}
		if want := float32(2) / 5; o.seen[0][0] != want {
			t.Errorf("GOMAXPROCS %d: the gradient is %v, want %v", procs, o.seen[0][0], want)
		}
		runtime.GOMAXPROCS(restore)
	}
}

// ramp returns lo, lo + 1, …, hi − 1.
func ramp(lo, hi int) (r []float64) {
	for i := lo; i < hi; i++ {
		r = append(r, float64(i))
	}
	return r
}

func TestOneBlockIsManyBlocks(t *testing.T) {
	// Whatever the columns' values: the bound of column j is a_j θ₁ − j θ₂², a_j = sin j.
	run := func(size func(int) int) ([]float64, float64) {
		o := new(gradients[float64])
		trainer := hvae.NewTrainer(append(parameter(0.7, -1.3), parameter(2.0)...), o, func(b *hvae.Block[float64]) *ad.Var[float64] {
			n := b.Hi - b.Lo
			j := ramp(b.Lo, b.Hi)
			a := linalg.Of(1, n, hvaetest.Apply(j, math.Sin))
			first := ad.Mul(ad.Sum(b.Params[0]), b.Tape.Const(a))
			return ad.Sub(first, ad.Mul(ad.Square(b.Params[1]), b.Tape.Const(linalg.Of(1, n, j))))
		})
		trainer.BlockSize = size
		elbo, err := trainer.ELBO(t.Context(), 37)
		if err != nil {
			t.Fatal(err)
		}
		values, err := trainer.Evaluate(t.Context(), 37, func(b *hvae.Block[float64]) *ad.Var[float64] {
			return ad.Scale(b.Tape.Const(linalg.Of(1, b.Hi-b.Lo, ramp(b.Lo, b.Hi))), 3)
		})
		if want := hvaetest.Apply(ramp(0, 37), func(j float64) float64 { return 3 * j }); err != nil || !slices.Equal(values, want) {
			t.Fatalf("thrice 0 to 36 is %v, %v", values, err)
		}
		stepped, err := trainer.Step(t.Context(), 37)
		if err != nil || stepped != elbo {
			t.Fatalf("a step says %v, an evaluation %v, %v", stepped, elbo, err)
		}
		return o.seen[0], elbo
	}
	a := 0.0
	for j := range 37 {
		a += math.Sin(float64(j)) / 37
	}
	want, bound := []float64{a, a, -2 * 2 * 18}, -0.6*a-4*18
	for _, size := range []func(int) int{nil, blocksOf(37), blocksOf(100), blocksOf(36), blocksOf(5), blocksOf(1), func(n int) int { return n / 2 }} {
		got, elbo := run(size)
		if !(hvaetest.Distance(got, want) <= 1e-12*hvaetest.Norm(want)) || !(math.Abs(elbo-bound) <= 1e-12*math.Abs(bound)) {
			t.Errorf("gradient %v, want %v; bound %v, want %v", got, want, elbo, bound)
		}
	}
}

func TestAnEvaluationThatIsNaNNamesItsColumn(t *testing.T) {
	trainer := hvae.NewTrainer(parameter(1.0), new(gradients[float64]), nil)
	trainer.BlockSize = blocksOf(5)
	for values, want := range map[[7]float64]string{
		{0, 1, 2, 3, 4, 5, math.NaN()}:      "column 7 of 7 is NaN",
		{0, 1, 2, math.Inf(-1), 4, 5, 1000}: "", // an estimate of log 0
	} {
		got, err := trainer.Evaluate(t.Context(), 7, func(b *hvae.Block[float64]) *ad.Var[float64] {
			return b.Tape.Const(linalg.Of(1, b.Hi-b.Lo, values[b.Lo:b.Hi]))
		})
		if want == "" && (err != nil || !slices.Equal(got, values[:])) || want != "" && (err == nil || got != nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v: %v, error %v, want %q", values, got, err, want)
		}
	}
}

// In step k the bound of column j is a_jθ_k, where a_j depends on j and on the element of θ_k, and
// does not depend on other parameters: their gradients are zero, whatever the last step's were.
// With 40,000 elements a gradient is added up in many pieces and on several goroutines.
func TestAGradientIsTheStepsOwnInEveryElement(t *testing.T) {
	const n, columns = 40_000, 5
	weight := linalg.New[float64](n, 1)
	for i := range weight.Data {
		weight.Data[i] = float64(i%1009) + 1
	}
	for _, procs := range []int{1, 4} {
		restore := runtime.GOMAXPROCS(procs)
		var params []hvae.Param[float64]
		for _, name := range []string{"a", "b", "c"} {
			params = append(params, hvae.Param[float64]{Name: name, Value: linalg.New[float64](n, 1)})
		}
		o, step := new(gradients[float64]), 0
		trainer := hvae.NewTrainer(params, o, func(b *hvae.Block[float64]) *ad.Var[float64] {
			row := b.Tape.Const(linalg.Of(1, b.Hi-b.Lo, ramp(b.Lo, b.Hi)))
			return ad.Mul(ad.Dot(b.Tape.Const(weight), b.Params[step%3]), row)
		})
		trainer.BlockSize = blocksOf(2)
		for ; step < 4; step++ {
			if _, err := trainer.Step(t.Context(), columns); err != nil {
				t.Fatal(err)
			}
			for i, g := range o.seen[step] {
				want := 0.0
				if i/n == step%3 {
					want = weight.Data[i%n] * 2 // the mean of 0 to 4
				}
				if !(math.Abs(g-want) <= 1e-9*want) {
					t.Fatalf("GOMAXPROCS %d, step %d: element %d of parameter %d has the gradient %v, want %v", procs, step, i%n, i/n, g, want)
				}
			}
		}
		runtime.GOMAXPROCS(restore)
	}
}

func TestParametersMoveToOneVector(t *testing.T) {
	params := []hvae.Param[float64]{{Name: "a", Value: linalg.Column(1.0, 2)}, {Name: "b", Value: linalg.Of(1, 2, []float64{3, 4})}}
	trainer := hvae.NewTrainer(params, new(gradients[float64]), nil)
	theta := trainer.Theta()
	if !slices.Equal(theta.Data, []float64{1, 2, 3, 4}) || params[1].Value.Shape() != (linalg.Shape{Rows: 1, Cols: 2}) {
		t.Errorf("θ is %v, the second parameter %v", theta.Data, params[1].Value)
	}
	if theta.Data[2] = 7; params[1].Value.At(0, 0) != 7 {
		t.Error("the parameters are not parts of θ")
	}
}

func TestNoiseIsFreshInEachStepAndBlock(t *testing.T) {
	seen := map[float64]string{}
	run := func(seed uint64, procs int) (noise []float64) {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		const n = 8 // in four blocks
		drawn := make([]float64, n)
		trainer := hvae.NewTrainer(parameter(1.0), new(gradients[float64]), func(b *hvae.Block[float64]) *ad.Var[float64] {
			e := hvae.Noise(b.Tape, b.Rng, 1, b.Hi-b.Lo)
			copy(drawn[b.Lo:], e.Value.Data)
			return ad.Mul(b.Params[0], e)
		})
		trainer.BlockSize, trainer.Seed = blocksOf(2), seed
		var evaluation []float64
		for i := range 3 {
			if _, err := trainer.Step(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			noise = append(noise, drawn...)
			if _, err := trainer.ELBO(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			if i > 0 && !slices.Equal(drawn, evaluation) {
				t.Errorf("two evaluations draw %v and %v", evaluation, drawn)
			}
			evaluation = slices.Clone(drawn)
		}
		return append(noise, evaluation...)
	}
	first := run(1, 1)
	for i, e := range append(first, run(2, 1)...) {
		if other, ok := seen[e]; ok {
			t.Errorf("draws %s and %d are the same", other, i)
		}
		seen[e] = fmt.Sprint(i)
	}
	if !slices.Equal(run(1, 3), first) {
		t.Error("the noise depends on the number of cores")
	}
}

func TestACancelledStepLeavesEverythingAsItWas(t *testing.T) {
	// The context ends in the third block of the third step, while the tapes run: they must
	// be interrupted, as the bound would take ten seconds.
	type trainer struct {
		*hvae.Trainer[float64]
		*hvae.Adamax[float64]
	}
	var during atomic.Pointer[context.CancelFunc]
	var calls atomic.Int64
	make := func() trainer {
		o := hvae.NewAdamax(0.1)
		tr := hvae.NewTrainer(parameter(1.0), o, func(b *hvae.Block[float64]) *ad.Var[float64] {
			calls.Add(1)
			if cancel := during.Load(); cancel != nil && b.Lo == 4 {
				(*cancel)()
				for range 10_000 {
					ad.AddConst(b.Params[0], 1)
					time.Sleep(time.Millisecond)
				}
				t.Error("the tape was not interrupted")
			}
			return sampled(b)
		})
		tr.BlockSize = blocksOf(2)
		return trainer{tr, o}
	}
	state := func(tr trainer) []float64 {
		step, mean, norm := tr.State([]linalg.Matrix[float64]{tr.Theta()})
		return []float64{float64(step), tr.Theta().Data[0], mean[0][0], norm[0][0]}
	}
	plain, disturbed := make(), make()
	for i := range 5 {
		if _, err := plain.Step(t.Context(), 8); err != nil {
			t.Fatal(err)
		}
		before := state(disturbed)
		for _, f := range []func(context.Context, int) (float64, error){disturbed.Step, disturbed.ELBO} {
			ctx, cancel := context.WithCancel(t.Context())
			if i == 2 {
				during.Store(&cancel)
			} else {
				cancel() // before the step
			}
			called := calls.Load()
			if _, err := f(ctx, 8); !errors.Is(err, context.Canceled) {
				t.Fatalf("the context ended, and the error is %v", err)
			}
			if i != 2 && calls.Load() != called {
				t.Error("the bound is computed under a context that has ended")
			}
			during.Store(nil)
			cancel()
			if after := state(disturbed); !slices.Equal(after, before) {
				t.Fatalf("a cancelled step changed %v to %v", before, after)
			}
		}
		if _, err := disturbed.Step(t.Context(), 8); err != nil {
			t.Fatal(err)
		}
		if got, want := state(disturbed), state(plain); !slices.Equal(got, want) {
			t.Fatalf("after step %d the state is %v, undisturbed %v", i+1, got, want)
		}
	}
}

func TestACancelledSearchForWhatIsNotFiniteIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	trainer := hvae.NewTrainer(parameter(-1.0), new(gradients[float64]), func(b *hvae.Block[float64]) *ad.Var[float64] {
		if calls++; calls == 2 { // the block runs again
			cancel()
		}
		return ad.Log(b.Params[0])
	})
	if _, err := trainer.Step(ctx, 1); !errors.Is(err, context.Canceled) || calls != 2 {
		t.Errorf("after %d calls the error is %v", calls, err)
	}
}

func TestAContextThatEndsLaterDoesNotInterruptStepsUnderAnother(t *testing.T) {
	trainer := hvae.NewTrainer(parameter(1.0), new(gradients[float64]), sampled)
	old, cancel := context.WithCancel(t.Context())
	for _, ctx := range []context.Context{old, context.Background()} {
		if _, err := trainer.Step(ctx, 1); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	time.Sleep(10 * time.Millisecond) // until what the context runs at its end has run
	for _, ctx := range []context.Context{context.Background(), t.Context()} {
		if _, err := trainer.Step(ctx, 1); err != nil {
			t.Errorf("a step under a context that has not ended: %v", err)
		}
	}
}

// slopeTooLargeAtZero returns x/(x² + tiny), which is 0 at 0, where its slope 1/tiny overflows.
func slopeTooLargeAtZero(x *ad.Var[float64]) *ad.Var[float64] {
	return ad.Div(x, ad.AddConst(ad.Square(x), 1e-310))
}

func TestWhatIsNotFiniteIsNamedAndChangesNothing(t *testing.T) {
	// With θ = 0: the bound of a column is f(θ + shift), where only that of column 5 may be
	// out of f's domain.
	for _, c := range []struct {
		name  string
		f     func(x *ad.Var[float64]) *ad.Var[float64]
		shift float64
		want  []string
	}{
		{"value", ad.Log[float64], -1, []string{"(NaN)", "columns 5 to 6 of the batch", "operation ad.log,"}},
		{"gradient", slopeTooLargeAtZero, 0, []string{"columns 5 to 6", "operation ad.", "in the gradient of theta"}},
		{"constant", func(x *ad.Var[float64]) *ad.Var[float64] { return ad.Add(x, x.Tape().Scalar(math.Inf(1))) }, 0,
			[]string{"(+Inf)", "columns 1 to 2", "a constant or parameter, [1×1]"}},
		{"sum", func(x *ad.Var[float64]) *ad.Var[float64] { return ad.Scale(x, 0.5e308) }, 0, []string{"though every block's is"}},
	} {
		o := new(gradients[float64])
		var recomputes atomic.Int64
		trainer := hvae.NewTrainer(append(parameter(3.0), parameter(0.0)...), o, func(b *hvae.Block[float64]) *ad.Var[float64] {
			if b.Scratch != nil {
				recomputes.Add(1)
			}
			x := b.Tape.Fill(1, b.Hi-b.Lo, 1)
			if b.Lo == 4 {
				x.Value.Data[0] = c.shift
			}
			return c.f(ad.Add(b.Params[1], x))
		})
		trainer.BlockSize, trainer.Recompute = blocksOf(2), true
		_, err := trainer.Step(t.Context(), 8)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: the error does not say %q: %v", c.name, want, err)
			}
		}
		if len(o.seen) != 0 || !slices.Equal(trainer.Theta().Data, []float64{3, 0}) {
			t.Errorf("%s: a step was taken, to θ = %v", c.name, trainer.Theta().Data)
		}
		if n := recomputes.Load(); n != 4 {
			t.Errorf("%s: %d blocks of 4 had a scratch tape; what runs again must keep everything", c.name, n)
		}
	}
}

func TestABlockKeepsItsState(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	calls := 0
	trainer := hvae.NewTrainer(parameter(1.0), new(gradients[float64]), func(b *hvae.Block[float64]) *ad.Var[float64] {
		if calls == 0 && b.State != nil || calls > 0 && b.State != calls {
			t.Errorf("call %d has the state %v", calls, b.State)
		}
		if b.Scratch != nil {
			t.Error("a scratch tape that nobody asked for")
		}
		calls++
		b.State = calls
		return sampled(b)
	})
	trainer.BlockSize = blocksOf(3)
	for range 2 {
		if _, err := trainer.Step(t.Context(), 6); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTrainersStepsAllocateNothing(t *testing.T) {
	trainer := hvae.NewTrainer(parameter(1.0), hvae.NewRMSProp(0.1), sampled)
	trainer.BlockSize = blocksOf(2)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	step := func() {
		if _, err := trainer.Step(ctx, 6); err != nil {
			t.Fatal(err)
		}
	}
	step()
	if n := testing.AllocsPerRun(50, step); n != 0 {
		t.Errorf("a step allocates %v times", n)
	}
}

func TestImpossibleBatchesAndBoundsPanic(t *testing.T) {
	for want, f := range map[string]func(){
		"a batch of 0 columns": func() {
			hvae.NewTrainer(parameter(1.0), new(gradients[float64]), sampled).Step(t.Context(), 0)
		},
		"a bound [1×1] for a block of 3 columns, which needs [1×3]": func() {
			trainer := hvae.NewTrainer(parameter(1.0), new(gradients[float64]), func(b *hvae.Block[float64]) *ad.Var[float64] {
				return ad.Mean(sampled(b))
			})
			trainer.Step(t.Context(), 3)
		},
	} {
		func() {
			defer func() {
				if msg := fmt.Sprint(recover()); !strings.Contains(msg, want) {
					t.Errorf("panic %q does not contain %q", msg, want)
				}
			}()
			f()
		}()
	}
}
