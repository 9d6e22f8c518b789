package ad

import (
	"fmt"

	"hvae/linalg"
)

// Backward returns the gradients of the sum of y's elements with respect to each of xs. They
// are bit-identical to the results of Grad, but cannot be differentiated. They are valid
// until the tape's next Grad, Backward or Reset. Backward records nothing and reuses the
// memory of adjoints that are no longer needed, so its memory does not grow with the length
// of the program. It panics if one of xs is a constant, or if y and xs are not on the same
// tape. The tape remains usable after a panic, including a panic of a rule.
func Backward[T linalg.Float](y *Var[T], xs ...*Var[T]) []linalg.Matrix[T] {
	return backward(nil, y, xs)
}

// BackwardInto sets dst[i] to the gradient of the sum of y's elements with respect to xs[i].
// It is like Backward, but adds up the gradients of leaves in fewer passes over dst and in
// another order, so the bits of these gradients may differ. BackwardInto also panics if dst[i]
// and xs[i] have different shapes. reached[i] reports whether y depends on xs[i]; if not, the
// gradient is zero. The slice reached is valid until the tape's next Backward or BackwardInto.
func BackwardInto[T linalg.Float](dst []linalg.Matrix[T], y *Var[T], xs []*Var[T]) (reached []bool) {
	for i, x := range xs {
		if dst[i].Shape() != x.shape() {
			panic(fmt.Sprintf("ad: BackwardInto: %v cannot hold the gradient of a %v variable", dst[i].Shape(), x.shape()))
		}
	}
	for i, g := range backward(dst[:len(xs)], y, xs) {
		if len(g.Data) > 0 && &g.Data[0] != &dst[i].Data[0] { // xs contains the variable again, at a later index
			linalg.Copy(dst[i], g)
		}
	}
	return sweepOf(y.tape).reached
}

func backward[T linalg.Float](dst []linalg.Matrix[T], y *Var[T], xs []*Var[T]) []linalg.Matrix[T] {
	s := sweepOf(y.tape)
	s.begin(&s.pool, y, xs...)
	defer s.end()
	for i, d := range s.newDestinations(xs[:len(dst)]) {
		d.sum, d.queued = dst[i], xs[i].rule == nil
	}
	s.run(y)
	s.gradients, s.reached = s.gradients[:0], s.reached[:0]
	for _, x := range xs {
		s.reached = append(s.reached, s.node(x).bar != nil)
	}
	for _, x := range xs {
		n := s.node(x)
		if n.bar == nil {
			s.set(n, s.tape.Fill(x.Rows(), x.Cols(), 0))
		}
		if n.dst != nil && n.dst.queued {
			n.dst.queue.Flush(n.dst.sum)
		}
		s.gradients = append(s.gradients, n.bar.Value)
	}
	return s.gradients
}

// newDestinations assigns an empty destination to the node of each variable in xs and returns
// the destinations, which the caller must fill in.
func (s *sweep[T]) newDestinations(xs []*Var[T]) []*destination[T] {
	for len(s.destinations) < len(xs) {
		s.destinations = append(s.destinations, new(destination[T]))
	}
	for i, x := range xs {
		d := s.destinations[i]
		d.queued, d.outer = false, nil
		d.queue.Forget() // drop the products of a sweep that panicked
		s.node(x).dst = d
	}
	return s.destinations[:len(xs)]
}
