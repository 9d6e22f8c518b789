package ad

import "hvae/linalg"

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
// later operations have left. Grad cannot pass through the result.
func Recomputed[T linalg.Float](scratch *Tape[T], p Program[T], in []*Var[T]) *Var[T] {
	t := in[0].tape
	s := t.segment()
	s.scratch, s.program, s.in = scratch, p, append(s.in[:0], in...)
	out := s.run()
	y := t.Result(out.Rows(), out.Cols())
	linalg.Copy(y.Value, out.Value)
	for _, v := range in {
		if v.live && !t.plain {
			y.live, y.rule, y.segment = true, recomputed[T]{}, s
		}
	}
	return y
}

// A segment is what a tape remembers of a program.
type segment[T linalg.Float] struct {
	scratch            *Tape[T]
	program            Program[T]
	in, leaves, wanted []*Var[T]
}

// segment returns one that is free until the next Reset.
func (t *Tape[T]) segment() *segment[T] {
	if t.nSegments == len(t.segments) {
		t.segments = append(t.segments, new(segment[T]))
	}
	t.nSegments++
	return t.segments[t.nSegments-1]
}

// run runs the program on the scratch tape.
func (s *segment[T]) run() *Var[T] {
	s.scratch.Reset()
	s.scratch.Interrupt = s.in[0].tape.Interrupt
	s.leaves = s.leaves[:0]
	for _, v := range s.in {
		leaf := s.scratch.Const(v.Value)
		leaf.live = v.live
		s.leaves = append(s.leaves, leaf)
	}
	return s.program.Run(s.leaves)
}

type recomputed[T linalg.Float] struct{}

func (recomputed[T]) Pull(y, ybar *Var[T]) {
	s, t := y.segment, y.tape
	if !t.plain {
		panic("ad: Grad through the result of Recomputed, through which only Backward can pass")
	}
	out := s.run()
	s.wanted = s.wanted[:0]
	for i, v := range s.in {
		if !t.wants(v) {
			continue
		}
		if v.bar == nil && v.keeps() {
			v.hold(t.Const(v.room()))
			v.bar.Value.Fill(0)
		}
		if v.bar != nil {
			v.own()
			s.leaves[i].GradientInto(v.bar.Value, true)
		}
		s.wanted = append(s.wanted, s.leaves[i])
	}
	Backward(Dot(out, s.scratch.Const(ybar.Value)), s.wanted...)
	for i, v := range s.in {
		if t.wants(v) && v.bar == nil {
			g := t.Result(v.Rows(), v.Cols())
			linalg.Copy(g.Value, s.leaves[i].Adjoint())
			v.Receive(g)
		}
	}
}

// own makes sure that the adjoint of v may be overwritten.
func (v *Var[T]) own() {
	if v.ownsBar() {
		return
	}
	g := v.tape.Result(v.Rows(), v.Cols())
	linalg.Copy(g.Value, v.bar.Value)
	v.drop()
	v.hold(g)
}
