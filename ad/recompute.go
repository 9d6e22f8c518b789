package ad

import (
	"slices"

	"hvae/linalg"
)

// Recomputed returns p(args) without keeping the intermediate variables (gradient checkpointing: Chen et al., 2016). To
// compute gradients, Backward runs the program p again. A chain of programs therefore needs memory for the results of
// all programs, but for the intermediate variables of only one.
//
// The program must use operations on the tape of its arguments and compute the same result on every call. It may call
// Grad, but not Backward. It must not retain the variables that it creates. It may also use variables that are not in
// args, but every run must use the same variables. At least one argument is required.
//
// Backward returns bit-identical gradients with and without Recomputed. Grad cannot differentiate the result.
func Recomputed[T linalg.Float](p func(args []*Var[T]) *Var[T], args ...*Var[T]) *Var[T] {
	t := args[0].tape
	if t.RecordAll {
		return p(args)
	}
	start := t.top
	result := p(args).Value
	operands := slices.Clone(args)
	for _, v := range t.vars[start.n:t.n] { // the operands include all live variables that the program uses
		for _, x := range v.Operands() {
			if x != nil && x.live && x.index < start.n && !slices.Contains(operands, x) {
				operands = append(operands, x)
			}
		}
	}
	t.top = start
	y := t.Result(result.Rows, result.Cols)
	copy(y.Value.Data, result.Data) // the slices may overlap, because the memory of result is no longer in use
	return t.Record(y, recomputed[T]{p, len(args)}, operands...)
}

// recomputed is the differentiation rule of Recomputed. The operands of the result are the arguments of the program,
// followed by the other variables that the program uses, except for constants.
type recomputed[T linalg.Float] struct {
	program func(args []*Var[T]) *Var[T]
	args    int // number of arguments
}

// Pull records the program of Recomputed again at the end of the tape, adds the recorded variables to the sweep and
// calls their rules. The rules accumulate adjoints in the same order as without Recomputed, so the gradients are
// bit-identical.
func (r recomputed[T]) Pull(s *Sweep[T], y, ybar *Var[T]) {
	if !s.inPlace {
		panic("ad: Grad cannot differentiate the result of Recomputed; use Backward")
	}
	t := s.tape
	first, nodes := t.n, len(s.nodes)
	t.inRule = false // the program may call Grad
	out := r.program(y.in[:r.args])
	t.inRule = true
	last := t.n - 1
	s.extend(last)
	s.mark(first, last)
	s.handOver(out, y)
	s.propagate(first, last)
	s.nodes = s.nodes[:nodes]
}
