package ad

import (
	"slices"

	"hvae/linalg"
)

// A Program is a piece of a computation that can be run again: from the same operands it
// computes the same result, on the tape of its operands.
type Program[T linalg.Float] interface {
	Run(in []*Var[T]) *Var[T]
}

// Recomputed returns p.Run(in) and keeps nothing else of it: the program runs on the tape
// scratch, which it resets, and Backward runs it again when it needs what lies between
// operands and result (gradient checkpointing: Chen et al., 2016). In exchange for one
// more evaluation, the memory of a chain of programs is that of one of them.
//
// Backward gives the bits that it would give without, as each gradient is added to what
// later operations have left. Grad cannot pass through the result and panics. in must not
// be empty; all that the program depends on stands there.
func Recomputed[T linalg.Float](scratch *Tape[T], p Program[T], in []*Var[T]) *Var[T] {
	t := in[0].tape
	if t.nRecomputed == len(t.recomputed) {
		t.recomputed = append(t.recomputed, new(recomputed[T]))
	}
	r := t.recomputed[t.nRecomputed]
	t.nRecomputed++
	r.scratch, r.program, r.in = scratch, p, append(r.in[:0], in...)
	out := r.run()
	y := t.Result(out.Rows(), out.Cols())
	linalg.Copy(y.Value, out.Value)
	for _, v := range in {
		t.mustHave(v)
		if v.live {
			y.live, y.rule, y.in = true, r, [3]*Var[T]{}
		}
	}
	return y
}

// A recomputed is what a tape remembers of a program, and the rule of its result.
type recomputed[T linalg.Float] struct {
	scratch            *Tape[T]
	program            Program[T]
	in, leaves, wanted []*Var[T]
}

// run runs the program on the scratch tape.
func (r *recomputed[T]) run() *Var[T] {
	r.scratch.Reset()
	r.scratch.Interrupt = r.in[0].tape.Interrupt
	r.leaves = r.leaves[:0]
	for _, v := range r.in {
		leaf := r.scratch.Const(v.Value)
		leaf.live = v.live
		r.leaves = append(r.leaves, leaf)
	}
	return r.program.Run(r.leaves)
}

// Pull runs the program again and sweeps it. Gradients go where the sweep of y's tape wants
// them, or are added to adjoints that later operations have left; others are received as
// from any other operation.
func (r *recomputed[T]) Pull(y, ybar *Var[T]) {
	s := &y.tape.sweep
	if s.backward == nil {
		panic("ad: Grad through the result of Recomputed, through which only Backward can pass")
	}
	out := r.run()
	r.wanted = r.wanted[:0]
	for i, v := range r.in {
		if n := s.node(v); n != nil {
			b := &r.scratch.backward
			switch {
			case slices.Contains(r.in[:i], v): // the first has the place
			case n.place > 0:
				p := s.backward.places[n.place-1]
				b.places = append(b.places, place[T]{r.leaves[i], p.matrix, n.bar != nil, p.updates, true})
			case n.bar != nil:
				b.places = append(b.places, place[T]{of: r.leaves[i], matrix: s.backward.own(n), add: true})
			}
			r.wanted = append(r.wanted, r.leaves[i])
		}
	}
	Backward(Dot(out, r.scratch.Const(ybar.Value)), r.wanted...)
	for i, v := range r.in {
		switch n := s.node(v); {
		case n == nil:
		case r.scratch.sweep.node(r.leaves[i]).place == 0:
			v.Receive(y.tape.Const(r.leaves[i].Adjoint()))
		case n.bar == nil:
			s.backward.place(n)
		}
	}
}
