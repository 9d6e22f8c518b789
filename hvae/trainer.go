package hvae

import (
	"context"
	"fmt"
	"math"
	"slices"

	"hvae/ad"
	"hvae/linalg"
	"hvae/linalg/random"
)

// A Bound returns an estimate of the ELBO, such as Sample.ELBO, for each of the B columns of block b. The result
// is [1×B]. A Bound must be safe for concurrent use. It must depend only on b.Params, b.Batch and b.Rng.
type Bound[T linalg.Float] func(b *Block[T]) *ad.Var[T]

// row returns bound(b). It panics unless the result is [1×B].
func (bound Bound[T]) row(b *Block[T]) *ad.Var[T] {
	require(bound != nil, "the bound is nil")
	return mustBe("the bound of a block", bound(b), 1, len(b.Batch))
}

// A Trainer maximises the mean of a bound over batches of data by stochastic gradient ascent (Algorithm 2, alg:vi, and
// equation 11, eqn:ELBO). The batch is divided into blocks, which are computed concurrently:
//
//	batch      | 1 … 16 | 17 … 32 | 33 … 40 |
//	bound          L₁   +    L₂   +    L₃
//	gradient      ∇L₁   +   ∇L₂   +   ∇L₃
//
// The terms are added from left to right, so results are bit-identical on any number of cores. The embedded Evaluator
// has the same list of parameters, which must not be changed. A Trainer is not safe for concurrent use.
type Trainer[T linalg.Float] struct {
	Evaluator[T]
	Bound Bound[T]
	Seed  uint64 // seed of the noise in steps

	optimiser Optimiser[T]
	steps     int              // number of steps taken
	shapes    []linalg.Shape   // of the parameters
	results   []blockResult[T] // memory for the blocks of a batch
}

// A blockResult holds the bound of a block and its gradient.
type blockResult[T linalg.Float] struct {
	bound     float64            // sum over the columns of the block
	gradients []linalg.Matrix[T] // gradient of bound/(batch size) with respect to each parameter
	reached   []bool             // in the first step, whether bound depends on each parameter
}

// NewTrainer returns a trainer that updates params in place. It resets the running averages of all params.
// It panics if two parameters have the same name or share memory.
func NewTrainer[T linalg.Float](params []*Param[T], o Optimiser[T], bound Bound[T]) *Trainer[T] {
	require(o != nil, "NewTrainer: the optimiser is nil")
	t := &Trainer[T]{Evaluator: Evaluator[T]{Params: slices.Clone(params)}, Bound: bound, optimiser: o}
	for i, p := range params {
		for _, q := range params[:i] {
			require(p.Name != q.Name, "two parameters are named %q", p.Name)
			require(!beginsIn(p, q) && !beginsIn(q, p), "the parameters %q and %q share memory", q.Name, p.Name)
		}
		t.shapes = append(t.shapes, p.Value.Shape())
		p.Averages = nil
		for _, start := range o.Start() {
			p.Averages = append(p.Averages, slices.Repeat([]T{start}, len(p.Value.Data)))
		}
	}
	return t
}

// beginsIn reports whether the first element of p has the same address as an element of q.
func beginsIn[T linalg.Float](p, q *Param[T]) bool {
	for i := range q.Value.Data {
		if len(p.Value.Data) > 0 && &p.Value.Data[0] == &q.Value.Data[i] {
			return true
		}
	}
	return false
}

// Steps returns the number of steps taken.
func (t *Trainer[T]) Steps() int { return t.steps }

// Step estimates the mean bound over a batch and its gradient, and updates the parameters. It returns an
// error and does not change the trainer if
//   - ctx is done (Step tests it before each block),
//   - the bound or its gradient is not finite (the error names the first operation with a non-finite result),
//   - or, in the first step, the bound does not depend on one of the parameters.
func (t *Trainer[T]) Step(ctx context.Context, batch []int) (elbo float64, err error) {
	noise, n, count := random.NewBatch(t.Seed, "algorithm 2 step", t.steps), len(batch), t.count(len(batch))
	for i, p := range t.Params {
		require(p.Value.Shape() == t.shapes[i], "the parameter %q is %v, but was %v in NewTrainer", p.Name, p.Value.Shape(), t.shapes[i])
	}
	t.results = append(t.results, make([]blockResult[T], max(0, count-len(t.results)))...)
	results := t.results[:count]
	err = t.each(ctx, batch, noise, (*ad.Tape[T]).Leaf, func(b *Block[T]) {
		r, sum := &results[b.First/t.size()], ad.Sum(t.Bound.row(b))
		r.bound = float64(sum.Scalar())
		r.gradients = ad.Backward(r.gradients, ad.Scale(sum, 1/T(n)), b.Params...)
		if r.reached = r.reached[:0]; t.steps == 0 {
			for _, p := range b.Params {
				r.reached = append(r.reached, ad.Depends(sum, p))
			}
		}
	})
	if err != nil {
		return 0, err
	}
	for _, r := range results {
		elbo += r.bound
	}
	elbo /= float64(n)
	gradients := addGradients(results)
	if math.IsNaN(elbo) || math.IsInf(elbo, 0) || slices.ContainsFunc(gradients, notFinite) {
		where := t.findNonFinite(ctx, batch, noise)
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return elbo, fmt.Errorf("the ELBO (%v) or its gradient is not finite%s", elbo, where)
	}
	for i, p := range t.Params {
		if t.steps == 0 && !slices.ContainsFunc(results, func(r blockResult[T]) bool { return r.reached[i] }) {
			return elbo, fmt.Errorf("the bound does not depend on the parameter %q; use the parameter (Block.Var), or do not pass it to NewTrainer", p.Name)
		}
	}
	t.steps++
	for i, p := range t.Params {
		t.optimiser.Ascend(t.steps, p.Value.Data, gradients[i].Data, p.Averages)
	}
	return elbo, nil
}

// addGradients adds the gradients of blocks 2, 3, …, in this order, to the gradients of block 1, which it returns.
func addGradients[T linalg.Float](results []blockResult[T]) []linalg.Matrix[T] {
	for _, r := range results[1:] {
		for i, g := range r.gradients {
			linalg.For(len(g.Data), grain, func(lo, hi int) {
				sum := linalg.Column(results[0].gradients[i].Data[lo:hi]...)
				linalg.Add(sum, sum, linalg.Column(g.Data[lo:hi]...))
			})
		}
	}
	return results[0].gradients
}

func notFinite[T linalg.Float](m linalg.Matrix[T]) bool { return !linalg.Finite(m) }

// findNonFinite computes the blocks of a step again and returns a description of the first operation whose
// result is not finite.
func (t *Trainer[T]) findNonFinite(ctx context.Context, batch []int, noise random.Batch) string {
	b := &Block[T]{Tape: &ad.Tape[T]{KeepAll: true}}
	for i := range t.count(len(batch)) {
		if ctx.Err() != nil {
			break
		}
		t.start(b, i, batch, noise, (*ad.Tape[T]).Leaf)
		sum := ad.Sum(t.Bound.row(b))
		first, description := b.Tape.FirstNonFinite()
		if p := slices.Index(b.Params, first); p >= 0 {
			description += ", the parameter " + t.Params[p].Name
		}
		j := slices.IndexFunc(t.results[i].gradients, notFinite)
		if first == nil && j >= 0 {
			ad.Grad(sum, b.Params[j])
			first, description = b.Tape.FirstNonFinite()
			description += ", in the gradient of " + t.Params[j].Name
		}
		if first != nil {
			return fmt.Sprintf(": columns %d to %d of the batch, first in %s", b.First, b.First+len(b.Batch)-1, description)
		}
	}
	return " in the sum over blocks, but finite in each block"
}
