package ad

import (
	"fmt"
	"slices"

	"hvae/linalg"
)

// Grad returns the gradient of the sum of y's elements with respect to x, which may
// be any variable that y was computed from. The gradient is on the tape, recorded like
// any other value, and can be differentiated again. If y does not depend on x, it is
// zero.
func Grad[T linalg.Float](y, x *Var[T]) *Var[T] {
	t := y.tape
	t.run(y, x)
	if x.bar == nil {
		return t.Fill(x.Rows(), x.Cols(), 0)
	}
	return x.bar
}

// Backward computes the gradient of the sum of y's elements with respect to each of
// xs, for their method Adjoint to return. It is the last sweep of a training step: it
// records nothing and reuses the buffers of adjoints that have been passed on, so that
// its memory does not grow with the program's length.
func Backward[T linalg.Float](y *Var[T], xs ...*Var[T]) {
	t := y.tape
	t.plain = true
	defer func() { t.plain = false }()
	t.run(y, xs...)
	for _, x := range xs {
		if x.bar == nil {
			x.hold(t.Const(x.room()))
			x.bar.Value.Fill(0)
		}
	}
}

// GradientInto makes every further Backward that is asked for the gradient of v leave it
// in g, of v's shape, which v's method Adjoint then returns; or add it to what g holds.
func (v *Var[T]) GradientInto(g linalg.Matrix[T], add bool) {
	if g.Shape() != v.Value.Shape() {
		panic(fmt.Sprintf("ad: GradientInto: %v cannot hold the gradient of a %v variable", g.Shape(), v.Value.Shape()))
	}
	v.into, v.add = g, add
}

// Adjoint returns the gradient that the last Backward left for v, which is valid until
// the next sweep or Reset. It panics if that Backward was not asked for v's gradient.
func (v *Var[T]) Adjoint() linalg.Matrix[T] {
	if v.kept != v.tape.sweep || v.bar == nil {
		panic("ad: Adjoint of a variable that the last Backward was not asked for")
	}
	return v.bar.Value
}

// run sweeps from y back to xs. First it marks what lies on a path from one of xs to
// y: adjoints of anything else, such as those of the weights while ∇U is computed, are
// never formed.
func (t *Tape[T]) run(y *Var[T], xs ...*Var[T]) {
	t.sweep++
	first := y.index + 1
	for _, x := range xs {
		if x.tape != t {
			panic("ad: gradient with respect to a variable of another tape")
		}
		if !x.live {
			panic(fmt.Sprintf("ad: gradient with respect to a constant %v", x.Value.Shape()))
		}
		x.marked, x.kept, x.bar = t.sweep, t.sweep, nil
		if t.plain && x.add {
			x.hold(t.Const(x.into))
		}
		first = min(first, x.index)
	}
	for i := first; i <= y.index; i++ {
		if v := t.at(i); v.marked != t.sweep && t.passes(v) {
			v.marked, v.bar = t.sweep, nil
		}
	}
	if !t.wants(y) {
		return
	}
	y.Receive(t.Fill(y.Rows(), y.Cols(), 1))
	t.created = t.created[:0]
	for i := y.index; i >= first; i-- {
		v := t.at(i)
		if v.marked != t.sweep || v.bar == nil || !t.passes(v) {
			continue
		}
		t.checkInterrupt()
		v.rule.Pull(v, v.bar)
		if t.plain {
			if v.kept != t.sweep {
				v.drop()
			}
			t.tidy()
		}
	}
}

// wants reports whether the current sweep needs the adjoint of v.
func (t *Tape[T]) wants(v *Var[T]) bool { return v != nil && v.marked == t.sweep }

// passes reports whether the current sweep needs the adjoint of an operand of v. One
// of the variables that the sweep is asked for may not: it can be a result itself.
func (t *Tape[T]) passes(v *Var[T]) bool {
	if v.segment != nil {
		return slices.ContainsFunc(v.segment.in, t.wants)
	}
	return t.wants(v.in[0]) || t.wants(v.in[1]) || t.wants(v.in[2])
}

// Wants reports whether the current sweep needs the adjoint of operand i of y; it does
// not if there is no such operand.
func (y *Var[T]) Wants(i int) bool { return y.tape.wants(y.in[i]) }

// Receive adds g, of v's shape, to the adjoint of v. The adjoint of several variables
// may be one and the same (a sum's operands share the sum's), so only a sweep that
// counts its owners adds in place.
func (v *Var[T]) Receive(g *Var[T]) {
	switch {
	case v.bar == nil && v.keeps():
		v.hold(v.tape.Const(v.room()))
		linalg.Copy(v.bar.Value, g.Value)
	case v.bar == nil:
		v.hold(g)
	case v.ownsBar():
		linalg.Add(v.bar.Value, v.bar.Value, g.Value)
	default:
		sum := Add(v.bar, g)
		v.drop()
		v.hold(sum)
	}
}

// receiveProduct adds a ⊙ b, fitted to v's shape, to the adjoint of v, in one pass
// over the matrices where it can.
func (v *Var[T]) receiveProduct(a, b *Var[T]) {
	shape := v.Value.Shape()
	full, _ := linalg.Broadcast(a.Value.Shape(), b.Value.Shape())
	switch {
	case v.bar == nil || full != shape:
		v.Receive(fit(MulSumTo(a, b, min(full.Rows, shape.Rows), min(full.Cols, shape.Cols)), shape))
	case v.ownsBar():
		linalg.MulAdd(v.bar.Value, a.Value, b.Value, v.bar.Value)
	default:
		sum := MulAdd(a, b, v.bar)
		v.drop()
		v.hold(sum)
	}
}

// receiveMatMulTB adds a·bᵀ to the adjoint of v, without a matrix for the product where
// it can.
func (v *Var[T]) receiveMatMulTB(a, b *Var[T]) {
	scratch := v.tape.Scratch(len(b.Value.Data))
	switch {
	case v.bar == nil && v.keeps():
		v.hold(v.tape.Const(v.room()))
		linalg.MatMulTB(v.bar.Value, a.Value, b.Value, scratch)
	case v.bar != nil && v.ownsBar():
		linalg.AddMatMulTB(v.bar.Value, a.Value, b.Value, scratch)
	default:
		v.Receive(MatMulTB(a, b))
	}
}

// keeps reports whether the gradient of v has a place of its own.
func (v *Var[T]) keeps() bool { return v.tape.plain && v.into.Data != nil }

// room returns that place, or a new matrix.
func (v *Var[T]) room() linalg.Matrix[T] {
	if v.keeps() {
		return v.into
	}
	return v.tape.Matrix(v.Rows(), v.Cols())
}

// fit repeats or sums g to the given shape: the adjoint of an operand that an
// operation repeated or summed.
func fit[T linalg.Float](g *Var[T], s linalg.Shape) *Var[T] {
	g = SumTo(g, min(g.Rows(), s.Rows), min(g.Cols(), s.Cols))
	return BroadcastTo(g, s.Rows, s.Cols)
}

func (v *Var[T]) hold(g *Var[T]) {
	v.bar = g
	g.refs++
}

func (v *Var[T]) drop() {
	g := v.bar
	v.bar = nil
	if g.refs--; g.refs == 0 && v.tape.plain {
		v.tape.release(g)
	}
}

// ownsBar reports whether the adjoint of v may be overwritten.
func (v *Var[T]) ownsBar() bool { return v.tape.plain && v.bar.refs == 1 }

// tidy releases the variables that the last rule made and no adjoint holds.
func (t *Tape[T]) tidy() {
	for _, v := range t.created {
		if v.refs == 0 {
			t.release(v)
		}
	}
	t.created = t.created[:0]
}
