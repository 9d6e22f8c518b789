package ad

import (
	"fmt"
	"slices"

	"hvae/linalg"
)

// Grad returns the gradient of the sum of the elements of y with respect to x. The gradient is recorded and can be
// differentiated again. It is zero if y does not depend on x. Grad panics if x is a constant, or if x and y are not on
// the same tape.
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

// Backward sets dst[i] to the gradient of the sum of the elements of y with respect to xs[i], and returns dst. If dst
// is nil, Backward allocates it. Backward and Grad return bit-identical gradients, except where an element of a matrix
// product is a sum of more than 192 terms. Backward panics if one of xs is a constant, if y and xs are not on the same
// tape, or if dst[i] and xs[i] have different shapes. The matrices in dst must not share memory with variables on the
// tape.
//
// Backward leaves nothing on the tape. When a differentiation rule returns, Backward removes the variables that the
// rule has recorded. Each adjoint is a separate matrix:
//
//   - The adjoint of xs[i] is dst[i]. Any other adjoint is allocated from a pool when its first contribution arrives.
//   - The first contribution sets the elements of the matrix. Later contributions are added to them in place. If an
//     operand occurs twice in an operation, the rule makes two contributions to one adjoint.
//   - The adjoint ȳ of a result y is complete when the rule of y runs, because operations that use y come later on the
//     tape, so their rules run earlier. When the rule of y has returned, the matrix of ȳ goes back to the pool, unless
//     y is one of xs or the rule has made the matrix the adjoint of an operand.
func Backward[T linalg.Float](dst []linalg.Matrix[T], y *Var[T], xs ...*Var[T]) []linalg.Matrix[T] {
	t := y.tape
	s := &t.backward
	start := t.top
	defer func() { t.top = start }()
	s.begin(y, xs...)
	defer s.end()
	s.inPlace = true
	for i, x := range xs {
		if len(dst) == i {
			dst = append(dst, linalg.New[T](x.Rows(), x.Cols()))
		}
		if dst[i].Shape() != x.shape() {
			panic(fmt.Sprintf("ad: Backward: the gradient of a %v variable does not fit into %v", x.shape(), dst[i].Shape()))
		}
		s.node(x).dst = t.Const(dst[i])
	}
	s.run(y)
	for i, x := range xs {
		if g := s.node(x).bar; g == nil {
			dst[i].Fill(0)
		} else {
			linalg.Copy(dst[i], g.Value) // copies only if xs contains x twice; otherwise, g is already in dst[i]
		}
	}
	return dst
}

// Depends reports whether y depends on x. It panics if x is a constant, or if x and y are not on the same tape.
func Depends[T linalg.Float](y, x *Var[T]) bool {
	s := &y.tape.grad
	s.begin(y, x)
	defer s.end()
	return s.Wants(y)
}

// A Sweep is the state of Grad or Backward while it differentiates y with respect to xs. Grad and Backward first mark
// the variables that depend on xs. Then, working backwards from y, they call the differentiation rules of the marked
// variables on which y depends. They compute only the adjoints of xs and of marked variables. For example, when they
// differentiate an energy U(z) with respect to z, they do not compute the adjoints of the weights.
type Sweep[T linalg.Float] struct {
	tape    *Tape[T]  // nil if no call is running
	first   int       // the smallest tape index of y and xs
	nodes   []node[T] // nodes[i] is the node of the variable with tape index first + i
	inPlace bool      // whether adjoints are changed in place (Backward) or recorded (Grad)
}

// A node is the state of a variable during a call to Grad or Backward.
type node[T linalg.Float] struct {
	bar       *Var[T] // the adjoint; nil for zero
	dst       *Var[T] // for one of xs in Backward, the matrix for the adjoint; otherwise nil
	requested bool    // whether the variable is one of xs
	passes    bool    // whether the adjoint of an operand of the variable is needed
}

// begin starts a sweep that differentiates y with respect to xs. It marks the variables that depend on xs.
func (s *Sweep[T]) begin(y *Var[T], xs ...*Var[T]) {
	t := y.tape
	if s.tape != nil || t.inRule {
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

func (s *Sweep[T]) extend(last int) {
	n, old := last-s.first+1, len(s.nodes)
	s.nodes = slices.Grow(s.nodes, n-old)[:n]
	clear(s.nodes[old:])
}

func (s *Sweep[T]) mark(first, last int) {
	for _, v := range s.tape.vars[first : last+1] {
		s.nodes[v.index-s.first].passes = v.rule != nil && slices.ContainsFunc(v.in, s.Wants)
	}
}

func (s *Sweep[T]) end() { s.tape, s.tape.inRule = nil, false }

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
		s.tape.inRule = true
		s.Accumulate(y, s.tape.Fill(y.Rows(), y.Cols(), 1))
		s.propagate(s.first, y.index)
	}
}

// propagate calls the differentiation rules of the marked variables from index last down to index first.
func (s *Sweep[T]) propagate(first, last int) {
	start := s.tape.top
	for i := last; i >= first; i-- {
		n := &s.nodes[i-s.first]
		if n.bar == nil || !n.passes {
			continue
		}
		v := s.tape.vars[i]
		v.rule.Pull(s, v, n.bar)
		if !s.inPlace {
			continue
		}
		s.tape.top = start
		n = &s.nodes[i-s.first] // the rule of Recomputed may have moved the list
		if n.bar != nil && !n.requested {
			s.tape.pool.put(n.bar)
			n.bar = nil
		}
	}
}

// Wants reports whether the adjoint of v is needed. It returns false if v is nil.
func (s *Sweep[T]) Wants(v *Var[T]) bool { return s.node(v) != nil }

// Accumulate adds g to the adjoint of v. The variable g may be any variable on the tape, such as ȳ or an operand. Later
// contributions do not change g, unless s.Result returned it. If the adjoint of v is not needed, Accumulate does
// nothing. Otherwise, it panics if g and v have different shapes.
func (s *Sweep[T]) Accumulate(v, g *Var[T]) {
	n := s.node(v)
	if n == nil {
		return
	}
	s.tape.mustHave(g)
	switch {
	case g.shape() != v.shape():
		panic(fmt.Sprintf("ad: Accumulate: a %v matrix cannot be added to the adjoint of a %v variable", g.shape(), v.shape()))
	case !s.inPlace && n.bar == nil:
		n.bar = g
	case !s.inPlace:
		n.bar = Add(n.bar, g)
	case n.bar == nil:
		linalg.Copy(s.Result(v).Value, g.Value)
	case n.bar != g: // otherwise, the rule has computed the contribution in place (Result)
		linalg.Add(n.bar.Value, n.bar.Value, g.Value)
	}
}

// Result returns a variable with the shape of v and unspecified values, for a contribution to the adjoint of v. A rule
// may call Result instead of Tape.Result to avoid a copy: in Backward, the variable for the first contribution is the
// adjoint itself. The rule must set the values of the variable and pass it to Accumulate before making another
// contribution to the same adjoint.
func (s *Sweep[T]) Result(v *Var[T]) *Var[T] {
	n := s.node(v)
	if n == nil || n.bar != nil || !s.inPlace {
		return s.tape.Result(v.Rows(), v.Cols())
	}
	n.bar = n.dst
	if n.bar == nil {
		n.bar = s.tape.pool.get(s.tape, v.Rows(), v.Cols())
	}
	return n.bar
}

// adds reports whether the next contribution to the adjoint of node n is added in place to earlier contributions.
func (s *Sweep[T]) adds(n *node[T]) bool { return s.inPlace && n.bar != nil }

// handOver adds ȳ, summed or broadcast to the shape of v, to the adjoint of v. The matrix of ȳ becomes the adjoint of
// v, and y no longer has an adjoint, if three conditions hold: v has no adjoint yet, v and y have the same shape, and
// the caller of Backward or Grad requested neither adjoint. After this call, the rule of y must neither read ȳ nor
// contribute to the adjoint of v.
func (s *Sweep[T]) handOver(v, y *Var[T]) {
	from, to := s.node(y), s.node(v)
	if to != nil && to.bar == nil && !to.requested && !from.requested && v.shape() == y.shape() {
		from.bar, to.bar = nil, from.bar
		return
	}
	s.accumulateFit(v, from.bar)
}

// accumulateFit sums or broadcasts g to the shape of v and adds the result to the adjoint of v. Like the methods below,
// accumulateFit avoids a temporary matrix if possible.
func (s *Sweep[T]) accumulateFit(v, g *Var[T]) {
	switch n := s.node(v); {
	case n == nil:
	case s.adds(n) && v.isColumnOf(g):
		linalg.AddSum(n.bar.Value, g.Value)
	default:
		s.Accumulate(v, fit(g, v.shape()))
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
	case full == shape && s.adds(n):
		linalg.MulAdd(n.bar.Value, a.Value, b.Value, n.bar.Value)
	case full == shape && n.bar != nil:
		n.bar = MulAdd(a, b, n.bar)
	case full == shape:
		s.Accumulate(v, mulSum(s.Result(v), a, b))
	case v.isColumnOf(a) && v.isColumnOf(b) && s.adds(n):
		linalg.AddMulSum(n.bar.Value, a.Value, b.Value)
	default:
		s.Accumulate(v, fit(MulSumTo(a, b, min(full.Rows, shape.Rows), min(full.Cols, shape.Cols)), shape))
	}
}

// accumulateMatMulTB adds a·bᵀ to the adjoint of v.
func (s *Sweep[T]) accumulateMatMulTB(v, a, b *Var[T]) {
	switch n := s.node(v); {
	case n == nil:
	case s.adds(n):
		linalg.AddMatMulTB(n.bar.Value, a.Value, b.Value, s.tape.alloc(len(b.Value.Data)))
	default:
		s.Accumulate(v, mulTB(s.Result(v), a, b))
	}
}

// isColumnOf reports whether v has one column, g has several columns, and both have the same number of rows.
func (v *Var[T]) isColumnOf(g *Var[T]) bool {
	return v.Cols() == 1 && v.Rows() == g.Rows() && g.Cols() > 1
}
