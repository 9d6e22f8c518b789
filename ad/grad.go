package ad

import (
	"fmt"
	"slices"

	"hvae/linalg"
)

// Grad returns the gradient of the sum of y's elements with respect to x. The gradient is
// recorded and can be differentiated again. It is zero if y does not depend on x. For each
// operation through which y depends on x, Grad takes about the operation's time for each operand
// that depends on x. Grad panics if x is a constant, or if x and y are not on the same tape.
func Grad[T linalg.Float](y, x *Var[T]) *Var[T] {
	s := sweepOf(y.tape)
	s.begin(nil, y, x)
	defer s.end()
	s.run(y)
	if g := s.node(x).bar; g != nil {
		return g
	}
	return s.tape.Fill(x.Rows(), x.Cols(), 0)
}

// A sweep computes the adjoints of the requested variables xs, starting from the adjoint of y.
// It first marks the variables that depend on xs. It then calls the rules of marked variables in
// reverse program order, starting with the rule of y. It computes no other adjoints. For ∇U, for
// example, it computes no adjoints of the weights.
type sweep[T linalg.Float] struct {
	tape    *Tape[T]
	running bool
	first   int       // the smallest tape index of y and xs
	nodes   []node[T] // nodes of the variables from first to the largest tape index of y and xs

	// Only Backward uses the following fields.
	pool         pool[T]
	destinations []*destination[T]
	gradients    []linalg.Matrix[T]
	reached      []bool
}

// A node is the state of a variable in a sweep.
type node[T linalg.Float] struct {
	bar       *Var[T]         // the adjoint; nil for zero
	dst       *destination[T] // destination of the gradient, or nil
	requested bool            // whether the variable is one of xs
	passes    bool            // whether the adjoint of an operand of the variable is needed
}

// A destination specifies where a sweep adds up the gradient of a requested variable. For
// BackwardInto, this is the matrix sum. For Recomputed, it is the adjoint of a variable of
// another sweep.
type destination[T linalg.Float] struct {
	sum    linalg.Matrix[T]
	queue  linalg.Updates[T] // products to be added to sum
	queued bool              // whether queue is used, which is possible only for leaves

	outer    *sweep[T] // if not nil, the destination is the adjoint of variable in this sweep
	variable *Var[T]
}

func sweepOf[T linalg.Float](t *Tape[T]) *sweep[T] {
	if t.sweep == nil {
		t.sweep = &sweep[T]{tape: t}
	}
	return t.sweep.(*sweep[T])
}

// begin starts a sweep and marks the variables that depend on xs. If p is nil, adjoints are
// recorded on the tape; otherwise they are stored in p.
func (s *sweep[T]) begin(p *pool[T], y *Var[T], xs ...*Var[T]) {
	t := s.tape
	if s.running {
		panic("ad: a rule called Grad or Backward on its own tape")
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
	s.running, s.first = true, first
	s.nodes = slices.Grow(s.nodes[:0], n)[:n]
	clear(s.nodes)
	for _, x := range xs {
		s.nodes[x.index-first].requested = true
	}
	for i := first; i <= y.index; i++ {
		s.nodes[i-first].passes = s.passes(t.at(i))
	}
	if p != nil {
		p.begin(t)
	}
}

func (s *sweep[T]) end() {
	s.running = false
	if s.tape.unrecorded != nil {
		s.pool.end()
	}
}

// passes reports whether the adjoint of an operand of v is needed.
func (s *sweep[T]) passes(v *Var[T]) bool {
	if v.rule == nil {
		return false
	}
	if v.in[0] == nil { // the rule lists the operands
		return slices.ContainsFunc(v.rule.(interface{ operands() []*Var[T] }).operands(), s.Wants)
	}
	return s.Wants(v.in[0]) || s.Wants(v.in[1]) || s.Wants(v.in[2])
}

// node returns the node of v in this sweep, or nil if the sweep does not need v's adjoint.
func (s *sweep[T]) node(v *Var[T]) *node[T] {
	if i := v.index - s.first; v.live && uint(i) < uint(len(s.nodes)) {
		if n := &s.nodes[i]; n.requested || n.passes {
			return n
		}
	}
	return nil
}

// resolve returns the node in which v's adjoint is added up, and the sweep of that node. The
// node is nil if the adjoint is not needed. Inside Recomputed, the sweep may be an outer one.
func (s *sweep[T]) resolve(v *Var[T]) (*sweep[T], *node[T]) {
	n := s.node(v)
	if n != nil && n.dst != nil && n.dst.outer != nil {
		return n.dst.outer.resolve(n.dst.variable)
	}
	return s, n
}

// run initializes the adjoint of y with ones and calls the rules in reverse program order,
// starting with the rule of y.
func (s *sweep[T]) run(y *Var[T]) {
	if !s.Wants(y) {
		return
	}
	s.Accumulate(y, s.tape.Fill(y.Rows(), y.Cols(), 1))
	pool, rules := s.tape.unrecorded != nil, Sweep[T](s)
	for i := y.index; i >= s.first; i-- {
		n := &s.nodes[i-s.first]
		if n.bar == nil || !n.passes {
			continue
		}
		s.tape.checkInterrupt()
		v := s.tape.at(i)
		v.rule.Pull(rules, v, n.bar)
		if pool {
			if !n.requested {
				s.pool.release(n.bar)
				n.bar = nil
			}
			s.pool.endRule()
		}
	}
}

// Wants implements Sweep.
func (s *sweep[T]) Wants(v *Var[T]) bool { return v != nil && s.node(v) != nil }

// Accumulate implements Sweep.
func (s *sweep[T]) Accumulate(v, g *Var[T]) {
	owner, n := s.resolve(v)
	if n == nil {
		return
	}
	v.tape.mustHave(g)
	switch {
	case g.shape() != v.shape():
		panic(fmt.Sprintf("ad: Accumulate: %v cannot be the adjoint of a %v variable", g.shape(), v.shape()))
	case n.writable():
		linalg.Add(n.bar.Value, n.bar.Value, g.Value)
	case n.bar != nil:
		owner.set(n, Add(n.bar, g))
	default:
		owner.set(n, g)
	}
}

func (s *sweep[T]) accumulateFit(v, g *Var[T]) {
	switch _, n := s.resolve(v); {
	case n == nil:
	case n.writable() && v.isColumnOf(g):
		v.tape.mustHave(g)
		linalg.AddSum(n.bar.Value, g.Value)
	default:
		s.Accumulate(v, fit(g, v.shape()))
	}
}

func (s *sweep[T]) accumulateRows(v, g *Var[T], lo int) {
	switch _, n := s.resolve(v); {
	case n == nil:
	case n.writable():
		v.tape.mustHave(g)
		rows := n.bar.Value.RowRange(lo, lo+g.Rows())
		linalg.Add(rows, rows, g.Value)
	default:
		above, below := v.tape.Fill(lo, g.Cols(), 0), v.tape.Fill(v.Rows()-lo-g.Rows(), g.Cols(), 0)
		s.Accumulate(v, Stack(Stack(above, g), below))
	}
}

func (s *sweep[T]) accumulateProduct(v, a, b *Var[T]) {
	owner, n := s.resolve(v)
	if n == nil {
		return
	}
	v.tape.mustHave(a)
	v.tape.mustHave(b)
	shape := v.shape()
	full, _ := linalg.Broadcast(a.shape(), b.shape())
	switch {
	case full == shape && n.writable():
		linalg.MulAdd(n.bar.Value, a.Value, b.Value, n.bar.Value)
	case full == shape && n.bar != nil:
		owner.set(n, MulAdd(a, b, n.bar))
	case v.isColumnOf(a) && v.isColumnOf(b) && n.writable():
		linalg.AddMulSum(n.bar.Value, a.Value, b.Value)
	default:
		s.Accumulate(v, fit(MulSumTo(a, b, min(full.Rows, shape.Rows), min(full.Cols, shape.Cols)), shape))
	}
}

func (s *sweep[T]) accumulateMatMulTB(v, a, b *Var[T]) {
	_, n := s.resolve(v)
	if n == nil {
		return
	}
	v.tape.mustHave(a)
	v.tape.mustHave(b)
	scratch := v.tape.Scratch(len(b.Value.Data))
	switch sum, add, ok := s.Destination(v); {
	case ok && add:
		n.dst.queue.AddMatMulTB(sum, a.Value, b.Value, scratch)
	case ok:
		linalg.MatMulTB(sum, a.Value, b.Value, scratch)
	case n.writable():
		linalg.AddMatMulTB(n.bar.Value, a.Value, b.Value, scratch)
	default:
		s.Accumulate(v, MatMulTB(a, b))
	}
}

// Destination implements Sweep.
func (s *sweep[T]) Destination(v *Var[T]) (sum linalg.Matrix[T], add, ok bool) {
	owner, n := s.resolve(v)
	if n == nil || n.dst == nil || !n.dst.queued {
		return sum, false, false
	}
	if add = n.bar != nil; !add {
		n.bar = owner.pool.wrap(n.dst.sum)
	}
	return n.dst.sum, add, true
}

// isColumnOf reports whether v is a single column and g has as many rows as v and more than one
// column.
func (v *Var[T]) isColumnOf(g *Var[T]) bool {
	return v.Cols() == 1 && v.Rows() == g.Rows() && g.Cols() > 1
}

// writable reports whether n's adjoint may be overwritten, that is, whether n holds the only
// reference to it. Recorded adjoints have a reference count of zero and are never overwritten.
func (n *node[T]) writable() bool { return n.bar != nil && n.bar.refs == 1 }

// set makes g the adjoint of n and releases the old adjoint. If adjoints are not recorded, set
// copies g to n's destination or, if n has none, retains g in the pool.
func (s *sweep[T]) set(n *node[T], g *Var[T]) {
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
