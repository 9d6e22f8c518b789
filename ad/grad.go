package ad

import (
	"fmt"

	"hvae/linalg"
)

// Grad returns the gradient of the sum of y's elements with respect to x. The gradient is recorded
// and can be differentiated again. It is zero if y does not depend on x. Grad calls the
// differentiation rule of each operation through which y depends on x. For each operand that
// depends on x, the rule takes about as long as the operation. Grad panics if x is a constant, or
// if x and y are not on the same tape.
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
// bit-identical to the results of Grad, but cannot be differentiated. They are valid until the next
// call of Grad, Backward or Reset for the same tape. Backward records nothing and reuses the memory
// of adjoints that are no longer needed, so its memory does not grow with the number of recorded
// operations. It panics if one of xs is a constant, or if y and xs are not on the same tape. The
// tape remains usable after a panic, even if a differentiation rule has panicked.
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

// BackwardInto sets dst[i] to the gradient of the sum of y's elements with respect to xs[i]. It
// sums the gradients of leaves in fewer passes over memory than Backward. The order of summation is
// therefore different, and the gradients may differ by rounding errors. BackwardInto panics like
// Backward, and also if dst[i] and xs[i] have different shapes. The result reached[i] reports
// whether y depends on xs[i]; if not, the gradient is zero. The slice reached is valid until the
// next call of BackwardInto for the same tape.
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

// backward differentiates y with respect to xs without recording operations. The nodes of the
// returned sweep hold the gradients. If dst is not empty, the gradient of each leaf xs[i] is
// computed in dst[i].
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
