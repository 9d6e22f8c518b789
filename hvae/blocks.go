package hvae

import (
	"cmp"
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

// A Block is a part of a batch. A batch is a list of column numbers, for example of columns in a matrix of
// observations. The B columns of a block are computed on one tape.
type Block[T linalg.Float] struct {
	Tape   *ad.Tape[T]
	Params []*ad.Var[T] // all parameters on Tape, in the order of Evaluator.Params; see Var
	Batch  []int        // column numbers [B]
	First  int          // position of the first column in the batch

	params  []*Param[T]
	streams []rand.PCG // random streams of the columns
}

// Var returns the variable of parameter p on the tape of the block.
func (b *Block[T]) Var(p *Param[T]) *ad.Var[T] {
	i := slices.Index(b.params, p)
	require(i >= 0, "Block.Var: the parameter is not one of the trainer's or evaluator's")
	return b.Params[i]
}

// Columns returns the columns of x [d×N] that b.Batch selects, as a constant [d×B].
func (b *Block[T]) Columns(x linalg.Matrix[T]) *ad.Var[T] {
	m := b.Tape.Matrix(x.Rows, len(b.Batch))
	for j, c := range b.Batch {
		require(c >= 0 && c < x.Cols, "Block.Columns: there is no column %d in the data %v", c, x.Shape())
		for i := range x.Rows {
			m.Data[i*m.Cols+j] = x.Data[i*x.Cols+c]
		}
	}
	return b.Tape.Const(m)
}

// Rng returns the random stream of column j of the block. It depends only on the seed, the number of the
// training step and the position of the column in the batch, not on the division of the batch into blocks.
func (b *Block[T]) Rng(j int) *rand.Rand { return rand.New(&b.streams[j]) }

// Noise returns a constant [rows×B] of independent draws from N(0, 1). Column j is drawn from Rng(j).
func (b *Block[T]) Noise(rows int) *ad.Var[T] { return b.Draws(rows, 1) }

// Draws returns the noise for L draws per column as a constant [rows×(B·L)] with independent N(0, 1) elements. Columns
// j·L to j·L + L − 1 are drawn from Rng(j).
func (b *Block[T]) Draws(rows, L int) *ad.Var[T] {
	require(rows >= 0 && L >= 0, "Block.Noise or Block.Draws: the number of rows or draws is negative")
	m := b.Tape.Matrix(rows, len(b.Batch)*L)
	for c := range m.Cols {
		random.FillNormalColumn(b.Rng(c/L), m, c)
	}
	return b.Tape.Const(m)
}

// An Evaluator calls functions for the blocks of a batch, concurrently, with one tape per core. The zero value has no
// parameters and is ready to use. An Evaluator is not safe for concurrent use.
type Evaluator[T linalg.Float] struct {
	Params    []*Param[T]
	BlockSize int // columns per block; 0 means 16. It affects only rounding

	blocks []*Block[T] // one per goroutine, reused for all blocks that the goroutine computes
}

// A pass is a computation of all blocks of a batch.
type pass[T linalg.Float] struct {
	batch []int
	noise random.Batch
	put   func(*ad.Tape[T], linalg.Matrix[T]) *ad.Var[T] // records a parameter on a tape
}

// evaluation returns the pass of Each and Evaluate.
func evaluation[T linalg.Float](batch []int, seed uint64) pass[T] {
	return pass[T]{batch, random.NewBatch(seed, "algorithm 2 evaluation"), (*ad.Tape[T]).Const}
}

// Each calls f for each block of a batch. The parameters are constants on the tape. The seed determines the noise. A
// column that occurs twice gets separate noise each time. Calls of f may be concurrent, with different blocks. The
// variables of a block are valid until f returns. If ctx is done, Each does not call f again and returns ctx's error.
func (e *Evaluator[T]) Each(ctx context.Context, batch []int, seed uint64, f func(b *Block[T])) error {
	_, err := e.each(ctx, evaluation[T](batch, seed), func(b *Block[T]) float64 { f(b); return 0 })
	return err
}

// Evaluate returns the value of a bound, such as Sample.LogEstimate, for each column of the batch, and the mean
// of these values; see Each. It returns an error if ctx is done before the end, or if a value is NaN.
func (e *Evaluator[T]) Evaluate(ctx context.Context, batch []int, seed uint64, bound Bound[T]) (mean float64, values []float64, err error) {
	values = make([]float64, len(batch))
	mean, err = e.each(ctx, evaluation[T](batch, seed), func(b *Block[T]) float64 {
		row := bound.row(b)
		for j, v := range row.Value.Data {
			values[b.First+j] = float64(v)
		}
		return float64(ad.Sum(row).Scalar())
	})
	if err != nil {
		return 0, nil, err
	}
	if i := slices.IndexFunc(values, math.IsNaN); i >= 0 {
		return 0, nil, fmt.Errorf("the value of column %d of %d is NaN, because the parameters or the data are damaged or training has diverged", i+1, len(batch))
	}
	return mean, values, nil
}

// size returns the number of columns per block.
func (e *Evaluator[T]) size() int { return cmp.Or(e.BlockSize, 16) }

// count returns the number of blocks of a batch of n columns.
func (e *Evaluator[T]) count(n int) int {
	require(n > 0, "the batch is empty")
	require(e.BlockSize >= 0, "BlockSize is negative")
	return (n + e.size() - 1) / e.size()
}

// each calls f for each block of a pass. It adds the results in the order of the blocks, and returns the sum divided by
// the number of columns.
func (e *Evaluator[T]) each(ctx context.Context, p pass[T], f func(b *Block[T]) float64) (mean float64, err error) {
	count := e.count(len(p.batch))
	for _, q := range e.Params {
		if len(q.Value.Data) != q.Value.Rows*q.Value.Cols {
			panic(fmt.Sprintf("hvae: the parameter %q is %v, but has %d elements", q.Name, q.Value.Shape(), len(q.Value.Data)))
		}
	}
	sums, goroutines := make([]float64, count), min(count, runtime.GOMAXPROCS(0))
	for len(e.blocks) < goroutines {
		e.blocks = append(e.blocks, &Block[T]{Tape: new(ad.Tape[T])})
	}
	var next atomic.Int64 // number of the next block
	linalg.For(goroutines, 1, func(lo, hi int) {
		for _, b := range e.blocks[lo:hi] {
			for i := int(next.Add(1)) - 1; i < count && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				e.start(b, i, p)
				sums[i] = f(b)
			}
		}
	})
	for _, s := range sums {
		mean += s
	}
	return mean / float64(len(p.batch)), ctx.Err()
}

// start initialises b as block i of a pass.
func (e *Evaluator[T]) start(b *Block[T], i int, p pass[T]) {
	b.First = i * e.size()
	hi := min(b.First+e.size(), len(p.batch))
	b.Batch = p.batch[b.First:hi:hi]
	b.Tape.Reset()
	b.params, b.Params = e.Params, b.Params[:0]
	for _, q := range e.Params {
		b.Params = append(b.Params, p.put(b.Tape, q.Value))
	}
	b.streams = slices.Grow(b.streams[:0], len(b.Batch))[:len(b.Batch)]
	for j := range b.streams {
		p.noise.Start(&b.streams[j], b.First+j)
	}
}
