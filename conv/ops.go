package conv

import (
	"hvae/ad"
	"hvae/linalg"
)

// This file contains differentiable operations that are recorded on a tape. They store a pointer to
// the geometry, which must not be changed while the tape is in use. They panic if the shapes of the
// operands do not fit the geometry.

// Conv returns the convolution y = W ∗ X + b [Out×B] for w [Taps×OutC], x [In×B] and bias
// b [OutC×1], where bias may be nil. The adjoints are W̄ = WeightGradient(ȳ, X), X̄ = Wᵀ ∗ ȳ and,
// for b, the sum of ȳ over pixels and samples.
func Conv[T linalg.Float](g *Geometry, w, x, bias *ad.Var[T]) *ad.Var[T] {
	y := w.Tape().Result(g.Out(), x.Cols())
	Forward(g, y.Value, w.Value, x.Value, value(bias))
	return w.Tape().Record(y, conv[T]{g}, w, x, bias)
}

type conv[T linalg.Float] struct{ g *Geometry }

func (c conv[T]) Pull(s *ad.Sweep[T], y, ybar *ad.Var[T]) {
	w, x := y.Operand(0), y.Operand(1)
	pullWeights(s, c.g, y, ybar, ybar, x, c.g.OutC)
	if s.Wants(x) {
		s.Accumulate(x, Transpose(c.g, w, ybar, nil))
	}
}

// Transpose returns the transposed convolution y = Wᵀ ∗ Δ + b [In×B] for w [Taps×OutC],
// delta [Out×B] and bias b [InC×1], where bias may be nil. The adjoints are
// W̄ = WeightGradient(Δ, ȳ), Δ̄ = W ∗ ȳ and, for b, the sum of ȳ over pixels and samples.
func Transpose[T linalg.Float](g *Geometry, w, delta, bias *ad.Var[T]) *ad.Var[T] {
	y := w.Tape().Result(g.In(), delta.Cols())
	Input(g, y.Value, w.Value, delta.Value, value(bias))
	return w.Tape().Record(y, transpose[T]{g}, w, delta, bias)
}

type transpose[T linalg.Float] struct{ g *Geometry }

func (c transpose[T]) Pull(s *ad.Sweep[T], y, ybar *ad.Var[T]) {
	w, delta := y.Operand(0), y.Operand(1)
	pullWeights(s, c.g, y, ybar, delta, ybar, c.g.InC)
	if s.Wants(delta) {
		s.Accumulate(delta, Conv(c.g, w, ybar, nil))
	}
}

// pullWeights adds WeightGradient(delta, x) to the adjoint of the weights, which are operand 0
// of y. It adds the sum of ybar over pixels and samples to the adjoint of the bias [channels×1],
// which is operand 2 of y.
func pullWeights[T linalg.Float](s *ad.Sweep[T], g *Geometry, y, ybar, delta, x *ad.Var[T], channels int) {
	w, bias := y.Operand(0), y.Operand(2)
	if s.Wants(w) {
		s.Accumulate(w, WeightGradient(g, delta, x))
	}
	if s.Wants(bias) {
		pixels := ad.Reshape(ybar, ybar.Rows()/channels, channels*ybar.Cols())
		sums := ad.Reshape(ad.SumTo(pixels, 1, pixels.Cols()), channels, ybar.Cols())
		s.Accumulate(bias, ad.SumTo(sums, channels, 1))
	}
}

// WeightGradient returns the gradient y [Taps×OutC] of ⟨Δ, W ∗ X⟩ with respect to W for
// delta [Out×B] and x [In×B]. The adjoints are Δ̄ = ȳ ∗ X and X̄ = ȳᵀ ∗ Δ.
func WeightGradient[T linalg.Float](g *Geometry, delta, x *ad.Var[T]) *ad.Var[T] {
	tape := delta.Tape()
	y := tape.Result(g.Taps(), g.OutC)
	Weight(g, y.Value, delta.Value, x.Value, tape.Scratch(len(delta.Value.Data)), false)
	return tape.Record(y, weightGradient[T]{g}, delta, x)
}

type weightGradient[T linalg.Float] struct{ g *Geometry }

func (c weightGradient[T]) Pull(s *ad.Sweep[T], y, ybar *ad.Var[T]) {
	delta, x := y.Operand(0), y.Operand(1)
	if s.Wants(delta) {
		s.Accumulate(delta, Conv(c.g, ybar, x, nil))
	}
	if s.Wants(x) {
		s.Accumulate(x, Transpose(c.g, ybar, delta, nil))
	}
}

// value returns v.Value, or an empty matrix if v is nil.
func value[T linalg.Float](v *ad.Var[T]) (m linalg.Matrix[T]) {
	if v != nil {
		m = v.Value
	}
	return m
}
