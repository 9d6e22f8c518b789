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

// A Batch lists columns of the data by their numbers; see Block.Columns. A number may occur several times, each time
// with other noise. If one latent variable belongs to all N columns of the data, a bound that uses only the B columns
// of its block must multiply their log-likelihood by N/B (see the example).
type Batch []int

// Draws returns a batch of n draws for a target that has no data columns. All column numbers in the batch are −1.
func Draws(n int) Batch {
	mustBeAtLeast("Draws: n", n, 0)
	return slices.Repeat(Batch{-1}, n)
}

// A Block is a part of a batch that is computed on one tape.
type Block[T linalg.Float] struct {
	Tape  *ad.Tape[T]
	Size  int   // B, the number of columns
	First int   // position of the first column in the batch
	Batch Batch // numbers of the data columns [B]

	params  []*Param[T]  // parameters of the trainer during a step, otherwise nil
	vars    []*ad.Var[T] // params on Tape
	streams []rand.PCG   // random streams of the columns
	draws   int          // largest L in a call to Noise
}

// Var returns the value of parameter p on the tape of the block. During a step, it is a leaf, and Var panics unless p
// was passed to NewTrainer. A parameter that must not change, for example of a given model, is b.Tape.Const(p.Value).
// During an evaluation, Var returns a constant for any parameter.
func (b *Block[T]) Var(p *Param[T]) *ad.Var[T] {
	mustNotBeNil("Block.Var: the parameter", p == nil)
	if len(b.params) == 0 {
		return b.Tape.Const(p.Value)
	}
	i := slices.Index(b.params, p)
	if i < 0 {
		misuse("Block.Var: the parameter %q was not passed to NewTrainer; for a constant, use b.Tape.Const(p.Value)", p.Name)
	}
	return b.vars[i]
}

// Columns returns the columns of x [d×N] that b.Batch lists, as a constant [d×B]. It panics if one does not exist.
func (b *Block[T]) Columns(x linalg.Matrix[T]) *ad.Var[T] {
	m := b.Tape.Matrix(x.Rows, b.Size)
	for j, c := range b.Batch {
		if c < 0 || c >= x.Cols {
			misuse("Block.Columns: the data %v have no column %d; all columns of Draws, and of Evidence, are −1", x.Shape(), c)
		}
		for i := range x.Rows {
			m.Row(i)[j] = x.Row(i)[c]
		}
	}
	return b.Tape.Const(m)
}

// Rng returns the random stream of column j of the block. The stream depends only on the seed, the number of the
// training step and the position of the column in the batch, not on the division of the batch into blocks.
func (b *Block[T]) Rng(j int) *rand.Rand { return rand.New(&b.streams[j]) }

// Noise returns draws from N(0, 1) as a constant [rows×(B·L)]. Rng(j) supplies columns j·L to j·L + L − 1. Use L = 1
// unless the bound combines several draws (ImportanceBound).
func (b *Block[T]) Noise(rows, L int) *ad.Var[T] {
	b.draws = max(b.draws, L)
	m := b.Tape.Matrix(rows, b.Size*L)
	for c := range m.Cols {
		random.FillNormalColumn(b.Rng(c/L), m, c)
	}
	return b.Tape.Const(m)
}

// A Bound returns estimates [1×B] of a lower bound on log p_θ(x), one for each column of b (see Sample.LogEstimate). It
// must be safe for concurrent use, and depend only on the parameters, the columns and the random streams of b.
type Bound[T linalg.Float] func(b *Block[T]) *ad.Var[T]

func (bound Bound[T]) row(b *Block[T]) *ad.Var[T] {
	mustNotBeNil("the bound", bound == nil)
	return mustBe("the bound of a block", bound(b), 1, b.Size)
}

// An Evaluator evaluates bounds for the blocks of a batch concurrently, with one tape per core. The zero value is ready
// to use. An Evaluator is not safe for concurrent use.
type Evaluator[T linalg.Float] struct {
	BlockSize int // columns per block; 0 means 16. It affects only rounding

	blocks []*Block[T] // one per goroutine, reused for all blocks that the goroutine computes
}

// A pass is one computation over all blocks of a batch.
type pass[T linalg.Float] struct {
	batch  Batch
	noise  random.Batch
	params []*Param[T] // parameters that are leaves
}

// Evaluate computes a bound for each block of a batch. On the tapes of the blocks, all parameters are constants, and
// the variables of a block are valid only until the bound returns. The seed determines the noise. Evaluate returns the
// mean over the batch and the value for each column. It returns an error if ctx is done early, or if the mean is not
// finite. In the latter case, values is still valid, and the error names the first operation with such a result.
func (e *Evaluator[T]) Evaluate(ctx context.Context, batch Batch, seed uint64, bound Bound[T]) (
	mean float64, values []float64, err error) {
	p := pass[T]{batch: batch, noise: random.NewBatch(seed, "algorithm 2 evaluation")}
	values = make([]float64, len(batch))
	mean, err = e.each(ctx, p, func(b *Block[T]) float64 {
		row := bound.row(b)
		for j, v := range row.Value.Data {
			values[b.First+j] = float64(v)
		}
		return float64(ad.Sum(row).Scalar())
	})
	if err == nil && infinite(mean) {
		err = e.diagnose(p, bound, fmt.Sprintf("the bound (%v) is not finite", mean))
	}
	return mean, values, err
}

// Evidence estimates the evidence of a single target from n draws of logEstimate, such as Sample.LogEstimate. It
// returns an error if ctx is done early, if the estimate is infinite or NaN, for example because a standard deviation
// is 0, or if an ImportanceBound is NaN, because the other draws of this bound are then lost. Use float64 if |log
// p_θ(x, z)| exceeds 10⁴: in float32, the log evidence of 10,000 observations was off by 0.003, and of 100,000 by 0.8,
// and neither StandardError nor TailShape showed it.
func (e *Evaluator[T]) Evidence(ctx context.Context, n int, seed uint64, logEstimate Bound[T]) (Evidence, error) {
	own := Evaluator[T]{BlockSize: e.BlockSize} // its blocks have computed no other bound
	_, logs, err := own.Evaluate(ctx, Draws(n), seed, logEstimate)
	if ctx.Err() != nil {
		return Evidence{}, err
	}
	combined := slices.ContainsFunc(own.blocks, func(b *Block[T]) bool { return b.draws > 1 })
	if combined && slices.ContainsFunc(logs, math.IsNaN) {
		return Evidence{}, fmt.Errorf("an estimate from several draws is NaN; pass log p̂ itself, not ImportanceBound: %w", err)
	}
	evidence := ImportanceEstimate(logs)
	if infinite(evidence.Log) {
		return evidence, fmt.Errorf("the estimate is %v (diverged draws: %d): %w", evidence.Log, evidence.Diverged, err)
	}
	return evidence, nil
}

// diagnose recomputes the blocks of a pass until it finds one whose summed bound, or its gradient, is not finite. It
// returns an error that consists of the given text and a description of the first operation whose result is not finite.
func (e *Evaluator[T]) diagnose(p pass[T], bound Bound[T], what string) error {
	t := &ad.Tape[T]{RecordAll: true}
	b := &Block[T]{Tape: t}
	for i := range e.count(p.batch) {
		e.start(b, i, p)
		sum := ad.Sum(bound.row(b))
		note := ""
		if !infinite(float64(sum.Scalar())) {
			j := slices.IndexFunc(ad.Backward(nil, sum, b.vars...), func(g linalg.Matrix[T]) bool { return !linalg.Finite(g) })
			if j < 0 {
				continue
			}
			ad.Grad(sum, b.vars[j])
			note = ", in the gradient of " + p.params[j].Name
		}
		first, description := t.FirstNonFinite()
		if j := slices.Index(b.vars, first); j >= 0 {
			note = ", the parameter " + p.params[j].Name
		}
		return fmt.Errorf("%s: columns %d to %d of the batch, first in %s%s", what, b.First, b.First+b.Size-1, description, note)
	}
	return fmt.Errorf("%s in the sum over blocks, but finite in each block", what)
}

// infinite reports whether x is infinite or NaN.
func infinite(x float64) bool { return x-x != 0 }

func (e *Evaluator[T]) size() int { return cmp.Or(e.BlockSize, 16) }

func (e *Evaluator[T]) count(batch Batch) int {
	mustBeAtLeast("the number of columns of the batch", len(batch), 1)
	mustBeAtLeast("BlockSize", e.BlockSize, 0)
	return (len(batch) + e.size() - 1) / e.size()
}

// each calls f for each block of a pass, adds the results in block order, and divides the sum by the batch size.
func (e *Evaluator[T]) each(ctx context.Context, p pass[T], f func(b *Block[T]) float64) (mean float64, err error) {
	mustNotBeNil("the context", ctx == nil)
	count := e.count(p.batch)
	goroutines := min(count, runtime.GOMAXPROCS(0))
	results := make([]float64, count)
	for len(e.blocks) < goroutines {
		e.blocks = append(e.blocks, &Block[T]{Tape: new(ad.Tape[T])})
	}
	var next atomic.Int64 // number of the next block
	linalg.For(goroutines, 1, func(lo, hi int) {
		for _, b := range e.blocks[lo:hi] {
			for i := int(next.Add(1)) - 1; i < count && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				e.start(b, i, p)
				results[i] = f(b)
			}
		}
	})
	for _, r := range results {
		mean += r
	}
	return mean / float64(len(p.batch)), ctx.Err()
}

// start initialises b as block i of a pass.
func (e *Evaluator[T]) start(b *Block[T], i int, p pass[T]) {
	b.First = i * e.size()
	b.Size = min(e.size(), len(p.batch)-b.First)
	b.Batch = p.batch[b.First:][:b.Size:b.Size]
	b.Tape.Reset()
	b.params, b.vars = p.params, b.vars[:0]
	for _, q := range p.params {
		b.vars = append(b.vars, b.Tape.Leaf(q.Value))
	}
	b.streams = slices.Grow(b.streams[:0], b.Size)[:b.Size]
	for j := range b.streams {
		p.noise.Start(&b.streams[j], b.First+j)
	}
}
