package hvae

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"

	"hvae/ad"
	"hvae/linalg"
)

// A Param is a named parameter: one of θ or of φ.
type Param[T linalg.Float] struct {
	Name  string
	Value linalg.Matrix[T]
}

// A Bound returns estimates of the ELBO [1×(Hi−Lo)] for the columns of a block, such as
// Sample.ELBO, as a function of the parameters, the block's data and noise on its tape. It
// is called from several goroutines at once, and must give the same values whenever it is
// called for the same block of the same batch.
type Bound[T linalg.Float] func(b *Block[T]) *ad.Var[T]

// A Block is columns Lo to Hi−1 of a batch, which share a tape. A column is what the bound
// is averaged over: an observation of a minibatch, or a draw of the noise.
type Block[T linalg.Float] struct {
	Tape   *ad.Tape[T]
	Params []*ad.Var[T] // on the tape, in the trainer's order
	Lo, Hi int
	Rng    *rand.Rand // for noise: a stream that depends on seed, step and Lo only

	// Scratch is a tape for the flow's Recompute, or nil to keep everything.
	Scratch *ad.Tape[T]
	// State is what a bound keeps from block to block, so as not to allocate it each
	// time. Each goroutine has its own; it is nil at first.
	State any

	scratch ad.Tape[T]
	stream  Keyed
}

// A Trainer is Algorithm 2 (alg:vi): it climbs the mean of a bound over batches (equation
// 11, eqn:ELBO), in all parameters at once, by stochastic gradients. The columns of a batch
// are cut into blocks, of which goroutines, one for each core, take one at a time:
//
//	batch      | 1 … 16 | 17 … 32 | 33 … 40 |
//	bound          L₁   +    L₂   +    L₃        each on a tape of its own, side by side,
//	gradient      ∇L₁   +   ∇L₂   +   ∇L₃        but added in this order
//
// So the sums have the same bits on any number of cores. The parameters are one vector to
// the optimiser. A step allocates nothing once the tapes have their memory. A trainer
// serves one goroutine.
type Trainer[T linalg.Float] struct {
	// BlockSize returns how many columns of a batch of n share a tape, which must not
	// depend on the number of cores. If it is nil, all of them do.
	BlockSize func(n int) int
	// Recompute gives blocks a Scratch tape.
	Recompute bool
	// Seed is that of the blocks' noise. The noise of a step depends on the number of
	// steps before it, that of ELBO is always the same.
	Seed uint64

	params    []Param[T]
	optimiser Optimiser[T]
	bound     Bound[T]
	steps     int

	theta   linalg.Matrix[T] // the parameters' elements, one after another
	workers []*Block[T]
	parts   []part[T]
	now     batch[T]
	next    atomic.Int64 // the first block that nobody has taken

	stop    *atomic.Bool // interrupts all tapes
	done    <-chan struct{}
	unwatch func() bool

	// Made once, so that a step allocates nothing: bodies of loops, and θ and its gradient
	// as the optimiser takes them.
	work, add         func(lo, hi int)
	thetas, gradients [1]linalg.Matrix[T]
}

// A batch is what the goroutines work on.
type batch[T linalg.Float] struct {
	bound    Bound[T]
	purpose  string // of the noise
	step     int
	gradient bool      // is asked for
	blame    bool      // everything must be kept
	values   []float64 // for the bound's; nil if only their sum is asked for

	columns, size, blocks int
}

// A part is the result of a block.
type part[T linalg.Float] struct {
	bound     float64            // summed over its columns
	gradient  linalg.Matrix[T]   // its share in the mean over the batch; as θ
	gradients []linalg.Matrix[T] // the same, as the parameters
}

// NewTrainer returns a trainer of params. It moves their elements to one vector θ, so that
// each params[i].Value becomes a part of it, and changes them there.
func NewTrainer[T linalg.Float](params []Param[T], o Optimiser[T], bound Bound[T]) *Trainer[T] {
	t := &Trainer[T]{params: params, optimiser: o, bound: bound}
	n := 0
	for _, p := range params {
		n += len(p.Value.Data)
	}
	t.theta = linalg.New[T](n, 1)
	for i, m := range t.split(t.theta) {
		linalg.Copy(m, params[i].Value)
		params[i].Value = m
	}
	t.thetas[0] = t.theta
	t.work, t.add = t.takeBlocks, t.addParts
	return t
}

// Theta returns the vector θ of all parameters' elements, one parameter after another.
func (t *Trainer[T]) Theta() linalg.Matrix[T] { return t.theta }

// split views a vector like θ as a matrix for each parameter.
func (t *Trainer[T]) split(theta linalg.Matrix[T]) []linalg.Matrix[T] {
	ms := make([]linalg.Matrix[T], len(t.params))
	lo := 0
	for i, p := range t.params {
		hi := lo + len(p.Value.Data)
		ms[i] = linalg.Of(p.Value.Rows, p.Value.Cols, theta.Data[lo:hi:hi])
		lo = hi
	}
	return ms
}

// Step estimates the mean bound over a batch of n columns and its gradient, and moves the
// parameters. If either is not finite, it leaves the parameters as they are and returns an
// error that names the first operation whose result was not. If ctx ends during the step,
// it returns ctx's error at once, and parameters and optimiser are as before.
func (t *Trainer[T]) Step(ctx context.Context, n int) (elbo float64, err error) {
	if err := t.run(ctx, n, batch[T]{bound: t.bound, purpose: "algorithm 2 step", step: t.steps, gradient: true}); err != nil {
		return 0, err
	}
	gradient := t.parts[0].gradient
	linalg.For(gradient.Rows, addGrain, t.add)
	elbo = t.mean()
	if math.IsNaN(elbo) || math.IsInf(elbo, 0) || !linalg.Finite(gradient) {
		blame := t.blame()
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return elbo, fmt.Errorf("the ELBO (%v) or its gradient is not finite%s", elbo, blame)
	}
	t.gradients[0] = gradient
	t.optimiser.Ascend(t.thetas[:], t.gradients[:])
	t.steps++
	return elbo, nil
}

// ELBO estimates the mean bound over a batch of n columns at the current parameters. If
// ctx ends first, it returns ctx's error.
func (t *Trainer[T]) ELBO(ctx context.Context, n int) (float64, error) {
	if err := t.run(ctx, n, batch[T]{bound: t.bound, purpose: "algorithm 2 evaluation"}); err != nil {
		return 0, err
	}
	return t.mean(), nil
}

// Evaluate returns the elements of another row than the bound, such as Sample.LogEstimate,
// for a batch of n columns with the noise of ELBO. If an element is NaN, it returns an error
// that names the column. If ctx ends first, it returns ctx's error.
func (t *Trainer[T]) Evaluate(ctx context.Context, n int, row Bound[T]) ([]float64, error) {
	b := batch[T]{bound: row, purpose: "algorithm 2 evaluation", values: make([]float64, n)}
	if err := t.run(ctx, n, b); err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(b.values, math.IsNaN); i >= 0 {
		return nil, fmt.Errorf("the value of column %d of %d is NaN: the parameters or the data are damaged, or training has diverged", i+1, n)
	}
	return b.values, nil
}

// addGrain is how many elements of the gradient outweigh starting a goroutine.
const addGrain = 1 << 15

// addParts sets elements lo to hi-1 of the first part's gradient to those of the batch,
// adding parts in their order.
func (t *Trainer[T]) addParts(lo, hi int) {
	const piece = 1 << 11 // stays in the nearest cache from part to part
	for ; lo < hi; lo += piece {
		total := t.parts[0].gradient.RowRange(lo, min(lo+piece, hi))
		for _, p := range t.parts[1:t.now.blocks] {
			linalg.Add(total, total, p.gradient.RowRange(lo, min(lo+piece, hi)))
		}
	}
}

// mean returns the mean bound over the batch.
func (t *Trainer[T]) mean() float64 {
	sum := 0.0
	for _, p := range t.parts[:t.now.blocks] {
		sum += p.bound
	}
	return sum / float64(t.now.columns)
}

// run computes the parts of a batch of n columns.
func (t *Trainer[T]) run(ctx context.Context, n int, b batch[T]) error {
	if n < 1 {
		panic(fmt.Sprintf("hvae: a batch of %d columns", n))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	t.watch(ctx)
	b.columns, b.size = n, n
	if t.BlockSize != nil {
		b.size = t.BlockSize(n)
	}
	b.blocks = (n + b.size - 1) / b.size
	t.now = b
	t.next.Store(0)
	for len(t.parts) < b.blocks {
		t.parts = append(t.parts, part[T]{})
	}
	goroutines := min(b.blocks, runtime.GOMAXPROCS(0))
	for len(t.workers) < goroutines {
		t.workers = append(t.workers, &Block[T]{Tape: new(ad.Tape[T])})
	}
	linalg.For(goroutines, 1, t.work)
	return ctx.Err()
}

// watch makes the end of ctx interrupt the tapes. It registers once for a context, so that
// steps under one allocate nothing.
func (t *Trainer[T]) watch(ctx context.Context) {
	if t.stop != nil && ctx.Done() == t.done {
		return
	}
	if t.unwatch != nil {
		t.unwatch()
	}
	stop := new(atomic.Bool)
	t.done, t.stop = ctx.Done(), stop
	t.unwatch = context.AfterFunc(ctx, func() { stop.Store(true) })
}

// takeBlocks lets workers lo to hi-1 compute blocks until none is left or they are
// interrupted.
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
		out.gradient = linalg.New[T](t.theta.Rows, 1)
		out.gradients = t.split(out.gradient)
	}
	for j, g := range out.gradients {
		w.Params[j].GradientInto(g, false)
	}
	ad.Backward(ad.Scale(sum, 1/T(t.now.columns)), w.Params...)
}

// boundOf puts the bound of block i, summed over its columns, on the worker's tape.
func (t *Trainer[T]) boundOf(w *Block[T], i int) *ad.Var[T] {
	w.Lo, w.Hi = i*t.now.size, min((i+1)*t.now.size, t.now.columns)
	w.Rng = w.stream.Reset(t.Seed, t.now.purpose, t.now.step, w.Lo)
	w.Tape.Reset()
	w.Tape.Interrupt = t.stop
	w.Scratch = nil
	if t.Recompute && !t.now.blame {
		w.Scratch = &w.scratch
	}
	w.Params = w.Params[:0]
	for _, p := range t.params {
		if t.now.gradient {
			w.Params = append(w.Params, w.Tape.Leaf(p.Value))
		} else {
			w.Params = append(w.Params, w.Tape.Const(p.Value))
		}
	}
	bound := t.now.bound(w)
	if want := (linalg.Shape{Rows: 1, Cols: w.Hi - w.Lo}); bound.Value.Shape() != want {
		panic(fmt.Sprintf("hvae: a bound %v for a block of %d columns, which needs %v", bound.Value.Shape(), w.Hi-w.Lo, want))
	}
	if t.now.values != nil {
		for j, v := range bound.Value.Data {
			t.now.values[w.Lo+j] = float64(v)
		}
	}
	return ad.Sum(bound)
}

// blame runs the step's blocks again on a tape that keeps everything, and says which
// operation first had a result that is not finite.
func (t *Trainer[T]) blame() string {
	defer recoverInterrupted()
	w := &Block[T]{Tape: new(ad.Tape[T])}
	t.now.blame = true
	for i := range t.now.blocks {
		sum := t.boundOf(w, i)
		what := w.Tape.FirstNonFinite()
		for j := 0; j < len(t.params) && what == ""; j++ {
			if !linalg.Finite(t.parts[i].gradients[j]) { // one sweep that is kept, of all there are
				ad.Grad(sum, w.Params[j])
				if what = w.Tape.FirstNonFinite(); what != "" {
					what += ", in the gradient of " + t.params[j].Name
				}
			}
		}
		if what != "" {
			return fmt.Sprintf(": columns %d to %d of the batch, first in %s", w.Lo+1, w.Hi, what)
		}
	}
	return ", though every block's is"
}
