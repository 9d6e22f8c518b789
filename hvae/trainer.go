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
	"hvae/linalg/random"
)

// A Bound returns an estimate of the ELBO, such as Sample.ELBO, for each of the B columns of block b. The
// result is [1×B]. A Bound must be safe for concurrent use and depend only on b.Params, b.Batch and the streams b.Rng.
type Bound[T linalg.Float] func(b *Block[T]) *ad.Var[T]

// A Block is a part of a batch. Its B columns are computed on one tape.
type Block[T linalg.Float] struct {
	Tape   *ad.Tape[T]
	Params []*ad.Var[T] // all parameters on Tape, in the order of NewTrainer; see Var
	Batch  []int        // column numbers [B]

	trainer *Trainer[T]
	streams []*columnStream
}

// A columnStream is the random stream of a column of a batch.
type columnStream struct {
	pcg rand.PCG
	rng *rand.Rand // draws from pcg
}

// Rng returns the random stream of column j of the block. It depends only on the trainer's seed, the number of
// the step and the position of the column in the batch, not on the division of the batch into blocks.
func (b *Block[T]) Rng(j int) *rand.Rand { return b.streams[j].rng }

// Noise returns a constant [rows×B] of independent draws from N(0, 1). Column j is drawn from Rng(j).
func (b *Block[T]) Noise(rows int) *ad.Var[T] { return b.Draws(rows, 1) }

// Draws returns the noise for L draws per column, a constant [rows×(B·L)] from N(0, 1). Its columns j·L to
// j·L + L − 1 are drawn from Rng(j).
func (b *Block[T]) Draws(rows, L int) *ad.Var[T] {
	m := b.Tape.Matrix(rows, len(b.Batch)*L)
	for c := range m.Cols {
		random.FillNormalColumn(b.Rng(c/L), m, c)
	}
	return b.Tape.Const(m)
}

// startStreams starts the stream of each column. The first column has the given position in the batch.
func (b *Block[T]) startStreams(batch random.Batch, position int) {
	for len(b.streams) < len(b.Batch) {
		s := new(columnStream)
		s.rng = rand.New(&s.pcg)
		b.streams = append(b.streams, s)
	}
	for j := range b.Batch {
		batch.Start(&b.streams[j].pcg, position+j)
	}
}

// Var returns parameter p on the tape of the block. It panics if the trainer does not train p.
func (b *Block[T]) Var(p *Param[T]) *ad.Var[T] {
	i := slices.Index(b.trainer.params, p)
	if i < 0 {
		panic(fmt.Sprintf("hvae: Block.Var: the parameter %q was not passed to NewTrainer", p.Name))
	}
	return b.Params[i]
}

// Columns returns the columns of x [d×N] that b.Batch selects, as a constant [d×B].
func (b *Block[T]) Columns(x linalg.Matrix[T]) *ad.Var[T] {
	m := b.Tape.Matrix(x.Rows, len(b.Batch))
	for j, c := range b.Batch {
		if c < 0 || c >= x.Cols {
			panic(fmt.Sprintf("hvae: Block.Columns: there is no column %d in the data %v", c, x.Shape()))
		}
		for i := range x.Rows {
			m.Data[i*m.Cols+j] = x.Data[i*x.Cols+c]
		}
	}
	return b.Tape.Const(m)
}

// A Trainer maximises the mean of a bound over batches of data by stochastic gradient ascent
// (Algorithm 2, alg:vi, and equation 11, eqn:ELBO).
//
// A batch is a list of column numbers, for example of a matrix of observations. A column that
// occurs twice gets separate noise each time. Goroutines, one per core, compute blocks of the batch
// concurrently, each block on a separate tape:
//
//	batch      | 1 … 16 | 17 … 32 | 33 … 40 |
//	bound          L₁   +    L₂   +    L₃
//	gradient      ∇L₁   +   ∇L₂   +   ∇L₃
//
// The terms are added from left to right, so results are bit-identical on any number of cores. After two
// steps with a given batch size, steps do not allocate memory unless the bound or the optimiser does. A
// Trainer is not safe for concurrent use.
type Trainer[T linalg.Float] struct {
	BlockSize int    // columns per block, initially 16; it affects only rounding
	Seed      uint64 // seed of the noise in steps

	params    []*Param[T]
	elements  int // number of elements of all parameters
	optimiser Optimiser[T]
	steps     int // number of steps taken
	bound     Bound[T]

	now     job[T]
	next    atomic.Int64     // number of the next block to compute
	workers []*Block[T]      // one per goroutine; each computes one block after another
	results []blockResult[T] // of the current batch

	work, add func(lo, hi int) // loop bodies, created once so that steps do not allocate
}

// A job describes one evaluation of a bound for a batch, to compute either the gradient of the mean or
// the value for each column.
type job[T linalg.Float] struct {
	batch        []int
	bound        Bound[T]
	values       []float64       // receives the bound of each column; nil to compute the gradient
	size, blocks int             // columns per block, and number of blocks
	ctx          context.Context // if it is done, no further block is computed
	noise        random.Batch    // random streams of the columns
}

// A blockResult holds the bound of a block and its gradient.
type blockResult[T linalg.Float] struct {
	bound     float64            // sum over the columns of the block
	gradient  linalg.Matrix[T]   // gradient of bound/(batch size), [elements×1]
	gradients []linalg.Matrix[T] // the same elements in the shapes of the parameters
	reached   []bool             // whether bound depends on each parameter; set in the first step
}

// NewTrainer returns a trainer that updates params in place. It resets the running averages of all params.
// It panics if two parameters have the same name.
func NewTrainer[T linalg.Float](params []*Param[T], o Optimiser[T], bound Bound[T]) *Trainer[T] {
	t := &Trainer[T]{BlockSize: 16, params: slices.Clone(params), optimiser: o, bound: bound}
	for i, p := range t.params {
		if slices.ContainsFunc(t.params[:i], func(q *Param[T]) bool { return q.Name == p.Name }) {
			panic(fmt.Sprintf("hvae: two parameters are named %q", p.Name))
		}
		p.Averages = nil
		for _, start := range o.Start() {
			p.Averages = append(p.Averages, slices.Repeat([]T{start}, len(p.Value.Data)))
		}
		t.elements += len(p.Value.Data)
	}
	t.work, t.add = t.computeBlocks, t.addGradients
	return t
}

// Step estimates the mean bound over a batch and its gradient, and updates the parameters. It returns an
// error and does not change the trainer if
//   - ctx is done (Step tests it before each block),
//   - the bound or its gradient is not finite (the error names the first operation with a non-finite result),
//   - or, in the first step, the bound does not depend on one of the parameters.
func (t *Trainer[T]) Step(ctx context.Context, batch []int) (elbo float64, err error) {
	elbo, err = t.run(ctx, job[T]{batch: batch, bound: t.bound, noise: random.NewBatch(t.Seed, "algorithm 2 step", t.steps)})
	if err != nil {
		return 0, err
	}
	total := t.results[0]
	linalg.For(t.elements, grain, t.add)
	if math.IsNaN(elbo) || math.IsInf(elbo, 0) || !linalg.Finite(total.gradient) {
		where := t.findNonFinite()
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return elbo, fmt.Errorf("the ELBO (%v) or its gradient is not finite%s", elbo, where)
	}
	for i, p := range t.params {
		if t.steps == 0 && !slices.ContainsFunc(t.results[:t.now.blocks], func(r blockResult[T]) bool { return r.reached[i] }) {
			return elbo, fmt.Errorf("the bound does not depend on the parameter %q; use the parameter (Block.Var), or do not pass it to NewTrainer", p.Name)
		}
	}
	t.steps++
	for i, p := range t.params {
		t.optimiser.Ascend(t.steps, p.Value.Data, total.gradients[i].Data, p.Averages)
	}
	return elbo, nil
}

// Evaluate returns the value of a bound, such as Sample.LogEstimate, for each column of the batch, and the
// mean of these values. The seed determines the noise. If bound is nil, Evaluate uses the bound of
// NewTrainer. It returns an error if ctx is done before the end, or if a value is NaN.
func (t *Trainer[T]) Evaluate(ctx context.Context, batch []int, seed uint64, bound Bound[T]) (mean float64, values []float64, err error) {
	if bound == nil {
		bound = t.bound
	}
	values = make([]float64, len(batch))
	mean, err = t.run(ctx, job[T]{batch: batch, bound: bound, noise: random.NewBatch(seed, "algorithm 2 evaluation"), values: values})
	if err != nil {
		return 0, nil, err
	}
	if i := slices.IndexFunc(values, math.IsNaN); i >= 0 {
		return 0, nil, fmt.Errorf("the value of column %d of %d is NaN, because the parameters or the data are damaged or training has diverged", i+1, len(batch))
	}
	return mean, values, nil
}

// run executes job j. It stores the result of each block in t.results and returns the mean bound.
func (t *Trainer[T]) run(ctx context.Context, j job[T]) (mean float64, err error) {
	n := len(j.batch)
	if n == 0 {
		panic("hvae: the batch of a Trainer is empty")
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	j.ctx, j.size, j.blocks = ctx, t.BlockSize, (n+t.BlockSize-1)/t.BlockSize
	t.now = j
	t.next.Store(0)
	t.results = append(t.results, make([]blockResult[T], max(0, j.blocks-len(t.results)))...)
	goroutines := min(j.blocks, runtime.GOMAXPROCS(0))
	for len(t.workers) < goroutines {
		t.workers = append(t.workers, &Block[T]{trainer: t, Tape: new(ad.Tape[T])})
	}
	linalg.For(goroutines, 1, t.work)
	for _, r := range t.results[:j.blocks] {
		mean += r.bound
	}
	return mean / float64(n), ctx.Err()
}

// computeBlocks computes blocks with t.workers[lo:hi] until no block is left or the context is done.
func (t *Trainer[T]) computeBlocks(lo, hi int) {
	for _, w := range t.workers[lo:hi] {
		for i := int(t.next.Add(1)) - 1; i < t.now.blocks && t.now.ctx.Err() == nil; i = int(t.next.Add(1)) - 1 {
			t.compute(w, i)
		}
	}
}

// compute evaluates block i on the tape of w and stores the result in t.results[i].
func (t *Trainer[T]) compute(w *Block[T], i int) {
	sum := t.boundOf(w, i)
	r := &t.results[i]
	r.bound = float64(sum.Scalar())
	if t.now.values != nil {
		return
	}
	if r.gradients == nil {
		r.gradient = linalg.New[T](t.elements, 1)
		rest := r.gradient.Data
		for _, p := range t.params {
			n := len(p.Value.Data)
			r.gradients = append(r.gradients, linalg.Of(p.Value.Rows, p.Value.Cols, rest[:n:n]))
			rest = rest[n:]
		}
	}
	ad.Backward(r.gradients, ad.Scale(sum, 1/T(len(t.now.batch))), w.Params...)
	if t.steps == 0 {
		r.reached = r.reached[:0]
		for _, p := range w.Params {
			r.reached = append(r.reached, ad.Depends(sum, p))
		}
	}
}

// boundOf computes the bound for block i on the tape of w. It returns the sum over the columns.
func (t *Trainer[T]) boundOf(w *Block[T], i int) *ad.Var[T] {
	lo := i * t.now.size
	hi := min(lo+t.now.size, len(t.now.batch))
	w.Tape.Reset()
	w.Batch = t.now.batch[lo:hi:hi]
	w.startStreams(t.now.noise, lo)
	w.Params = w.Params[:0]
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

// addGradients adds elements lo to hi−1 of the gradients of blocks 2, 3, …, in this order, to the gradient
// of block 1.
func (t *Trainer[T]) addGradients(lo, hi int) {
	const chunk = 1 << 11 // number of elements that fit into the first-level cache
	for ; lo < hi; lo += chunk {
		total := t.results[0].gradient.RowRange(lo, min(lo+chunk, hi))
		for _, r := range t.results[1:t.now.blocks] {
			linalg.Add(total, total, r.gradient.RowRange(lo, min(lo+chunk, hi)))
		}
	}
}

// findNonFinite computes the blocks again and returns a description of the first operation
// whose result is not finite.
func (t *Trainer[T]) findNonFinite() string {
	w := &Block[T]{trainer: t, Tape: &ad.Tape[T]{KeepAll: true}}
	for i := range t.now.blocks {
		if t.now.ctx.Err() != nil {
			break
		}
		sum := t.boundOf(w, i)
		operation, where := w.Tape.FirstNonFinite(), ""
		j := slices.IndexFunc(t.results[i].gradients, func(g linalg.Matrix[T]) bool { return !linalg.Finite(g) })
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
