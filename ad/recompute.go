package ad

import (
	"slices"

	"hvae/linalg"
)

// Recomputed returns p(args) without keeping the intermediate variables (gradient checkpointing: Chen et al., 2016). To
// compute gradients, Backward runs the program p again. A chain of programs therefore needs memory for the results of
// all programs, but for the intermediate variables of only one.
//
// The program must use operations on the tape of its arguments and compute the same result in each call. It may call
// Grad, but not Backward. It must not keep the variables that it creates. It may also use variables that are not in
// args, but both runs must use the same variables. At least one argument is required.
//
// Backward returns bit-identical gradients with and without Recomputed. Grad cannot differentiate the result and panics.
func Recomputed[T linalg.Float](p func(args []*Var[T]) *Var[T], args ...*Var[T]) *Var[T] {
	t := args[0].tape
	if t.KeepAll {
		return p(args)
	}
	start := t.record
	result := p(args).Value
	operands := slices.Clone(args)
	for _, v := range t.vars[start.n:t.n] { // the operands include all live variables that the program uses
		for _, x := range v.Operands() {
			if x != nil && x.live && x.index < start.n && !slices.Contains(operands, x) {
				operands = append(operands, x)
			}
		}
	}
	t.rewind(&start)
	y := t.Result(result.Rows, result.Cols)
	copy(y.Value.Data, result.Data) // the slices may overlap, because rewind has freed the memory of result
	return t.Record(y, recomputed[T]{p, len(args)}, operands...)
}

// recomputed is the differentiation rule of Recomputed. The operands are the arguments of the program,
// followed by the other live variables that it uses.
type recomputed[T linalg.Float] struct {
	program func(args []*Var[T]) *Var[T]
	args    int // number of arguments
}

// Pull records the program again at the end of the tape. It adds the recorded variables to the sweep and calls their
// differentiation rules. They accumulate adjoints in the same order as without Recomputed, with the same bits.
func (r recomputed[T]) Pull(s *Sweep[T], y, ybar *Var[T]) {
	t, start, nodes := s.tape, s.pool.start, len(s.nodes)
	if t.unrecorded == nil {
		panic("ad: Grad cannot differentiate the result of Recomputed; use Backward")
	}
	defer func() { t.unrecorded, s.pool.start, s.nodes = &s.pool, start, s.nodes[:nodes] }()
	t.unrecorded = nil
	out := r.program(y.in[:r.args])
	t.unrecorded, s.pool.start = &s.pool, t.record
	last := t.n - 1
	s.extend(last)
	s.mark(start.n, last)
	s.Accumulate(out, ybar)
	s.propagate(start.n, last)
}
