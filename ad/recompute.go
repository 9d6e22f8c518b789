package ad

import (
	"slices"

	"hvae/linalg"
)

// A Program is a part of a computation that can be repeated. It must use operations on the tape of
// its arguments and compute the same result in each call. It may call Grad, but not Backward. It
// must not keep the variables that it creates.
type Program[T linalg.Float] func(args []*Var[T]) *Var[T]

// Recomputed returns p(args) without keeping the intermediate variables (gradient checkpointing:
// Chen et al., 2016). To compute gradients, Backward runs the program again. A chain of programs
// therefore needs memory for the results of all programs, but for the intermediate variables of only one.
//
// Backward returns bit-identical gradients with and without Recomputed. Grad cannot differentiate the
// result and panics. At least one argument is required. The program may also use variables that are not in
// args, but both runs must use the same variables.
func Recomputed[T linalg.Float](p Program[T], args ...*Var[T]) *Var[T] {
	t := args[0].tape
	first := len(t.operands)
	t.operands = append(t.operands, args...)
	defer func() { t.operands = t.operands[:first] }()
	if t.KeepAll {
		return p(t.operands[first:])
	}
	start := t.record
	result := p(t.operands[first:]).Value
	for _, v := range t.vars[start.n:t.n] { // add the other live variables of the program as operands
		for _, operand := range v.in {
			if v.rule != nil && operand != nil && operand.live && operand.index < start.n && !slices.Contains(t.operands[first:], operand) {
				t.operands = append(t.operands, operand)
			}
		}
	}
	t.rewind(&start)
	y := t.Result(result.Rows, result.Cols)
	copy(y.Value.Data, result.Data) // they may overlap: rewind has freed the memory of result
	y.n = len(args)
	return t.Record(y, p, t.operands[first:]...)
}

// Pull records the program again at the end of the tape. It adds the recorded variables to the
// sweep and calls their differentiation rules. The rules accumulate adjoints in the same order as
// without Recomputed, so the bits do not change.
func (p Program[T]) Pull(s *Sweep[T], y, ybar *Var[T]) {
	t, start, nodes := s.tape, s.pool.start, len(s.nodes)
	if t.unrecorded == nil {
		panic("ad: Grad cannot differentiate the result of Recomputed; use Backward")
	}
	defer func() { t.unrecorded, s.pool.start, s.nodes = &s.pool, start, s.nodes[:nodes] }()
	t.unrecorded = nil
	out := p(y.in[:y.n])
	t.unrecorded, s.pool.start = &s.pool, t.record
	last := t.n - 1
	s.extend(last)
	s.mark(start.n, last)
	s.Accumulate(out, ybar)
	s.propagate(start.n, last)
}
