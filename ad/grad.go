package ad

import (
	"fmt"
	"slices"

	"hvae/linalg"
)

// Grad returns the gradient of the sum of y's elements with respect to x. The gradient is recorded and can
// be differentiated again. It is zero if y does not depend on x. Grad calls the differentiation rule of
// each operation through which y depends on x. For each operand that depends on x, the rule takes about as
// long as the operation. Grad panics if x is a constant, or if x and y are not on the same tape.
func Grad[T linalg.Float](y, x *Var[T]) *Var[T] {
	s := &y.tape.grad
	s.begin(y, x)
	defer s.end()
	s.run(y)
	if g := s.node(x).bar; g != nil {
		return g
	}
	return s.tape.Fill(x.Rows(), x.Cols(), 0)
}

// Backward returns the gradients of the sum of y's elements with respect to each of xs. They are
// bit-identical to the results of Grad, but cannot be differentiated. They are valid until the next call
// to Grad, Backward, BackwardInto or Reset for the same tape. Backward records nothing and reuses the memory
// of adjoints that are no longer needed. It panics if one of xs is a constant, or if y and xs are not on the
// same tape. The tape remains usable after a panic, even if a differentiation rule has panicked.
func Backward[T linalg.Float](y *Var[T], xs ...*Var[T]) []linalg.Matrix[T] {
	s := backward(nil, y, xs)
	s.gradients = s.gradients[:0]
	for _, x := range xs {
		n := s.node(x)
		if n.bar == nil {
			n.bar = s.pool.alloc(x.Rows(), x.Cols())
			n.bar.Value.Fill(0)
		}
		s.gradients = append(s.gradients, n.bar.Value)
	}
	return s.gradients
}

// BackwardInto sets dst[i] to the gradient of the sum of y's elements with respect to xs[i]. It sums the
// gradients of leaves in fewer passes over memory than Backward. The order of summation is therefore
// different, and the gradients may differ by rounding errors. BackwardInto panics in the same cases as
// Backward, and also if dst[i] and xs[i] have different shapes. The result reached[i] reports whether y
// depends on xs[i]; if not, the gradient is zero. The slice reached is valid until the next call to
// BackwardInto for the same tape.
func BackwardInto[T linalg.Float](dst []linalg.Matrix[T], y *Var[T], xs []*Var[T]) (reached []bool) {
	for i, x := range xs {
		if dst[i].Shape() != x.shape() {
			panic(fmt.Sprintf("ad: BackwardInto: the gradient of a %v variable does not fit into a %v matrix", x.shape(), dst[i].Shape()))
		}
	}
	s := backward(dst[:len(xs)], y, xs)
	s.reached = s.reached[:0]
	for i, x := range xs {
		n := s.node(x)
		s.reached = append(s.reached, n.bar != nil)
		switch {
		case n.bar == nil:
			dst[i].Fill(0)
		case n.dst == s.destinations[i]:
			n.dst.queue.Flush(dst[i])
		default: // x is not a leaf, or xs contains x at an earlier index
			linalg.Copy(dst[i], n.bar.Value)
		}
	}
	return s.reached
}

// backward differentiates y with respect to xs without recording operations. The nodes of the returned
// sweep hold the gradients. If dst is not empty, the gradient of each leaf xs[i] is computed in dst[i].
func backward[T linalg.Float](dst []linalg.Matrix[T], y *Var[T], xs []*Var[T]) *Sweep[T] {
	s := &y.tape.backward
	s.begin(y, xs...)
	s.pool.begin(y.tape)
	defer s.end()
	for i, m := range dst {
		if i == len(s.destinations) {
			s.destinations = append(s.destinations, new(destination[T]))
		}
		if n := s.node(xs[i]); xs[i].rule == nil && n.dst == nil {
			n.dst = s.destinations[i]
			n.dst.sum = m
			n.dst.queue.Forget() // discard the products of a sweep that panicked
		}
	}
	s.run(y)
	return s
}

// A Sweep is the state of Grad or Backward while it differentiates y with respect to xs. Both functions
// first mark the variables that depend on xs. From y backwards, they then call the differentiation rules of
// the marked variables on which y depends. They compute only the adjoints of xs and of marked variables. In
// the gradient of an energy U(z) with respect to z, for example, they skip the weights.
type Sweep[T linalg.Float] struct {
	tape  *Tape[T]  // nil if no call is running
	first int       // the smallest tape index of y and xs
	nodes []node[T] // nodes of the variables from first to the largest tape index of y and xs, or further

	// Only Backward and BackwardInto use the following fields.
	pool         pool[T]
	destinations []*destination[T]
	gradients    []linalg.Matrix[T]
	reached      []bool
}

// A node is the state of a variable during a call to Grad or Backward.
type node[T linalg.Float] struct {
	bar       *Var[T]         // the adjoint; nil for zero
	dst       *destination[T] // nil unless BackwardInto computes the gradient of a leaf
	requested bool            // whether the variable is one of xs
	passes    bool            // whether the adjoint of an operand of the variable is needed
}

// A destination is the matrix in which BackwardInto computes the gradient of a leaf.
type destination[T linalg.Float] struct {
	sum   linalg.Matrix[T]
	queue linalg.Updates[T] // products to be added to sum
}

// begin starts a sweep that differentiates y with respect to xs. It marks the variables that depend on xs.
func (s *Sweep[T]) begin(y *Var[T], xs ...*Var[T]) {
	t := y.tape
	if s.tape != nil || t.grad.tape != nil || t.unrecorded != nil {
		panic("ad: a differentiation rule must not call Grad or Backward on its own tape")
	}
	t.mustHave(y)
	first, last := y.index, y.index
	for _, x := range xs {
		t.mustHave(x)
		if !x.live {
			panic(fmt.Sprintf("ad: cannot differentiate with respect to a %v constant", x.shape()))
		}
		first, last = min(first, x.index), max(last, x.index)
	}
	s.tape, s.first, s.nodes = t, first, s.nodes[:0]
	s.extend(last)
	for _, x := range xs {
		s.nodes[x.index-first].requested = true
	}
	s.mark(first, y.index)
}

// extend adds empty nodes for the variables up to last on the tape.
func (s *Sweep[T]) extend(last int) {
	n, old := last-s.first+1, len(s.nodes)
	s.nodes = slices.Grow(s.nodes, n-old)[:n]
	clear(s.nodes[old:])
}

// mark marks the variables with indices first to last that depend on a requested variable.
func (s *Sweep[T]) mark(first, last int) {
	for _, v := range s.tape.vars[first : last+1] {
		s.nodes[v.index-s.first].passes = v.rule != nil && slices.ContainsFunc(v.in, s.Wants)
	}
}

func (s *Sweep[T]) end() {
	if s.tape.unrecorded != nil {
		s.pool.endRule()
		s.tape.unrecorded = nil
	}
	s.tape = nil
}

// node returns the node of v. It returns nil if v is nil or the adjoint of v is not needed.
func (s *Sweep[T]) node(v *Var[T]) *node[T] {
	if v == nil || !v.live {
		return nil
	}
	if i := v.index - s.first; uint(i) < uint(len(s.nodes)) {
		if n := &s.nodes[i]; n.requested || n.passes {
			return n
		}
	}
	return nil
}

// run sets the adjoint of y to ones and propagates it backwards through the tape.
func (s *Sweep[T]) run(y *Var[T]) {
	if s.Wants(y) {
		s.Accumulate(y, s.tape.Fill(y.Rows(), y.Cols(), 1))
		s.propagate(s.first, y.index)
	}
}

// propagate calls the differentiation rules of the marked variables from index last down to first.
func (s *Sweep[T]) propagate(first, last int) {
	for i := last; i >= first; i-- {
		n := s.nodes[i-s.first]
		if n.bar == nil || !n.passes {
			continue
		}
		v := s.tape.vars[i]
		v.rule.Pull(s, v, n.bar)
		if s.tape.unrecorded != nil {
			if !n.requested {
				s.pool.release(n.bar)
				s.nodes[i-s.first].bar = nil
			}
			s.pool.endRule()
		}
	}
}

// Wants reports whether the adjoint of v is needed. It returns false if v is nil.
func (s *Sweep[T]) Wants(v *Var[T]) bool { return s.node(v) != nil }

// Accumulate adds g to the adjoint of v. It does not change g. If the adjoint of v is not needed,
// Accumulate does nothing. Otherwise it panics if g and v have different shapes.
func (s *Sweep[T]) Accumulate(v, g *Var[T]) {
	n := s.node(v)
	if n == nil {
		return
	}
	s.tape.mustHave(g)
	switch {
	case g.shape() != v.shape():
		panic(fmt.Sprintf("ad: Accumulate: a %v matrix cannot be added to the adjoint of a %v variable", g.shape(), v.shape()))
	case n.writable():
		linalg.Add(n.bar.Value, n.bar.Value, g.Value)
	case n.bar != nil:
		s.set(n, Add(n.bar, g))
	default:
		s.set(n, g)
	}
}

// Destination returns sum, the matrix in which BackwardInto computes the gradient of leaf v. If add is
// true, the calling rule must add its contribution to sum. If add is false, the rule must overwrite sum
// with the contribution. If ok is false, v has no such matrix and the rule must call Accumulate instead.
func (s *Sweep[T]) Destination(v *Var[T]) (sum linalg.Matrix[T], add, ok bool) {
	n := s.node(v)
	if n == nil || n.dst == nil {
		return sum, false, false
	}
	if add = n.bar != nil; !add {
		n.bar = s.pool.wrap(n.dst.sum)
	}
	return n.dst.sum, add, true
}

// accumulateFit sums or broadcasts g to v's shape and adds the result to the adjoint of v. Like the
// methods below, it avoids a temporary matrix if possible.
func (s *Sweep[T]) accumulateFit(v, g *Var[T]) {
	switch n := s.node(v); {
	case n == nil:
	case n.writable() && v.isColumnOf(g):
		linalg.AddSum(n.bar.Value, g.Value)
	default:
		s.Accumulate(v, fit(g, v.shape()))
	}
}

// accumulateRows adds row i of g to row lo + i of the adjoint of v, for each i.
func (s *Sweep[T]) accumulateRows(v, g *Var[T], lo int) {
	switch n := s.node(v); {
	case n == nil:
	case n.writable():
		rows := n.bar.Value.RowRange(lo, lo+g.Rows())
		linalg.Add(rows, rows, g.Value)
	default:
		above, below := s.tape.Fill(lo, g.Cols(), 0), s.tape.Fill(v.Rows()-lo-g.Rows(), g.Cols(), 0)
		s.Accumulate(v, Stack(Stack(above, g), below))
	}
}

// accumulateProduct sums or broadcasts a ⊙ b to v's shape and adds the result to the adjoint of v.
func (s *Sweep[T]) accumulateProduct(v, a, b *Var[T]) {
	n := s.node(v)
	if n == nil {
		return
	}
	shape := v.shape()
	full, _ := linalg.Broadcast(a.shape(), b.shape())
	switch {
	case full == shape && n.writable():
		linalg.MulAdd(n.bar.Value, a.Value, b.Value, n.bar.Value)
	case full == shape && n.bar != nil:
		s.set(n, MulAdd(a, b, n.bar))
	case v.isColumnOf(a) && v.isColumnOf(b) && n.writable():
		linalg.AddMulSum(n.bar.Value, a.Value, b.Value)
	default:
		s.Accumulate(v, fit(MulSumTo(a, b, min(full.Rows, shape.Rows), min(full.Cols, shape.Cols)), shape))
	}
}

// accumulateMatMulTB adds a·bᵀ to the adjoint of v.
func (s *Sweep[T]) accumulateMatMulTB(v, a, b *Var[T]) {
	n := s.node(v)
	if n == nil {
		return
	}
	scratch := s.tape.Scratch(len(b.Value.Data))
	switch sum, add, ok := s.Destination(v); {
	case ok && add:
		n.dst.queue.AddMatMulTB(sum, a.Value, b.Value, scratch)
	case ok:
		linalg.MatMulTB(sum, a.Value, b.Value, scratch)
	default:
		s.Accumulate(v, MatMulTB(a, b))
	}
}

// isColumnOf reports whether v has one column and g has several columns of the same length.
func (v *Var[T]) isColumnOf(g *Var[T]) bool {
	return v.Cols() == 1 && v.Rows() == g.Rows() && g.Cols() > 1
}

// writable reports whether the adjoint of node n may be overwritten, that is, whether its reference
// count is one. Adjoints that Grad records have a reference count of zero.
func (n *node[T]) writable() bool { return n.bar != nil && n.bar.refs == 1 }

// set makes g the adjoint of node n. In Grad, it stores g itself. In Backward and BackwardInto, it copies g
// to n's destination, or retains g in the pool if n has no destination. It then releases the old adjoint.
func (s *Sweep[T]) set(n *node[T], g *Var[T]) {
	old := n.bar
	switch {
	case s.tape.unrecorded == nil:
		n.bar = g
		return
	case n.dst != nil:
		n.bar = s.pool.wrap(n.dst.sum)
		linalg.Copy(n.bar.Value, g.Value)
	default:
		n.bar = s.pool.retain(g)
	}
	if old != nil {
		s.pool.release(old)
	}
}
