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
)

// A Bound returns estimates of the ELBO [1×B], such as Sample.ELBO, for the B columns of a
// block. Several goroutines call it at once. For the same block of the same batch it must
// always return the same values.
type Bound[T linalg.Float] func(b *Block[T]) *ad.Var[T]

// A Block is a part of a batch whose B columns share a tape.
type Block[T linalg.Float] struct {
	Tape    *ad.Tape[T]
	Params  []*ad.Var[T] // all parameters on the tape, in the trainer's order; see Var
	Batch   []int        // the block's columns [B]
	Rng     *rand.Rand   // for noise: a stream of the seed, the step and the block
	Scratch *ad.Tape[T]  // for Recompute, nil if Trainer.Recompute is false
	State   any          // for the bound to keep memory in; each goroutine has its own, nil at first

	trainer *Trainer[T]
	scratch ad.Tape[T]
	stream  Keyed
}

// Var returns the parameter p on the block's tape. It panics if p is not the trainer's.
func (b *Block[T]) Var(p *Param[T]) *ad.Var[T] {
	i := slices.Index(b.trainer.params, p)
	if i < 0 {
		panic(fmt.Sprintf("hvae: the trainer does not have the parameter %q", p.Name))
	}
	return b.Params[i]
}

// Columns returns the block's columns of data x [d×N] as a constant [d×B].
func (b *Block[T]) Columns(x linalg.Matrix[T]) *ad.Var[T] {
	m := b.Tape.Matrix(x.Rows, len(b.Batch))
	for j, c := range b.Batch {
		if c < 0 || c >= x.Cols {
			panic(fmt.Sprintf("hvae: column %d of a batch from data %v", c, x.Shape()))
		}
		for i := range x.Rows {
			m.Data[i*m.Cols+j] = x.Data[i*x.Cols+c]
		}
	}
	return b.Tape.Const(m)
}

// Noise returns a constant [rows×B] of new independent draws from N(0, 1).
func (b *Block[T]) Noise(rows int) *ad.Var[T] { return Noise[T](b.Tape, b.Rng, rows, len(b.Batch)) }

// A Trainer is Algorithm 2 (alg:vi): it climbs the mean of a bound over batches (equation 11,
// eqn:ELBO) in all parameters at once by stochastic gradients.
//
// A batch lists columns, such as those of a matrix of observations. A column that it repeats
// is averaged over draws. Goroutines, one for each core, compute blocks of it concurrently:
//
//	batch      | 1 … 16 | 17 … 32 | 33 … 40 |
//	bound          L₁   +    L₂   +    L₃        each on a separate tape,
//	gradient      ∇L₁   +   ∇L₂   +   ∇L₃        added in this order
//
// so the results are bit-identical on any number of cores. Once the tapes have their memory,
// a step does not allocate. A trainer serves one goroutine.
type Trainer[T linalg.Float] struct {
	BlockSize int    // columns of a block, 16 if it is 0; noise and rounding depend on it
	Recompute bool   // gives blocks a Scratch tape
	Seed      uint64 // of the order of minibatches and, with the number of the step, of the noise

	params    Params[T]
	optimiser Optimiser[T]
	bound     Bound[T]
	steps     int
	averages  [][]T              // the optimiser's
	theta     []T                // the parameters' elements, one parameter after another
	views     []linalg.Matrix[T] // of theta, as the parameters
	reached   []atomic.Bool      // for each parameter, whether the bound of the first step uses it; nil later

	workers []*Block[T]
	parts   []part[T]
	now     job[T]
	next    atomic.Int64 // the first block that no goroutine has taken
	stop    *atomic.Bool // interrupts all tapes
	done    <-chan struct{}
	unwatch func() bool

	work, add func(lo, hi int) // bodies of loops, made once so that a step does not allocate
}

// A job is the work of the goroutines on one batch.
type job[T linalg.Float] struct {
	batch    []int
	bound    Bound[T]
	seed     uint64
	purpose  string // of the noise
	step     int
	gradient bool      // compute the gradient, too
	blame    bool      // keep everything on the tape
	values   []float64 // of the bound, if not nil

	size, blocks int
}

// A part is the result of a block.
type part[T linalg.Float] struct {
	bound     float64            // summed over the block's columns
	gradient  linalg.Matrix[T]   // of this sum divided by the size of the batch, like θ
	gradients []linalg.Matrix[T] // views of gradient like the parameters
}

// NewTrainer returns a trainer of params. It moves their elements to one vector: each
// parameter's Value becomes a view of it.
func NewTrainer[T linalg.Float](params []*Param[T], o Optimiser[T], bound Bound[T]) *Trainer[T] {
	t := &Trainer[T]{params: slices.Clone(params), optimiser: o, bound: bound, unwatch: func() bool { return false }}
	t.theta = make([]T, t.params.elements())
	t.views = t.params.split(t.theta)
	for i, p := range t.params {
		linalg.Copy(t.views[i], p.Value)
		p.Value = t.views[i]
	}
	for _, start := range o.Start() {
		t.averages = append(t.averages, slices.Repeat([]T{start}, len(t.theta)))
	}
	t.reached = make([]atomic.Bool, len(params))
	t.work, t.add = t.takeBlocks, t.addParts
	return t
}

// A State is the state of a run, for encoding/json or encoding/gob to write. A trainer with the
// same parameters, optimiser, bound and BlockSize that is restored from it continues bit for bit.
type State[T linalg.Float] struct {
	Seed     uint64
	Steps    int        // steps taken
	Params   []Param[T] // in the trainer's order
	Averages [][]T      // of the optimiser, each with the elements of all parameters
}

// State returns a copy of the state of the run.
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

// Restore sets the state of the run to s. If s has other parameters or averages than the
// trainer, it returns an error and changes nothing.
func (t *Trainer[T]) Restore(s State[T]) error {
	if got, want := s.layout(), t.State().layout(); got != want || s.Steps < 0 {
		return fmt.Errorf("a state of %d steps with %s: this trainer has %s", s.Steps, got, want)
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

// layout describes names and sizes.
func (s State[T]) layout() (d string) {
	for _, p := range s.Params {
		d += fmt.Sprintf("%q %v with %d elements, ", p.Name, p.Value.Shape(), len(p.Value.Data))
	}
	for _, a := range s.Averages {
		d += fmt.Sprintf("an average of %d, ", len(a))
	}
	return d + "and no more"
}

// Minibatches returns what is left of the current epoch: batches of size of the columns
// 0 … n−1 (the last may be smaller), shuffled by Seed and the number of the epoch. It expects
// one Step for each batch. Then the next call returns the next epoch, and after Restore an
// interrupted epoch continues.
func (t *Trainer[T]) Minibatches(n, size int) iter.Seq[[]int] {
	if n < 1 || size < 1 {
		panic(fmt.Sprintf("hvae: minibatches of %d from %d columns", size, n))
	}
	return func(yield func([]int) bool) {
		batches := (n + size - 1) / size
		order := Stream(t.Seed, "algorithm 2 minibatches", t.steps/batches).Perm(n)
		slices.Chunk(order[t.steps%batches*size:], size)(yield)
	}
}

// Step estimates the mean bound over a batch and its gradient, and moves the parameters. If it
// returns an error, it changes nothing. It returns ctx's error at once if ctx ends; an error
// that names the first operation whose result is not finite, if bound or gradient are not; and
// an error in the first step if the bound does not depend on one of the parameters.
func (t *Trainer[T]) Step(ctx context.Context, batch []int) (elbo float64, err error) {
	elbo, err = t.run(ctx, job[T]{batch: batch, bound: t.bound, seed: t.Seed, purpose: "algorithm 2 step", step: t.steps, gradient: true})
	if err != nil {
		return 0, err
	}
	gradient := t.parts[0].gradient
	linalg.For(gradient.Rows, grain, t.add)
	if math.IsNaN(elbo) || math.IsInf(elbo, 0) || !linalg.Finite(gradient) {
		blame := t.blame()
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return elbo, fmt.Errorf("the ELBO (%v) or its gradient is not finite%s", elbo, blame)
	}
	for i := range t.reached {
		if !t.reached[i].Load() {
			return elbo, fmt.Errorf("the bound does not depend on the parameter %q: use it (Block.Var), or leave it out of NewTrainer", t.params[i].Name)
		}
	}
	t.reached = nil
	t.steps++
	t.optimiser.Ascend(t.steps, t.theta, gradient.Data, t.averages)
	return elbo, nil
}

// Evaluate computes a row such as Sample.LogEstimate, or the bound itself if row is nil, for a
// batch with the noise of a seed, and returns its mean and its elements. If an element is NaN,
// it returns an error that names the column; if ctx ends first, ctx's error.
func (t *Trainer[T]) Evaluate(ctx context.Context, batch []int, seed uint64, row Bound[T]) (mean float64, values []float64, err error) {
	if row == nil {
		row = t.bound
	}
	values = make([]float64, len(batch))
	mean, err = t.run(ctx, job[T]{batch: batch, bound: row, seed: seed, purpose: "algorithm 2 evaluation", values: values})
	if i := slices.IndexFunc(values, math.IsNaN); err == nil && i >= 0 {
		err = fmt.Errorf("the value of column %d of %d is NaN: the parameters or the data are damaged, or training has diverged", i+1, len(batch))
	}
	if err != nil {
		return 0, nil, err
	}
	return mean, values, nil
}

// addParts sets elements lo to hi-1 of the first part's gradient to the sums over all parts,
// in their order.
func (t *Trainer[T]) addParts(lo, hi int) {
	const chunk = 1 << 11 // stays in the nearest cache from part to part
	for ; lo < hi; lo += chunk {
		total := t.parts[0].gradient.RowRange(lo, min(lo+chunk, hi))
		for _, p := range t.parts[1:t.now.blocks] {
			linalg.Add(total, total, p.gradient.RowRange(lo, min(lo+chunk, hi)))
		}
	}
}

// run computes the parts of a batch and returns the mean bound.
func (t *Trainer[T]) run(ctx context.Context, j job[T]) (mean float64, err error) {
	n := len(j.batch)
	if n == 0 {
		panic("hvae: a batch without columns")
	}
	for i, p := range t.params {
		if p.Value.Shape() != t.views[i].Shape() || len(p.Value.Data) > 0 && &p.Value.Data[0] != &t.views[i].Data[0] {
			panic(fmt.Sprintf("hvae: the Value of parameter %q is not the matrix that the trainer trains: copy elements into Value, or use Restore", p.Name))
		}
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	t.watch(ctx)
	if j.size = t.BlockSize; j.size == 0 {
		j.size = 16
	}
	j.blocks = (n + j.size - 1) / j.size
	t.now = j
	t.next.Store(0)
	for len(t.parts) < j.blocks {
		t.parts = append(t.parts, part[T]{})
	}
	goroutines := min(j.blocks, runtime.GOMAXPROCS(0))
	for len(t.workers) < goroutines {
		t.workers = append(t.workers, &Block[T]{trainer: t, Tape: new(ad.Tape[T])})
	}
	linalg.For(goroutines, 1, t.work)
	for _, p := range t.parts[:j.blocks] {
		mean += p.bound
	}
	return mean / float64(n), ctx.Err()
}

// watch makes the end of ctx interrupt the tapes. It registers, and allocates, once for a ctx.
func (t *Trainer[T]) watch(ctx context.Context) {
	if t.stop != nil && ctx.Done() == t.done {
		return
	}
	t.unwatch()
	stop := new(atomic.Bool)
	t.done, t.stop = ctx.Done(), stop
	t.unwatch = context.AfterFunc(ctx, func() { stop.Store(true) })
}

// takeBlocks lets workers lo to hi-1 compute blocks until none is left or an interrupt.
func (t *Trainer[T]) takeBlocks(lo, hi int) {
	defer recoverInterrupted()
	for _, w := range t.workers[lo:hi] {
		for i := int(t.next.Add(1)) - 1; i < t.now.blocks; i = int(t.next.Add(1)) - 1 {
			t.compute(w, i)
		}
	}
}

// recoverInterrupted, deferred, ends the panic of an interrupted tape.
func recoverInterrupted() {
	if p := recover(); p != nil && p != any(ad.Interrupted{}) {
		panic(p)
	}
}

// compute computes part i of the batch.
func (t *Trainer[T]) compute(w *Block[T], i int) {
	sum := t.boundOf(w, i)
	out := &t.parts[i]
	out.bound = float64(sum.Scalar())
	if !t.now.gradient {
		return
	}
	if out.gradients == nil {
		out.gradient = linalg.New[T](len(t.theta), 1)
		out.gradients = t.params.split(out.gradient.Data)
	}
	reached := ad.BackwardInto(out.gradients, ad.Scale(sum, 1/T(len(t.now.batch))), w.Params)
	for j := range t.reached {
		if reached[j] {
			t.reached[j].Store(true)
		}
	}
}

// boundOf puts the bound of block i, summed over its columns, on the worker's tape.
func (t *Trainer[T]) boundOf(w *Block[T], i int) *ad.Var[T] {
	lo := i * t.now.size
	hi := min(lo+t.now.size, len(t.now.batch))
	w.Tape.Reset()
	w.Tape.Interrupt = t.stop
	w.Batch, w.Rng = t.now.batch[lo:hi:hi], w.stream.Reset(t.now.seed, t.now.purpose, t.now.step, lo)
	w.Params, w.Scratch = w.Params[:0], nil
	if t.Recompute && !t.now.blame {
		w.Scratch = &w.scratch
	}
	put := w.Tape.Const
	if t.now.gradient {
		put = w.Tape.Leaf
	}
	for _, p := range t.params {
		w.Params = append(w.Params, put(p.Value))
	}
	bound := t.now.bound(w)
	if want := (linalg.Shape{Rows: 1, Cols: hi - lo}); bound.Value.Shape() != want {
		panic(fmt.Sprintf("hvae: a bound %v for a block of %d columns, which needs %v", bound.Value.Shape(), hi-lo, want))
	}
	if t.now.values != nil {
		for j, v := range bound.Value.Data {
			t.now.values[lo+j] = float64(v)
		}
	}
	return ad.Sum(bound)
}

// blame runs the blocks again on a tape that keeps everything, and describes the first
// operation whose result is not finite.
func (t *Trainer[T]) blame() string {
	defer recoverInterrupted()
	w := &Block[T]{trainer: t, Tape: new(ad.Tape[T])}
	t.now.blame = true
	for i := range t.now.blocks {
		sum := t.boundOf(w, i)
		what, where := w.Tape.FirstNonFinite(), ""
		for j := 0; j < len(t.params) && what == ""; j++ {
			if !linalg.Finite(t.parts[i].gradients[j]) { // so one sweep is recorded, not all
				ad.Grad(sum, w.Params[j])
				what, where = w.Tape.FirstNonFinite(), ", in the gradient of "+t.params[j].Name
			}
		}
		if what != "" {
			lo := i * t.now.size
			return fmt.Sprintf(": columns %d to %d of the batch, first in %s%s", lo+1, lo+len(w.Batch), what, where)
		}
	}
	return ", though every block's is"
}
