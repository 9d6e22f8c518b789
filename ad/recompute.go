package ad

import (
	"slices"

	"hvae/linalg"
)

// A Program is a part of a computation that can be repeated. Run computes a result from the
// operands in, using operations on their tape. Equal operands must give equal results.
type Program[T linalg.Float] interface {
	Run(in []*Var[T]) *Var[T]
}

// Recomputed returns p.Run(in) without keeping the intermediate variables (gradient checkpointing:
// Chen et al., 2016). It resets the tape scratch and runs the program on that tape. To compute
// gradients, Backward resets scratch and runs the program again. A chain of programs therefore
// needs the memory of only one program and runs each program twice.
//
// Backward returns the same bits with and without Recomputed. Grad cannot differentiate the result
// and panics. The program must not depend on variables other than in. At least one operand is
// required.
func Recomputed[T linalg.Float](scratch *Tape[T], p Program[T], in []*Var[T]) *Var[T] {
	t := in[0].tape
	if t.recomputedInUse == len(t.recomputed) {
		t.recomputed = append(t.recomputed, new(recomputed[T]))
	}
	r := t.recomputed[t.recomputedInUse]
	t.recomputedInUse++
	r.scratch, r.program = scratch, p
	out := r.run(in)
	y := t.Result(out.Rows(), out.Cols())
	linalg.Copy(y.Value, out.Value)
	return t.Record(y, r, ReadsOperands, in...)
}

// recomputed is the differentiation rule of Recomputed.
type recomputed[T linalg.Float] struct {
	scratch  *Tape[T]
	program  Program[T]
	leaves   []*Var[T] // copies of the operands on scratch
	requests []*Var[T] // the leaves whose adjoints are needed
}

// run resets the scratch tape, runs the program on it and returns the program's result.
func (r *recomputed[T]) run(in []*Var[T]) *Var[T] {
	r.scratch.Reset()
	r.scratch.Interrupt = in[0].tape.Interrupt
	r.leaves = r.leaves[:0]
	for i, v := range in {
		if j := slices.Index(in[:i], v); j >= 0 {
			r.leaves = append(r.leaves, r.leaves[j])
			continue
		}
		leaf := r.scratch.Const(v.Value)
		leaf.live = v.live
		r.leaves = append(r.leaves, leaf)
	}
	return r.program.Run(r.leaves)
}

// Pull runs the program again on the scratch tape and differentiates it with an inner sweep. The
// inner sweep starts with the current adjoints of the operands in s. It adds to these adjoints in
// the same order as a sweep without Recomputed, so the bits do not change.
func (r *recomputed[T]) Pull(s *Sweep[T], y, ybar *Var[T]) {
	if s.tape.unrecorded == nil {
		panic("ad: Grad cannot differentiate the result of Recomputed; use Backward")
	}
	out := Dot(r.run(y.in), r.scratch.Const(ybar.Value))
	r.requests = r.requests[:0]
	for i, v := range y.in {
		if s.Wants(v) {
			r.requests = append(r.requests, r.leaves[i])
		}
	}
	inner := &r.scratch.sweep
	inner.begin(out, r.requests...)
	inner.pool.begin(r.scratch)
	defer inner.end()
	for i, v := range y.in {
		if n := s.node(v); n != nil {
			m := inner.node(r.leaves[i])
			m.bar, m.dst = n.bar, n.dst
		}
	}
	inner.run(out)
	for i, v := range y.in {
		n := s.node(v)
		if n == nil {
			continue
		}
		if m := inner.node(r.leaves[i]); m.bar != n.bar {
			n.bar = nil // the inner sweep has released the old adjoint
			s.set(n, m.bar)
			m.bar = n.bar // in case v occurs again
		}
	}
}
