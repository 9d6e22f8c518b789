package hvae_test

import (
	"context"
	"encoding/json"
	"errors"
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

// gradients is an optimiser that records the gradient of each step and adds it to the parameters.
type gradients[T linalg.Float] struct{ seen [][]T }

func (o *gradients[T]) Start() []T { return nil }

func (o *gradients[T]) Ascend(step int, theta, gradient []T, _ [][]T) {
	if step > len(o.seen) {
		o.seen = append(o.seen, nil)
	}
	o.seen[step-1] = append(o.seen[step-1], gradient...)
	for i, g := range gradient {
		theta[i] += g
	}
}

// meanSquares is an optimiser that divides gradients by their running root mean square. Its running
// average starts at 1, unlike the averages of Adamax, which start at 0.
type meanSquares struct{}

func (meanSquares) Start() []float32 { return []float32{1} }

func (meanSquares) Ascend(_ int, theta, gradient []float32, averages [][]float32) {
	for i, g := range gradient {
		averages[0][i] += 0.1 * (g*g - averages[0][i])
		theta[i] += 0.1 * g / float32(math.Sqrt(float64(averages[0][i])))
	}
}

// parameter returns a list with one parameter, "theta", which has the given elements.
func parameter[T linalg.Float](values ...T) (ps hvae.Params[T]) {
	ps.Add("theta", linalg.Column(values...))
	return ps
}

// columns returns a batch of the columns 0, …, n − 1.
func columns(n int) []int {
	batch := make([]int, n)
	for j := range batch {
		batch[j] = j
	}
	return batch
}

// sampled is the bound −½(θ − ε)² with ε ~ N(0, 1) for each column. Its gradient depends on the noise.
func sampled(b *hvae.Block[float64]) *ad.Var[float64] {
	return ad.Scale(ad.Square(ad.Sub(b.Params[0], b.Noise(1))), -0.5)
}

func TestGradientsOfBlocksAreAddedInOrder(t *testing.T) {
	// In float32, 1e8 + 1 = 1e8. The sum from left to right is therefore 2, and most other orders give
	// another sum.
	slopes := []float32{1e8, 1, -1e8, 1, 1}
	for _, procs := range []int{1, 2, 5} {
		restore := runtime.GOMAXPROCS(procs)
		o := new(gradients[float32])
		trainer := hvae.NewTrainer(parameter[float32](1), o, func(b *hvae.Block[float32]) *ad.Var[float32] {
			if b.Batch[0] == 0 {
				time.Sleep(time.Millisecond) // so that other blocks finish before the first
			}
			return ad.Scale(b.Params[0], slopes[b.Batch[0]])
		})
		trainer.BlockSize = 1
		elbo, err := trainer.Step(t.Context(), columns(len(slopes)))
		if err != nil || elbo != 3./5 { // bounds are added in float64
			t.Errorf("GOMAXPROCS %d: the bound is %v, want 0.6; error %v", procs, elbo, err)
		}
		if want := float32(2) / 5; o.seen[0][0] != want {
			t.Errorf("GOMAXPROCS %d: the gradient is %v, want %v", procs, o.seen[0][0], want)
		}
		runtime.GOMAXPROCS(restore)
	}
}

// The bound of column j is j(θ₁ + θ₂), where θ = (2, 3). For each batch and block size, the gradient must be twice
// the mean of j, and the bound must be five times the mean of j. Earlier batches must not affect either.
func TestStepAveragesOverBatchesAndBlocksOfAnySize(t *testing.T) {
	numbers := linalg.Of(1, 7, ramp(1, 8))
	for _, size := range []int{0, 1, 2, 5, 7, 100} {
		o, params := new(gradients[float64]), parameter(2.0, 3)
		trainer := hvae.NewTrainer(params, o, func(b *hvae.Block[float64]) *ad.Var[float64] {
			return ad.Mul(ad.Sum(b.Var(params[0])), b.Columns(numbers))
		})
		trainer.BlockSize = size
		for step, n := range []int{3, 7, 2, 1, 5} {
			copy(params[0].Value.Data, []float64{2, 3})
			mean := float64(n+1) / 2
			alone, values, err := trainer.Evaluate(t.Context(), columns(n), 1, trainer.Bound)
			if want := hvaetest.Apply(ramp(1, n+1), func(j float64) float64 { return 5 * j }); err != nil || !slices.Equal(values, want) {
				t.Errorf("BlockSize %d: Evaluate returns %v, %v; want %v", size, values, err, want)
			}
			if bound, err := trainer.Step(t.Context(), columns(n)); err != nil || bound != alone || !(math.Abs(bound-5*mean) <= 1e-14*bound) {
				t.Errorf("BlockSize %d, %d columns: Step returns %v, %v, and Evaluate %v; want %v", size, n, bound, err, alone, 5*mean)
			}
			if g := o.seen[step]; !(hvaetest.Distance(g, []float64{mean, mean}) <= 1e-14*mean) {
				t.Errorf("BlockSize %d, %d columns: the gradient is %v, want %v twice", size, n, g, mean)
			}
		}
	}
}

// ramp returns lo, lo + 1, …, hi − 1.
func ramp(lo, hi int) (r []float64) {
	for i := lo; i < hi; i++ {
		r = append(r, float64(i))
	}
	return r
}

func TestEvaluateReportsColumnWithNaN(t *testing.T) {
	trainer := hvae.NewTrainer(parameter(1.0), new(gradients[float64]), nil)
	trainer.BlockSize = 5
	for values, want := range map[[7]float64]string{
		{0, 1, 2, 3, 4, 5, math.NaN()}:      "column 7 of 7 is NaN",
		{0, 1, 2, math.Inf(-1), 4, 5, 1000}: "", // an estimate of log 0
	} {
		_, got, err := trainer.Evaluate(t.Context(), columns(7), 1, func(b *hvae.Block[float64]) *ad.Var[float64] {
			return b.Columns(linalg.Of(1, 7, values[:]))
		})
		if want == "" && (err != nil || !slices.Equal(got, values[:])) || want != "" && (err == nil || got != nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("for the values %v, Evaluate returns %v with error %v, want error %q", values, got, err, want)
		}
	}
}

// In step k, the bound varies only with parameter k mod 3. The gradients of the other two parameters must
// be zero, even if they were not zero in earlier steps. The gradient has 120,000 elements, so several
// goroutines add it in many chunks.
func TestGradientsDoNotDependOnEarlierSteps(t *testing.T) {
	const n = 40_000
	weight := linalg.New[float64](n, 1)
	for i := range weight.Data {
		weight.Data[i] = float64(i%1009) + 1
	}
	for _, procs := range []int{1, 4} {
		restore := runtime.GOMAXPROCS(procs)
		var params hvae.Params[float64]
		for _, name := range []string{"a", "b", "c"} {
			params.Add(name, linalg.New[float64](n, 1))
		}
		o, step := new(gradients[float64]), 0
		trainer := hvae.NewTrainer(params, o, func(b *hvae.Block[float64]) *ad.Var[float64] {
			row := ad.Mul(ad.Dot(b.Tape.Const(weight), b.Params[step%3]), b.Columns(linalg.Of(1, 5, ramp(0, 5))))
			if step == 0 { // in the first step, the bound must depend on all parameters
				row = ad.Add(row, ad.Scale(ad.Sum(ad.Add(b.Params[1], b.Params[2])), 0))
			}
			return row
		})
		trainer.BlockSize = 2
		for ; step < 4; step++ {
			if _, err := trainer.Step(t.Context(), columns(5)); err != nil {
				t.Fatal(err)
			}
			for i, g := range o.seen[step] {
				want := 0.0
				if i/n == step%3 {
					want = weight.Data[i%n] * 2 // the mean of j = 0 … 4
				}
				if !(math.Abs(g-want) <= 1e-9*want) {
					t.Fatalf("GOMAXPROCS %d, step %d: element %d of parameter %d has the gradient %v, want %v", procs, step, i%n, i/n, g, want)
				}
			}
		}
		runtime.GOMAXPROCS(restore)
	}
}

func TestFirstStepReportsUnusedParameter(t *testing.T) {
	for name, bound := range map[string]hvae.Bound[float64]{
		"not bound": sampled,
		"not used":  func(b *hvae.Block[float64]) *ad.Var[float64] { ad.Exp(b.Params[1]); return sampled(b) },
		"used by one block": func(b *hvae.Block[float64]) *ad.Var[float64] {
			if b.Batch[0] == 0 {
				return sampled(b)
			}
			return ad.Add(sampled(b), ad.Scale(b.Params[1], 0)) // depends on the parameter, with a zero gradient
		},
	} {
		params := parameter(1.0)
		idle := params.Add("idle", linalg.Column(1.0))
		trainer := hvae.NewTrainer(params, hvae.NewAdamax(0.1), bound)
		_, err := trainer.Step(t.Context(), columns(17))
		if used := name == "used by one block"; used != (err == nil) || !used && !strings.Contains(err.Error(), `"idle"`) {
			t.Errorf("with the parameter %s, Step returns the error %v", name, err)
		}
		if moved := params[0].Value.Data[0] != 1; moved != (err == nil) || idle.Value.Data[0] != 1 {
			t.Errorf("with the parameter %s, Step returns the error %v and changes the parameters to %v and %v", name, err, params[0].Value.Data, idle.Value.Data)
		}
	}
}

func TestBlockColumnsSelectsColumnsOfBatch(t *testing.T) {
	x := linalg.Of(2, 5, ramp(0, 10))
	params := parameter(1.0)
	trainer := hvae.NewTrainer(params, new(gradients[float64]), func(b *hvae.Block[float64]) *ad.Var[float64] {
		return ad.Mul(b.Var(params[0]), ad.SumTo(b.Columns(x), 1, len(b.Batch))) // 5 + 2j
	})
	trainer.BlockSize = 2
	_, values, err := trainer.Evaluate(t.Context(), []int{4, 0, 0, 3, 1}, 1, trainer.Bound)
	if want := []float64{13, 5, 5, 11, 7}; err != nil || !slices.Equal(values, want) {
		t.Errorf("the sums of the columns are %v, want %v; error %v", values, want, err)
	}
}

func TestRestoredRunContinuesBitForBit(t *testing.T) {
	for _, o := range []hvae.Optimiser[float32]{hvae.NewAdamax[float32](0.1), meanSquares{}} {
		start := func() *hvae.Trainer[float32] {
			var params hvae.Params[float32]
			a, b := params.Add("a", linalg.Column[float32](1, 2)), params.Add("b", linalg.Column[float32](0.3, -0.7))
			tr := hvae.NewTrainer(params, o, func(k *hvae.Block[float32]) *ad.Var[float32] {
				x := ad.Mul(ad.Add(k.Var(a), k.Var(b)), k.Noise(2))
				return ad.Scale(ad.MulSumTo(x, x, 1, len(k.Batch)), -1)
			})
			clear(params) // the trainer has a copy
			return tr
		}
		steps := func(tr *hvae.Trainer[float32], n int) {
			for range n {
				if _, err := tr.Step(t.Context(), columns(20)); err != nil {
					t.Fatal(err)
				}
			}
		}
		plain := start()
		plain.Seed = 5
		steps(plain, 3)
		saved, err := json.Marshal(plain.State())
		if err != nil {
			t.Fatal(err)
		}
		steps(plain, 3)
		want := plain.State()

		restored := start()
		steps(restored, 2) // so that Restore must change every part of the state
		var s hvae.State[float32]
		if err := json.Unmarshal(saved, &s); err != nil {
			t.Fatal(err)
		}
		if err := restored.Restore(s); err != nil {
			t.Fatal(err)
		}
		s.Params[0].Value.Data[0]++ // must not change the trainer, because Restore copies the state
		s.Params[0].Averages[0][0]++
		steps(restored, 3)
		if got := restored.State(); !reflect.DeepEqual(got, want) || want.Steps != 6 || want.Seed != 5 {
			t.Errorf("%T: the restored run ends with %+v, want %+v", o, got, want)
		}

		// Restore must reject a state that does not fit the trainer, and change nothing.
		before := restored.State()
		restored.State().Params[0].Averages[0][0]++ // must not change the trainer
		for name, damage := range map[string]func(s *hvae.State[float32]){
			"with -1 steps and":       func(s *hvae.State[float32]) { s.Steps = -1 },
			"and 1 parameters, ":      func(s *hvae.State[float32]) { s.Params = s.Params[:1] },
			`"c" [2×1]`:               func(s *hvae.State[float32]) { s.Params[1].Name = "c" },
			`"a" [1×2]`:               func(s *hvae.State[float32]) { s.Params[0].Value.Rows, s.Params[0].Value.Cols = 1, 2 },
			`"a" [2×1] of 1 elements`: func(s *hvae.State[float32]) { s.Params[0].Value.Data = []float32{1} },
			"an average of 1":         func(s *hvae.State[float32]) { s.Params[1].Averages[0] = s.Params[1].Averages[0][:1] },
			`parameter "b", or an average of its gradients, is not finite`: func(s *hvae.State[float32]) { s.Params[1].Averages[0][1] = float32(math.NaN()) },
			"of 2 elements into": func(s *hvae.State[float32]) { s.Params[1].Averages = nil },
		} {
			s := restored.State()
			damage(&s)
			if err := restored.Restore(s); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%T: Restore returns the error %[3]v, want an error that contains %[2]q", o, name, err)
			}
			if !reflect.DeepEqual(restored.State(), before) {
				t.Errorf("%T: Restore failed as expected (%s), but changed the trainer", o, name)
			}
		}
	}
}

func TestPanicInBoundReachesCaller(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	for column := range 2 {
		trainer := hvae.NewTrainer(parameter(1.0), new(gradients[float64]), func(b *hvae.Block[float64]) *ad.Var[float64] {
			if b.Batch[0] == column {
				panic("a mistake in the bound")
			}
			return sampled(b)
		})
		trainer.BlockSize = 1
		mustPanic(t, "a mistake in the bound", func() { trainer.Step(t.Context(), columns(2)) })
	}
}

// The noise of a column must depend only on the seed, the step and the column's position, and all noise must differ.
func TestNoiseIsSeparateForColumnsStepsSeedsAndEvaluations(t *testing.T) {
	run := func(seed uint64, procs, blockSize, L int) (noise []float64) {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		const n = 7
		drawn := make([]float64, n*2*L)
		trainer := hvae.NewTrainer(parameter(1.0), new(gradients[float64]), func(b *hvae.Block[float64]) *ad.Var[float64] {
			for i, e := range []*ad.Var[float64]{b.Draws(1, L), b.Draws(1, L)} {
				copy(drawn[(i*n+b.First)*L:], e.Value.Data)
			}
			return ad.Mul(b.Params[0], b.Noise(1))
		})
		trainer.BlockSize, trainer.Seed = blockSize, seed
		for range 3 {
			if _, err := trainer.Step(t.Context(), columns(n)); err != nil {
				t.Fatal(err)
			}
			noise = append(noise, drawn...)
		}
		for _, evaluationSeed := range []uint64{seed, seed + 10} {
			for range 2 { // two evaluations with the same seed must have the same noise
				if _, _, err := trainer.Evaluate(t.Context(), columns(n), evaluationSeed, trainer.Bound); err != nil {
					t.Fatal(err)
				}
			}
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

// If the context is done before a call, the trainer must not call the bound. If the bound cancels it in the first
// block, the trainer must not compute the other blocks. A cancelled call must not change the trainer.
func TestCancelledCallDoesNotChangeState(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var ctx context.Context
	var cancel context.CancelFunc
	calls := 0
	trainer := hvae.NewTrainer(parameter(1.0), hvae.NewAdamax(0.1), func(b *hvae.Block[float64]) *ad.Var[float64] {
		calls++
		cancel()
		return sampled(b)
	})
	trainer.BlockSize = 2
	before := trainer.State()
	for want := range 2 {
		for name, call := range map[string]func() error{
			"Step":     func() error { _, err := trainer.Step(ctx, columns(8)); return err },
			"Evaluate": func() error { _, _, err := trainer.Evaluate(ctx, columns(8), 1, trainer.Bound); return err },
		} {
			ctx, cancel = context.WithCancel(t.Context())
			if want == 0 {
				cancel()
			}
			calls = 0
			err := call()
			cancel()
			if !errors.Is(err, context.Canceled) || calls != want || !reflect.DeepEqual(trainer.State(), before) {
				t.Errorf("%s returns the error %v after %d calls of the bound, want context.Canceled after %d; the state is %+v", name, err, calls, want, trainer.State())
			}
		}
	}
}

func TestSearchForNonFiniteOperationCanBeCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	trainer := hvae.NewTrainer(parameter(-1.0), new(gradients[float64]), func(b *hvae.Block[float64]) *ad.Var[float64] {
		if calls++; calls == 2 { // in this call, the trainer searches for the operation
			cancel()
		}
		return ad.Log(b.Params[0])
	})
	if _, err := trainer.Step(ctx, columns(1)); !errors.Is(err, context.Canceled) || calls != 2 {
		t.Errorf("after %d calls of the bound, the error is %v; want context.Canceled after 2 calls", calls, err)
	}
}

func TestErrorNamesANonFiniteParameter(t *testing.T) {
	trainer := hvae.NewTrainer(parameter(math.NaN()), new(gradients[float64]), sampled)
	if _, err := trainer.Step(t.Context(), columns(1)); err == nil || !strings.Contains(err.Error(), "a leaf, [1×1], whose element (0, 0) is NaN, counted from 0, the parameter theta") {
		t.Errorf("for θ = NaN, Step returns the error %v, want an error that names the parameter", err)
	}
}

// slopeTooLargeAtZero returns x/(x² + 1e-310). At x = 0, the value is 0 but the derivative overflows.
func slopeTooLargeAtZero(x *ad.Var[float64]) *ad.Var[float64] {
	return ad.Div(x, ad.AddConst(ad.Square(x), 1e-310))
}

func TestNonFiniteStepIsReportedAndNotTaken(t *testing.T) {
	// Each case describes a bound at θ = 0: f(θ + shift) for column 5, and f(θ + 1) for other columns. The
	// error of Step must contain all strings in want.
	for _, c := range []struct {
		name  string
		f     func(x *ad.Var[float64]) *ad.Var[float64]
		shift float64
		want  []string
	}{
		{"value", ad.Log[float64], -1, []string{"(NaN)", "columns 4 to 5 of the batch", "operation ad.log,"}},
		{"gradient", slopeTooLargeAtZero, 0, []string{"columns 4 to 5", "operation ad.", "in the gradient of theta"}},
		{"constant", func(x *ad.Var[float64]) *ad.Var[float64] { return ad.Add(x, x.Tape().Scalar(math.Inf(1))) }, 0,
			[]string{"(+Inf)", "columns 0 to 1", "a constant, [1×1]"}},
		{"sum", func(x *ad.Var[float64]) *ad.Var[float64] { return ad.Scale(x, 0.5e308) }, 0, []string{"in the sum over blocks, but finite in each block"}},
	} {
		o := new(gradients[float64])
		params := parameter(3.0)
		params[0].Name = "other"
		params = append(params, parameter(0.0)...)
		trainer := hvae.NewTrainer(params, o, func(b *hvae.Block[float64]) *ad.Var[float64] {
			x := b.Tape.Fill(1, len(b.Batch), 1)
			if b.Batch[0] == 4 {
				x.Value.Data[0] = c.shift
			}
			// The error must name the operation, even if it is inside Recomputed.
			return ad.Recomputed(func(args []*ad.Var[float64]) *ad.Var[float64] { return c.f(args[0]) }, ad.Add(b.Params[1], x))
		})
		trainer.BlockSize = 2
		_, err := trainer.Step(t.Context(), columns(8))
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: Step returns the error %[3]v, want an error that contains %[2]q", c.name, want, err)
			}
		}
		if a, b := params[0].Value.Data[0], params[1].Value.Data[0]; len(o.seen) != 0 || a != 3 || b != 0 {
			t.Errorf("%s: the parameters became %v and %v, want 3 and 0", c.name, a, b)
		}
	}
}
