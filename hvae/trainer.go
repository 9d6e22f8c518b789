package hvae

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"hvae/ad"
	"hvae/linalg"
	"hvae/linalg/random"
)

// A Trainer maximises the mean of a bound over batches of data by stochastic gradient ascent (Algorithm 2 and equation
// 11). Each batch is divided into blocks, which are computed concurrently. Their bounds and gradients are added in the
// order of the blocks, so results are bit-identical on any number of cores. The embedded Evaluator evaluates bounds
// without changing parameters. A Trainer is not safe for concurrent use.
type Trainer[T linalg.Float] struct {
	Evaluator[T]
	Bound Bound[T]
	Seed  uint64 // seed of the noise in steps

	params    []*Param[T]
	optimiser Optimiser[T]
	steps     int                  // number of steps taken
	averages  []linalg.Matrix[T]   // running averages of the optimiser for each parameter
	gradients [][]linalg.Matrix[T] // for each block of a batch, the gradient with respect to each parameter
}

// NewTrainer returns a trainer that updates params in place. The bound must use all of them and no other parameters
// (see Block.Var). NewTrainer panics if there are no parameters, or if two of them are the same or share memory.
func NewTrainer[T linalg.Float](params []*Param[T], o Optimiser[T], bound Bound[T]) *Trainer[T] {
	mustNotBeNil("NewTrainer: the optimiser", o == nil)
	mustBeAtLeast("NewTrainer: the number of parameters", len(params), 1)
	t := &Trainer[T]{Bound: bound, params: slices.Clone(params), optimiser: o}
	for i, p := range params {
		mustNotBeNil(fmt.Sprintf("NewTrainer: parameter %d, counted from 0,", i), p == nil)
		for _, q := range params[:i] {
			if linalg.Overlap(p.Value, q.Value) {
				misuse("NewTrainer: the parameters %q and %q are the same or share memory", q.Name, p.Name)
			}
		}
		t.averages = append(t.averages, linalg.New[T](2, len(p.Value.Data)))
	}
	return t
}

// Steps returns the number of steps taken.
func (t *Trainer[T]) Steps() int { return t.steps }

// Step updates the parameters with the gradient of the mean bound over a batch, and returns this mean. It returns an
// error and changes nothing if ctx is done, if the bound or its gradient is not finite, if the square of an element of
// the gradient overflows, or if the bound leaves one of the trainer's parameters unused. Step checks ctx before each
// block. It looks for unused parameters only in the first block of the first step. If a value is not finite, the error
// names the first operation that produced one. A repeated step has the same noise, and so the same error.
func (t *Trainer[T]) Step(ctx context.Context, batch Batch) (elbo float64, err error) {
	count := t.count(batch)
	step := pass[T]{batch, random.NewBatch(t.Seed, "algorithm 2 step", t.steps), t.params}
	t.gradients = append(t.gradients, make([][]linalg.Matrix[T], max(0, count-len(t.gradients)))...)
	unused := -1 // index of a parameter on which the first block of the first step does not depend
	elbo, err = t.each(ctx, step, func(b *Block[T]) float64 {
		sum := ad.Sum(t.Bound.row(b))
		gradients := &t.gradients[b.First/t.size()]
		*gradients = ad.Backward(*gradients, ad.Scale(sum, 1/T(len(batch))), b.vars...)
		if t.steps == 0 && b.First == 0 {
			unused = slices.IndexFunc(b.vars, func(p *ad.Var[T]) bool { return !ad.Depends(sum, p) })
		}
		return float64(sum.Scalar())
	})
	if err != nil {
		return 0, err
	}
	gradients, overflows := t.gradients[0], make([]bool, len(t.params))
	grain := min(count-1, 1) // 0 for one block, whose gradients need no sums
	linalg.For(len(gradients), grain, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			for _, block := range t.gradients[1:count] { // in the order of the blocks
				linalg.Add(gradients[i], gradients[i], block[i])
			}
			overflows[i] = !linalg.SquaresFinite(gradients[i])
		}
	})
	i := slices.Index(overflows, true)
	if infinite(elbo) || i >= 0 {
		if infinite(elbo) || !linalg.Finite(gradients[i]) {
			err = t.diagnose(step, t.Bound, fmt.Sprintf("the ELBO (%v) or its gradient is not finite", elbo))
		} else {
			err = fmt.Errorf("the gradient of %s is so large that the square of an element overflows", t.params[i].Name)
		}
		return elbo, fmt.Errorf("%w; a likely cause is a flow whose step size is too large: use a smaller ε, or another Seed", err)
	}
	if unused >= 0 {
		return elbo, fmt.Errorf("the bound does not depend on the parameter %q; use the parameter (Block.Var), or do not "+
			"pass it to NewTrainer", t.params[unused].Name)
	}
	for i, p := range t.params {
		t.optimiser.Ascend(t.steps+1, p.Value.Data, gradients[i].Data, t.averages[i])
	}
	t.steps++
	return elbo, nil
}

// A State is the state of a training run, in a form that encoding/json and encoding/gob can encode. After Restore, a
// run continues bit-identically if the parameters, optimiser, bound, BlockSize and batches are the same.
type State[T linalg.Float] struct {
	Optimiser string // name of its type, such as hvae.Adamax
	Seed      uint64
	Steps     int             // number of steps taken
	Params    []ParamState[T] // in the order of NewTrainer
}

// A ParamState holds the name and the value of a parameter, and the optimiser's running averages for it.
type ParamState[T linalg.Float] struct {
	Name     string
	Value    linalg.Matrix[T]
	Averages linalg.Matrix[T] // running averages of the Optimiser, one per row, with a column for each element of Value
}

// State returns a copy of the trainer's state.
func (t *Trainer[T]) State() State[T] {
	optimiser, _, _ := strings.Cut(fmt.Sprintf("%T", t.optimiser), "[") // such as *hvae.Adamax[float32]
	s := State[T]{Optimiser: strings.TrimPrefix(optimiser, "*"), Seed: t.Seed, Steps: t.steps}
	for i, p := range t.params {
		s.Params = append(s.Params, ParamState[T]{p.Name, p.Value.Clone(), t.averages[i].Clone()})
	}
	return s
}

// Restore sets the trainer's state to a copy of s. It returns an error and changes nothing if s.Steps is negative, an
// element of s is not finite, the optimisers of s and t have different types, or the parameters or averages differ in
// number, order, names or shapes.
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
	for i, p := range t.params {
		linalg.Copy(p.Value, s.Params[i].Value)
		linalg.Copy(t.averages[i], s.Params[i].Averages)
	}
	return nil
}

// layout returns a description of the optimiser, and of the names and sizes of all parameters and averages.
func (s State[T]) layout() string {
	d := fmt.Sprintf("the optimiser %q and %d parameters", s.Optimiser, len(s.Params))
	for _, p := range s.Params {
		d += fmt.Sprintf(", %q %v of %d elements", p.Name, p.Value.Shape(), len(p.Value.Data))
		d += fmt.Sprintf(" with averages %v of %d elements", p.Averages.Shape(), len(p.Averages.Data))
	}
	return d
}
