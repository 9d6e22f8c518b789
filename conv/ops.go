package conv

import (
	"hvae/ad"
	"hvae/linalg"
)

// The maps as operations on the tape. g must stay as it is while the tape is in use.

// Conv returns W ∗ X: X̄ = Wᵀ ∗ ȳ, and W̄ is the weight gradient of (ȳ, X).
func Conv[T linalg.Float](g *Geometry, w, x *ad.Var[T]) *ad.Var[T] {
	y := w.Tape().Result(g.Out(), x.Cols())
	Forward(g, y.Value, w.Value, x.Value)
	return w.Tape().Record(y, conv[T]{g}, w, x, nil)
}

type conv[T linalg.Float] struct{ g *Geometry }

func (c conv[T]) Pull(y, ybar *ad.Var[T]) {
	w, x := y.Operand(0), y.Operand(1)
	if y.Wants(0) {
		w.Receive(WeightGradient(c.g, ybar, x))
	}
	if y.Wants(1) {
		x.Receive(Transpose(c.g, w, ybar))
	}
}

// Transpose returns Wᵀ ∗ Δ: Δ̄ = W ∗ ȳ, and W̄ is the weight gradient of (Δ, ȳ).
func Transpose[T linalg.Float](g *Geometry, w, delta *ad.Var[T]) *ad.Var[T] {
	y := w.Tape().Result(g.In(), delta.Cols())
	Input(g, y.Value, w.Value, delta.Value)
	return w.Tape().Record(y, transpose[T]{g}, w, delta, nil)
}

type transpose[T linalg.Float] struct{ g *Geometry }

func (c transpose[T]) Pull(y, ybar *ad.Var[T]) {
	w, delta := y.Operand(0), y.Operand(1)
	if y.Wants(0) {
		w.Receive(WeightGradient(c.g, delta, ybar))
	}
	if y.Wants(1) {
		delta.Receive(Conv(c.g, w, ybar))
	}
}

// WeightGradient returns the gradient of ⟨Δ, W ∗ X⟩ in W: Δ̄ = ȳ ∗ X, X̄ = ȳᵀ ∗ Δ.
func WeightGradient[T linalg.Float](g *Geometry, delta, x *ad.Var[T]) *ad.Var[T] {
	y := delta.Tape().Result(g.OutC, g.Taps())
	Weight(g, y.Value, delta.Value, x.Value)
	return delta.Tape().Record(y, weightGradient[T]{g}, delta, x, nil)
}

type weightGradient[T linalg.Float] struct{ g *Geometry }

func (c weightGradient[T]) Pull(y, ybar *ad.Var[T]) {
	delta, x := y.Operand(0), y.Operand(1)
	if y.Wants(0) {
		delta.Receive(Conv(c.g, ybar, x))
	}
	if y.Wants(1) {
		x.Receive(Transpose(c.g, ybar, delta))
	}
}
