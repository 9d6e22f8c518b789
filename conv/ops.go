package conv

import (
	"hvae/ad"
	"hvae/linalg"
)

// The maps as operations on the tape. They keep g, which must stay as it is while the tape
// is in use, and panic and cost as the maps do.

// Conv returns W ∗ X + b [Out×B] for w [Taps×OutC], x [In×B] and a bias [OutC×1], or nil:
// X̄ = Wᵀ ∗ ȳ, W̄ is the weight gradient of (ȳ, X), and b̄ sums ȳ over pixels and samples.
func Conv[T linalg.Float](g *Geometry, w, x, bias *ad.Var[T]) *ad.Var[T] {
	y := w.Tape().Result(g.Out(), x.Cols())
	Forward(g, y.Value, w.Value, x.Value, value(bias))
	return w.Tape().Record(y, conv[T]{g}, ad.ReadsOperands, w, x, bias)
}

type conv[T linalg.Float] struct{ g *Geometry }

func (c conv[T]) Pull(s ad.Sweep[T], y, ybar *ad.Var[T]) {
	w, x := y.Operand(0), y.Operand(1)
	if s.Wants(w) {
		accumulateWeight(s, c.g, w, ybar, x)
	}
	if s.Wants(x) {
		s.Accumulate(x, Transpose(c.g, w, ybar, nil))
	}
	if bias := y.Operand(2); s.Wants(bias) {
		s.Accumulate(bias, ad.SumChannels(ybar, c.g.OutC))
	}
}

// Transpose returns Wᵀ ∗ Δ + b [In×B] for w [Taps×OutC], delta [Out×B] and a bias [InC×1],
// or nil: Δ̄ = W ∗ ȳ, W̄ is the weight gradient of (Δ, ȳ), and b̄ sums ȳ over pixels and
// samples.
func Transpose[T linalg.Float](g *Geometry, w, delta, bias *ad.Var[T]) *ad.Var[T] {
	y := w.Tape().Result(g.In(), delta.Cols())
	Input(g, y.Value, w.Value, delta.Value, value(bias))
	return w.Tape().Record(y, transpose[T]{g}, ad.ReadsOperands, w, delta, bias)
}

type transpose[T linalg.Float] struct{ g *Geometry }

func (c transpose[T]) Pull(s ad.Sweep[T], y, ybar *ad.Var[T]) {
	w, delta := y.Operand(0), y.Operand(1)
	if s.Wants(w) {
		accumulateWeight(s, c.g, w, delta, ybar)
	}
	if s.Wants(delta) {
		s.Accumulate(delta, Conv(c.g, w, ybar, nil))
	}
	if bias := y.Operand(2); s.Wants(bias) {
		s.Accumulate(bias, ad.SumChannels(ybar, c.g.InC))
	}
}

// accumulateWeight adds the weight gradient of (Δ, X) to the adjoint of w.
func accumulateWeight[T linalg.Float](s ad.Sweep[T], g *Geometry, w, delta, x *ad.Var[T]) {
	if sum, add, ok := s.Destination(w); ok {
		weight(g, sum, delta.Value, x.Value, w.Tape().Scratch(len(delta.Value.Data)), add)
		return
	}
	s.Accumulate(w, WeightGradient(g, delta, x))
}

// WeightGradient returns the gradient of ⟨Δ, W ∗ X⟩ in W [Taps×OutC] for delta [Out×B] and
// x [In×B]: Δ̄ = ȳ ∗ X, X̄ = ȳᵀ ∗ Δ.
func WeightGradient[T linalg.Float](g *Geometry, delta, x *ad.Var[T]) *ad.Var[T] {
	tape := delta.Tape()
	y := tape.Result(g.Taps(), g.OutC)
	Weight(g, y.Value, delta.Value, x.Value, tape.Scratch(len(delta.Value.Data)))
	return tape.Record(y, weightGradient[T]{g}, ad.ReadsOperands, delta, x, nil)
}

type weightGradient[T linalg.Float] struct{ g *Geometry }

func (c weightGradient[T]) Pull(s ad.Sweep[T], y, ybar *ad.Var[T]) {
	delta, x := y.Operand(0), y.Operand(1)
	if s.Wants(delta) {
		s.Accumulate(delta, Conv(c.g, ybar, x, nil))
	}
	if s.Wants(x) {
		s.Accumulate(x, Transpose(c.g, ybar, delta, nil))
	}
}

func value[T linalg.Float](v *ad.Var[T]) (m linalg.Matrix[T]) {
	if v != nil {
		m = v.Value
	}
	return m
}
