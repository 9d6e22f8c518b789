package hvae

import (
	"context"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"

	"hvae/ad"
	"hvae/linalg"
	"hvae/linalg/random"
)

// A Bound returns estimates of the ELBO [1×B], such as Sample.ELBO, for the B columns of a
// block b. It must be safe for concurrent use, and depend only on b.Params, b.Batch and b.Rng.
type Bound[T linalg.Float] func(b *Block[T]) *ad.Var[T]

// A Block is a part of a batch, with B columns on one tape.
type Block[T linalg.Float] struct {
	Tape    *ad.Tape[T]
	Params  []*ad.Var[T] // all parameters on the tape, in the order of NewTrainer; see Var
	Batch   []int        // column numbers [B]
	Rng     *rand.Rand   // random stream of the seed, the step and the block, for noise
	Scratch *ad.Tape[T]  // for Recompute.Tape; nil if Trainer.Recompute is false
	State   any          // for data that the bound reuses; one per goroutine, initially nil

	trainer *Trainer[T]
	scratch *ad.Tape[T] // nil in findNonFinite, to keep all values on Tape
	stream  random.Keyed
}

// Var returns parameter p on the tape of the block. It panics if the trainer does not train p.
func (b *Block[T]) Var(p *Param[T]) *ad.Var[T] {
	i := slices.Index(b.trainer.params, p)
	if i < 0 {
		panic(fmt.Sprintf("hvae: the trainer does not have the parameter %q", p.Name))
	}
	return b.Params[i]
}

// Columns returns the columns of data x [d×N] listed in Batch, as a constant [d×B].
func (b *Block[T]) Columns(x linalg.Matrix[T]) *ad.Var[T] {
	m := b.Tape.Matrix(x.Rows, len(b.Batch))
	for j, c := range b.Batch {
		if c < 0 || c >= x.Cols {
			panic(fmt.Sprintf("hvae: column %d of the batch is not in data %v", c, x.Shape()))
		}
		for i := range x.Rows {
			m.Data[i*m.Cols+j] = x.Data[i*x.Cols+c]
		}
	}
	return b.Tape.Const(m)
}

// Noise returns a constant [rows×B] with independent draws from N(0, 1).
func (b *Block[T]) Noise(rows int) *ad.Var[T] { return Noise[T](b.Tape, b.Rng, rows, len(b.Batch)) }

// A Trainer trains parameters by Algorithm 2 (alg:vi), stochastic gradient ascent of the mean
// of a bound over a batch (equation 11, eqn:ELBO).
//
// A batch is a list of column numbers, for example of a matrix of observations. A repeated
// column gets separate noise each time. Goroutines, one per core, compute blocks of the batch
// concurrently, each block on a separate tape:
//
//	batch      | 1 … 16 | 17 … 32 | 33 … 40 |
//	bound          L₁   +    L₂   +    L₃
//	gradient      ∇L₁   +   ∇L₂   +   ∇L₃
//
// The sums are added in this order, so results are bit-identical on any number of cores. Steps
// after the first do not allocate. A Trainer is not safe for concurrent use.
type Trainer[T linalg.Float] struct {
	BlockSize int    // columns per block; 0 means 16. Noise and rounding depend on it.
	Recompute bool   // gives each block a Scratch tape
	Seed      uint64 // of the order of minibatches and of the noise of steps

	params    Params[T]
	optimiser Optimiser[T]
	bound     Bound[T]
	steps     int
	averages  [][]T              // running averages of the optimiser
	theta     []T                // the elements of all parameters, in order
	views     []linalg.Matrix[T] // the parameters as parts of theta

	workers []*Block[T]
	parts   []part[T]
	now     job[T]
	next    atomic.Int64 // number of the next block to compute

	work, add func(lo, hi int) // loop bodies, created once so that steps do not allocate
}

// A job describes one evaluation of a batch.
type job[T linalg.Float] struct {
	interrupt    <-chan struct{} // closed when the context ends
	batch        []int
	bound        Bound[T]
	seed         uint64
	purpose      string // of the random streams
	step         int
	values       []float64 // receives the bound of each column; nil to compute the gradient instead
	size, blocks int       // columns per block, and number of blocks
}

// A part is the result of one block.
type part[T linalg.Float] struct {
	bound     float64            // sum over the columns of the block
	gradient  linalg.Matrix[T]   // of bound divided by the batch size, [n×1] for n elements of θ
	gradients []linalg.Matrix[T] // the same, with the shapes of the parameters
	reached   []bool             // whether bound depends on each parameter
}

// NewTrainer returns a trainer of params. It copies their elements to one vector and replaces
// each Value with a part of this vector. It panics if two parameters have the same name.
func NewTrainer[T linalg.Float](params []*Param[T], o Optimiser[T], bound Bound[T]) *Trainer[T] {
	t := &Trainer[T]{params: slices.Clone(params), optimiser: o, bound: bound}
	for i, p := range t.params {
		if slices.ContainsFunc(t.params[:i], func(q *Param[T]) bool { return q.Name == p.Name }) {
			panic(fmt.Sprintf("hvae: two parameters are named %q", p.Name))
		}
		t.theta = append(t.theta, p.Value.Data...)
	}
	t.views = t.params.split(t.theta)
	for i, p := range t.params {
		p.Value = t.views[i]
	}
	for _, start := range o.Start() {
		t.averages = append(t.averages, slices.Repeat([]T{start}, len(t.theta)))
	}
	t.work, t.add = t.takeBlocks, t.addParts
	return t
}

// A State is the state of a training run, in a form that encoding/json and encoding/gob can
// write. To continue a run bit for bit, restore it into a trainer with the same parameters,
// optimiser, bound and BlockSize.
type State[T linalg.Float] struct {
	Seed     uint64
	Steps    int        // steps taken
	Params   []Param[T] // in the order of NewTrainer
	Averages [][]T      // running averages of the optimiser, one element per element of θ
}

// State returns a copy of the current state.
func (t *Trainer[T]) State() State[T] {
	s := State[T]{Seed: t.Seed, Steps: t.steps}
	for _, p := range t.params {
		s.Params = append(s.Params, Param[T]{p.Name, p.Value.Clone()})
	}
	for _, a := range t.averages {
		s.Averages = append(s.Averages, slices.Clone(a))
	}
	return s
}

// Restore sets the state to s. If the parameters or averages of s differ from the trainer's in
// number, name or shape, it returns an error and changes nothing.
func (t *Trainer[T]) Restore(s State[T]) error {
	if got, want := s.layout(), t.State().layout(); got != want || s.Steps < 0 {
		return fmt.Errorf("cannot restore a state after %d steps with %s into a trainer with %s", s.Steps, got, want)
	}
	t.Seed, t.steps = s.Seed, s.Steps
	for i, p := range t.params {
		linalg.Copy(t.views[i], s.Params[i].Value)
		p.Value = t.views[i]
	}
	for i, a := range s.Averages {
		copy(t.averages[i], a)
	}
	return nil
}

// layout describes the names and sizes of parameters and averages.
func (s State[T]) layout() string {
	d := fmt.Sprintf("%d parameters and %d averages", len(s.Params), len(s.Averages))
	for _, p := range s.Params {
		d += fmt.Sprintf(", %q %v of %d elements", p.Name, p.Value.Shape(), len(p.Value.Data))
	}
	for _, a := range s.Averages {
		d += fmt.Sprintf(", an average of %d elements", len(a))
	}
	return d
}

// Minibatches returns the remaining batches of the current epoch. An epoch is a permutation of
// the columns 0 … n−1, which depends on Seed and the epoch number, in batches of the given size
// (the last may be smaller). The position comes from the number of steps taken, so the caller
// must take one Step for each batch, and Restore continues an interrupted epoch.
func (t *Trainer[T]) Minibatches(n, size int) iter.Seq[[]int] {
	if n < 1 || size < 1 {
		panic(fmt.Sprintf("hvae: Minibatches with n = %d and size = %d, which must be positive", n, size))
	}
	return func(yield func([]int) bool) {
		batches := (n + size - 1) / size
		order := random.Stream(t.Seed, "algorithm 2 minibatches", t.steps/batches).Perm(n)
		slices.Chunk(order[t.steps%batches*size:], size)(yield)
	}
}

// Step estimates the mean bound over a batch and its gradient, and updates the parameters. It
// returns an error and changes no state if ctx ends, which interrupts the step, if the bound or
// its gradient is not finite, or if the bound does not depend on a parameter (checked in the
// first step). The second error names the first operation whose result is not finite.
func (t *Trainer[T]) Step(ctx context.Context, batch []int) (elbo float64, err error) {
	elbo, err = t.run(ctx, job[T]{batch: batch, bound: t.bound, seed: t.Seed, purpose: "algorithm 2 step", step: t.steps})
	if err != nil {
		return 0, err
	}
	gradient := t.parts[0].gradient
	linalg.For(gradient.Rows, grain, t.add)
	if math.IsNaN(elbo) || math.IsInf(elbo, 0) || !linalg.Finite(gradient) {
		where := t.findNonFinite()
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return elbo, fmt.Errorf("the ELBO (%v) or its gradient is not finite%s", elbo, where)
	}
	for i, p := range t.params {
		if t.steps == 0 && !slices.ContainsFunc(t.parts[:t.now.blocks], func(p part[T]) bool { return p.reached[i] }) {
			return elbo, fmt.Errorf("the bound does not depend on the parameter %q: use it (Block.Var), or do not pass it to NewTrainer", p.Name)
		}
	}
	t.steps++
	t.optimiser.Ascend(t.steps, t.theta, gradient.Data, t.averages)
	return elbo, nil
}

// Evaluate returns the mean and the values [len(batch)] of row, a function such as
// Sample.LogEstimate, for a batch with noise from the given seed. If row is nil, it evaluates the
// trainer's bound. It returns an error if ctx ends or if a value is NaN.
func (t *Trainer[T]) Evaluate(ctx context.Context, batch []int, seed uint64, row Bound[T]) (mean float64, values []float64, err error) {
	if row == nil {
		row = t.bound
	}
	values = make([]float64, len(batch))
	mean, err = t.run(ctx, job[T]{batch: batch, bound: row, seed: seed, purpose: "algorithm 2 evaluation", values: values})
	if err != nil {
		return 0, nil, err
	}
	if i := slices.IndexFunc(values, math.IsNaN); i >= 0 {
		return 0, nil, fmt.Errorf("the value of column %d of %d is NaN: the parameters or the data are damaged, or training has diverged", i+1, len(batch))
	}
	return mean, values, nil
}

// addParts adds elements lo to hi−1 of the gradients of all other parts to the first part's
// gradient, in order.
func (t *Trainer[T]) addParts(lo, hi int) {
	const chunk = 1 << 11 // of elements, which stay in the L1 cache
	for ; lo < hi; lo += chunk {
		total := t.parts[0].gradient.RowRange(lo, min(lo+chunk, hi))
		for _, p := range t.parts[1:t.now.blocks] {
			linalg.Add(total, total, p.gradient.RowRange(lo, min(lo+chunk, hi)))
		}
	}
}

// run computes t.parts for the batch of j and returns the mean bound.
func (t *Trainer[T]) run(ctx context.Context, j job[T]) (mean float64, err error) {
	n := len(j.batch)
	if n == 0 {
		panic("hvae: the batch has no columns")
	}
	for i, p := range t.params {
		if p.Value.Shape() != t.views[i].Shape() || len(p.Value.Data) > 0 && &p.Value.Data[0] != &t.views[i].Data[0] {
			panic(fmt.Sprintf("hvae: the Value of parameter %q was replaced: set its elements instead, or use Restore", p.Name))
		}
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if j.size = t.BlockSize; j.size == 0 {
		j.size = 16
	}
	j.blocks = (n + j.size - 1) / j.size
	j.interrupt = ctx.Done()
	t.now = j
	t.next.Store(0)
	t.parts = append(t.parts, make([]part[T], max(0, j.blocks-len(t.parts)))...)
	goroutines := min(j.blocks, runtime.GOMAXPROCS(0))
	for len(t.workers) < goroutines {
		t.workers = append(t.workers, &Block[T]{trainer: t, Tape: new(ad.Tape[T]), scratch: new(ad.Tape[T])})
	}
	linalg.For(goroutines, 1, t.work)
	for _, p := range t.parts[:j.blocks] {
		mean += p.bound
	}
	return mean / float64(n), ctx.Err()
}

// takeBlocks computes blocks with workers lo to hi−1 until none remain or the tapes are interrupted.
func (t *Trainer[T]) takeBlocks(lo, hi int) {
	defer ad.RecoverInterrupt()
	for _, w := range t.workers[lo:hi] {
		for i := int(t.next.Add(1)) - 1; i < t.now.blocks; i = int(t.next.Add(1)) - 1 {
			t.compute(w, i)
		}
	}
}

// compute sets t.parts[i] to the result of block i.
func (t *Trainer[T]) compute(w *Block[T], i int) {
	sum := t.boundOf(w, i)
	out := &t.parts[i]
	out.bound = float64(sum.Scalar())
	if t.now.values != nil {
		return
	}
	if out.gradients == nil {
		out.gradient = linalg.New[T](len(t.theta), 1)
		out.gradients = t.params.split(out.gradient.Data)
	}
	reached := ad.BackwardInto(out.gradients, ad.Scale(sum, 1/T(len(t.now.batch))), w.Params)
	out.reached = append(out.reached[:0], reached...)
}

// boundOf computes the bound of block i on the tape of w and returns its sum over the columns.
func (t *Trainer[T]) boundOf(w *Block[T], i int) *ad.Var[T] {
	lo := i * t.now.size
	hi := min(lo+t.now.size, len(t.now.batch))
	w.Tape.Reset()
	w.Tape.Interrupt = t.now.interrupt
	w.Batch, w.Rng = t.now.batch[lo:hi:hi], w.stream.Reset(t.now.seed, t.now.purpose, t.now.step, lo)
	w.Params, w.Scratch = w.Params[:0], nil
	if t.Recompute {
		w.Scratch = w.scratch
	}
	put := w.Tape.Const
	if t.now.values == nil {
		put = w.Tape.Leaf
	}
	for _, p := range t.params {
		w.Params = append(w.Params, put(p.Value))
	}
	bound := t.now.bound(w)
	if want := (linalg.Shape{Rows: 1, Cols: hi - lo}); bound.Value.Shape() != want {
		panic(fmt.Sprintf("hvae: the bound is %v for a block of %d columns; it must be %v", bound.Value.Shape(), hi-lo, want))
	}
	if t.now.values != nil {
		for j, v := range bound.Value.Data {
			t.now.values[lo+j] = float64(v)
		}
	}
	return ad.Sum(bound)
}

// findNonFinite computes the blocks again on a tape that keeps all values, and describes the
// first operation whose result is not finite.
func (t *Trainer[T]) findNonFinite() string {
	defer ad.RecoverInterrupt()
	w := &Block[T]{trainer: t, Tape: new(ad.Tape[T])}
	for i := range t.now.blocks {
		sum := t.boundOf(w, i)
		operation, where := w.Tape.FirstNonFinite(), ""
		j := slices.IndexFunc(t.parts[i].gradients, func(g linalg.Matrix[T]) bool { return !linalg.Finite(g) })
		if operation == "" && j >= 0 {
			ad.Grad(sum, w.Params[j])
			operation, where = w.Tape.FirstNonFinite(), ", in the gradient of "+t.params[j].Name
		}
		if operation != "" {
			lo := i * t.now.size
			return fmt.Sprintf(": columns %d to %d of the batch, first in %s%s", lo+1, lo+len(w.Batch), operation, where)
		}
	}
	return " in the sum over blocks, but finite in each block"
}
