package ad

import (
	"fmt"
	"slices"

	"hvae/linalg"
)

// Grad returns the gradient of the sum of y's elements with respect to x, which may
// be any variable that y was computed from. The gradient is on the tape, recorded like
// any other value, and can be differentiated again. If y does not depend on x, it is
// zero. It costs about as much as y did, for each operand on a path from x to y. Grad
// panics if x is a constant, and if y and x are not both on the tape.
func Grad[T linalg.Float](y, x *Var[T]) *Var[T] {
	t := y.tape
	s := &t.sweep
	s.begin(t, y, x)
	defer s.end()
	s.run(y)
	if g := s.node(x).bar; g != nil {
		return g
	}
	return t.Fill(x.Rows(), x.Cols(), 0)
}

// A sweep carries adjoints from a variable y to the variables xs that a gradient is asked
// for. First it marks what lies on a path between them: adjoints of anything else, such as
// those of the weights while ∇U is computed, are never formed. Then it calls the rules on
// these paths, y's first.
type sweep[T linalg.Float] struct {
	program  *record[T]   // that y and xs are in
	running  bool         // from begin to end
	first    int          // index of the first of xs, or of y
	nodes    []node[T]    // the variables from there to the last
	backward *backward[T] // nil unless a sweep of Backward runs
	complete bool         // this was a sweep of Backward, to its end
}

// A node is what a sweep knows of a variable.
type node[T linalg.Float] struct {
	bar     *Var[T] // its adjoint so far; nil for zero
	asked   bool    // its gradient is asked for
	passes  bool    // the adjoint of an operand is wanted
	reached bool    // it has received an adjoint, set when a sweep of Backward ends
	place   int32   // of its gradient: 1 + the index in backward's places; 0 for none
}

// begin marks the paths from y to xs.
func (s *sweep[T]) begin(t *Tape[T], y *Var[T], xs ...*Var[T]) {
	if s.running {
		panic("ad: a rule began a sweep of its own tape")
	}
	t.mustHave(y)
	first, last := y.index, y.index
	for _, x := range xs {
		t.mustHave(x)
		if !x.live {
			panic(fmt.Sprintf("ad: gradient with respect to a constant %v", x.shape()))
		}
		first, last = min(first, x.index), max(last, x.index)
	}
	n := last - first + 1
	s.program, s.running, s.first, s.backward, s.complete = &t.record, true, first, nil, false
	s.nodes = slices.Grow(s.nodes[:0], n)[:n]
	clear(s.nodes)
	for _, x := range xs {
		s.nodes[x.index-first].asked = true
	}
	for i := first; i <= y.index; i++ {
		s.nodes[i-first].passes = s.passes(t.at(i))
	}
}

func (s *sweep[T]) end() { s.running, s.backward = false, nil }

// passes reports whether the adjoint of an operand of v is wanted.
func (s *sweep[T]) passes(v *Var[T]) bool {
	if v.rule == nil {
		return false
	}
	if v.in[0] == nil {
		return slices.ContainsFunc(v.rule.(*recomputed[T]).in, s.wants)
	}
	return s.wants(v.in[0]) || s.wants(v.in[1]) || s.wants(v.in[2])
}

// node returns the node of v, nil if the sweep does not want v's adjoint.
func (s *sweep[T]) node(v *Var[T]) *node[T] {
	if i := v.index - s.first; v.live && uint(i) < uint(len(s.nodes)) {
		if n := &s.nodes[i]; n.asked || n.passes {
			return n
		}
	}
	return nil
}

func (s *sweep[T]) wants(v *Var[T]) bool { return v != nil && s.node(v) != nil }

// run calls the rules from y's to the first.
func (s *sweep[T]) run(y *Var[T]) {
	if !s.wants(y) {
		return
	}
	t := y.tape
	y.Receive(t.Fill(y.Rows(), y.Cols(), 1))
	for i := y.index; i >= s.first; i-- {
		n := &s.nodes[i-s.first]
		if n.bar == nil || !n.passes {
			continue
		}
		t.checkInterrupt()
		v := s.program.at(i)
		v.rule.Pull(v, n.bar)
		if s.backward != nil {
			s.backward.passed(n)
		}
	}
}

// Wants reports whether the current sweep needs the adjoint of operand i of y; it does
// not if there is no such operand.
func (y *Var[T]) Wants(i int) bool { return y.tape.sweep.wants(y.in[i]) }

// Receive adds g, of v's shape, to the adjoint of v, for the rule of an operation with the
// operand v; it does nothing if the sweep does not want that adjoint. It never changes g.
func (v *Var[T]) Receive(g *Var[T]) {
	if s, n := v.receiver(); n != nil {
		s.receive(v, n, g)
	}
}

func (s *sweep[T]) receive(v *Var[T], n *node[T], g *Var[T]) {
	v.tape.mustHave(g)
	switch {
	case g.shape() != v.shape():
		panic(fmt.Sprintf("ad: Receive: %v cannot be the adjoint of a %v variable", g.shape(), v.shape()))
	case n.bar == nil:
		s.hold(n, g)
	case s.owns(n):
		linalg.Add(n.bar.Value, n.bar.Value, g.Value)
	default:
		s.replace(n, Add(n.bar, g))
	}
}

// receiveFit adds g, fitted to v's shape, to the adjoint of v, in one pass over the
// matrices where it can.
func (v *Var[T]) receiveFit(g *Var[T]) {
	s, n := v.receiver()
	if n == nil {
		return
	}
	if v.isColumnOf(g) && s.owns(n) {
		v.tape.mustHave(g)
		linalg.AddSum(n.bar.Value, g.Value)
		return
	}
	s.receive(v, n, fit(g, v.shape()))
}

// receiveRows adds g to the rows from lo on of the adjoint of v, without a matrix of zeros
// around g where it can.
func (v *Var[T]) receiveRows(g *Var[T], lo int) {
	s, n := v.receiver()
	if n == nil {
		return
	}
	if s.owns(n) {
		v.tape.mustHave(g)
		rows := n.bar.Value.RowRange(lo, lo+g.Rows())
		linalg.Add(rows, rows, g.Value)
		return
	}
	s.receive(v, n, Embed(g, lo, v.Rows()))
}

// receiveProduct adds a ⊙ b, fitted to v's shape, to the adjoint of v, in one pass
// over the matrices where it can.
func (v *Var[T]) receiveProduct(a, b *Var[T]) {
	s, n := v.receiver()
	if n == nil {
		return
	}
	shape := v.shape()
	full, _ := linalg.Broadcast(a.shape(), b.shape())
	switch {
	case full == shape && s.owns(n):
		v.tape.mustHave(a)
		v.tape.mustHave(b)
		linalg.MulAdd(n.bar.Value, a.Value, b.Value, n.bar.Value)
	case v.isColumnOf(a) && v.isColumnOf(b) && s.owns(n):
		v.tape.mustHave(a)
		v.tape.mustHave(b)
		linalg.AddMulSum(n.bar.Value, a.Value, b.Value)
	case full == shape && n.bar != nil:
		s.replace(n, MulAdd(a, b, n.bar))
	default:
		s.receive(v, n, fit(MulSumTo(a, b, min(full.Rows, shape.Rows), min(full.Cols, shape.Cols)), shape))
	}
}

// isColumnOf reports whether v is a column with a row for each of several columns of g's.
func (v *Var[T]) isColumnOf(g *Var[T]) bool {
	return v.Value.Cols == 1 && v.Value.Rows == g.Value.Rows && g.Value.Cols > 1
}

// receiveMatMulTB adds a·bᵀ to the adjoint of v, without a matrix for the product where
// it can.
func (v *Var[T]) receiveMatMulTB(a, b *Var[T]) {
	s, n := v.receiver()
	if n == nil {
		return
	}
	sum, add, ok := v.Accumulator()
	if !ok && !s.owns(n) {
		s.receive(v, n, MatMulTB(a, b))
		return
	}
	v.tape.mustHave(a)
	v.tape.mustHave(b)
	scratch := v.tape.Scratch(len(b.Value.Data))
	switch {
	case !ok:
		linalg.AddMatMulTB(n.bar.Value, a.Value, b.Value, scratch)
	case add:
		s.backward.places[n.place-1].updates.AddMatMulTB(sum, a.Value, b.Value, scratch)
	default:
		linalg.MatMulTB(sum, a.Value, b.Value, scratch)
	}
}

// Accumulator returns where the rule of an operation with the operand v may put what it would
// hand to Receive: a matrix to add to, or if add is false, to set. ok is false if there is
// none: only the gradient of a leaf that goes into a place (GradientInto) may be added up in
// another order than Grad's.
func (v *Var[T]) Accumulator() (sum linalg.Matrix[T], add, ok bool) {
	s, n := v.receiver()
	if n == nil || n.place == 0 || s.backward.places[n.place-1].updates == nil {
		return sum, false, false
	}
	add = n.bar != nil
	if !add {
		s.backward.place(n)
	}
	return n.bar.Value, add, true
}

// receiver returns the sweep that runs and its node of v, nil if v's adjoint is not wanted.
func (v *Var[T]) receiver() (*sweep[T], *node[T]) {
	s := &v.tape.sweep
	if v.live && !s.running || v.memory == pooled {
		v.refuseToReceive()
	}
	return s, s.node(v)
}

func (v *Var[T]) refuseToReceive() {
	panic(fmt.Sprintf("ad: Receive for a %v variable that is not an operand of the operation swept", v.shape()))
}

// hold makes g the adjoint of a variable that has none.
func (s *sweep[T]) hold(n *node[T], g *Var[T]) {
	if s.backward != nil {
		s.backward.hold(n, g)
	} else {
		n.bar = g
	}
}

// owns reports whether there is an adjoint that may be overwritten.
func (s *sweep[T]) owns(n *node[T]) bool {
	return s.backward != nil && n.bar != nil && s.backward.owns(n.bar)
}

// replace makes sum the adjoint of a variable in place of another.
func (s *sweep[T]) replace(n *node[T], sum *Var[T]) {
	if s.backward != nil {
		s.backward.drop(n)
	}
	s.hold(n, sum)
}

// fit repeats or sums g to the given shape: the adjoint of an operand that an
// operation repeated or summed.
func fit[T linalg.Float](g *Var[T], s linalg.Shape) *Var[T] {
	if g.shape() == s {
		return g
	}
	g = SumTo(g, min(g.Rows(), s.Rows), min(g.Cols(), s.Cols))
	return BroadcastTo(g, s.Rows, s.Cols)
}
