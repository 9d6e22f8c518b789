package hvae

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"hvae/ad"
	"hvae/linalg"
	"hvae/linalg/random"
)

// A Bound returns an estimate of a lower bound on log p_θ(x), such as Sample.LogEstimate, for each of the B columns of
// block b. The result is [1×B]. A Bound must be safe for concurrent use. It must depend only on b.Params, b.Batch and b.Rng.
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
	steps     int                  // number of steps taken
	used      []atomic.Bool        // whether the bound depends on each parameter
	gradients [][]linalg.Matrix[T] // for each block of a batch, the gradient with respect to each parameter
}

// NewTrainer returns a trainer that updates params in place. It resets the running averages of all params.
// It panics if two parameters have the same name or share memory.
func NewTrainer[T linalg.Float](params []*Param[T], o Optimiser[T], bound Bound[T]) *Trainer[T] {
	require(o != nil, "NewTrainer: the optimiser is nil")
	t := &Trainer[T]{Evaluator: Evaluator[T]{Params: slices.Clone(params)}, Bound: bound, optimiser: o}
	t.used, t.gradients = make([]atomic.Bool, len(params)), make([][]linalg.Matrix[T], 1)
	for i, p := range params {
		for _, q := range params[:i] {
			require(p.Name != q.Name, "two parameters are named %q", p.Name)
			require(!beginsIn(p, q) && !beginsIn(q, p), "the parameters %q and %q share memory", q.Name, p.Name)
		}
		t.gradients[0] = append(t.gradients[0], linalg.New[T](p.Value.Rows, p.Value.Cols))
		start := o.Start()
		p.Averages = linalg.New[T](len(start), len(p.Value.Data))
		linalg.Copy(p.Averages, linalg.Column(start...))
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

// Step estimates the mean bound over a batch and its gradient, and updates the parameters. It returns an error and does
// not change the trainer if ctx is done (tested before each block), if the bound or its gradient is not finite (the error
// names the first operation whose result is not), or if the bound of the first step does not depend on a parameter.
func (t *Trainer[T]) Step(ctx context.Context, batch []int) (elbo float64, err error) {
	for i, p := range t.Params {
		was := t.gradients[0][i].Shape()
		if p.Value.Shape() != was {
			panic(fmt.Sprintf("hvae: the parameter %q is %v, but was %v in NewTrainer", p.Name, p.Value.Shape(), was))
		}
	}
	count := t.count(len(batch))
	step := pass[T]{batch, random.NewBatch(t.Seed, "algorithm 2 step", t.steps), (*ad.Tape[T]).Leaf}
	t.gradients = append(t.gradients, make([][]linalg.Matrix[T], max(0, count-len(t.gradients)))...)
	elbo, err = t.each(ctx, step, func(b *Block[T]) float64 {
		sum, gradients := ad.Sum(t.Bound.row(b)), &t.gradients[b.First/t.size()]
		*gradients = ad.Backward(*gradients, ad.Scale(sum, 1/T(len(batch))), b.Params...)
		for i, p := range b.Params {
			if !t.used[i].Load() && ad.Depends(sum, p) {
				t.used[i].Store(true)
			}
		}
		return float64(sum.Scalar())
	})
	if err != nil {
		return 0, err
	}
	gradients := t.gradients[0]
	if count > 1 {
		linalg.For(len(gradients), 1, func(lo, hi int) {
			for _, block := range t.gradients[1:count] { // in the order of the blocks
				for i := lo; i < hi; i++ {
					linalg.Add(gradients[i], gradients[i], block[i])
				}
			}
		})
	}
	if elbo-elbo != 0 || slices.ContainsFunc(gradients, notFinite) {
		return elbo, t.nonFinite(ctx, step, elbo)
	}
	for i, p := range t.Params {
		if !t.used[i].Load() {
			return elbo, fmt.Errorf("the bound does not depend on the parameter %q; use the parameter (Block.Var), or do not pass it to NewTrainer", p.Name)
		}
	}
	t.steps++
	for i, p := range t.Params {
		t.optimiser.Ascend(t.steps, p.Value.Data, gradients[i].Data, p.Averages)
	}
	return elbo, nil
}

func notFinite[T linalg.Float](m linalg.Matrix[T]) bool { return !linalg.Finite(m) }

// nonFinite computes a step again and returns an error that describes the first operation with a non-finite result.
func (t *Trainer[T]) nonFinite(ctx context.Context, step pass[T], elbo float64) error {
	b := &Block[T]{Tape: &ad.Tape[T]{KeepAll: true}}
	for i := range t.count(len(step.batch)) {
		t.start(b, i, step)
		sum := ad.Sum(t.Bound(b))
		if err := ctx.Err(); err != nil {
			return err
		}
		first, description := b.Tape.FirstNonFinite()
		if p := slices.Index(b.Params, first); p >= 0 {
			description += ", the parameter " + t.Params[p].Name
		}
		j := slices.IndexFunc(t.gradients[i], notFinite)
		if first == nil && j >= 0 {
			ad.Grad(sum, b.Params[j])
			first, description = b.Tape.FirstNonFinite()
			description += ", in the gradient of " + t.Params[j].Name
		}
		if first != nil {
			last := b.First + len(b.Batch) - 1
			return fmt.Errorf("the ELBO (%v) or its gradient is not finite: columns %d to %d of the batch, first in %s", elbo, b.First, last, description)
		}
	}
	return fmt.Errorf("the ELBO (%v) or its gradient is not finite in the sum over blocks, but finite in each block", elbo)
}

// A State is the state of a training run, in a form that encoding/json and encoding/gob can encode. After Restore, a
// run continues bit-identically if the parameters, optimiser, bound, BlockSize and batches are the same.
type State[T linalg.Float] struct {
	Seed   uint64
	Steps  int        // number of steps taken
	Params []Param[T] // in the order of NewTrainer
}

// State returns a copy of the trainer's state.
func (t *Trainer[T]) State() State[T] {
	s := State[T]{Seed: t.Seed, Steps: t.steps}
	for _, p := range t.Params {
		s.Params = append(s.Params, Param[T]{p.Name, p.Value.Clone(), p.Averages.Clone()})
	}
	return s
}

// Restore sets the trainer's state to a copy of s. It returns an error and changes nothing if s.Steps is negative, an
// element of s is not finite, or the parameters or averages differ in number, order, names or shapes.
func (t *Trainer[T]) Restore(s State[T]) error {
	if got, want := s.layout(), t.State().layout(); got != want || s.Steps < 0 {
		return fmt.Errorf("cannot restore a state with %d steps and %s into a trainer with %s", s.Steps, got, want)
	}
	for _, p := range s.Params {
		if !linalg.Finite(p.Value) || !linalg.Finite(p.Averages) {
			return fmt.Errorf("cannot restore a state whose parameter %q, or an average of its gradients, is not finite", p.Name)
		}
	}
	t.Seed, t.steps = s.Seed, s.Steps
	for i, p := range t.Params {
		linalg.Copy(p.Value, s.Params[i].Value)
		linalg.Copy(p.Averages, s.Params[i].Averages)
	}
	return nil
}

// layout returns a description of the names and sizes of all parameters and averages.
func (s State[T]) layout() string {
	d := fmt.Sprintf("%d parameters", len(s.Params))
	for _, p := range s.Params {
		d += fmt.Sprintf(", %q %v of %d elements", p.Name, p.Value.Shape(), len(p.Value.Data))
		d += fmt.Sprintf(" with averages %v of %d elements", p.Averages.Shape(), len(p.Averages.Data))
	}
	return d
}
