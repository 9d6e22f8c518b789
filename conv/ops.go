package conv

import (
	"hvae/ad"
	"hvae/linalg"
)

// The operations in this file are recorded on a tape. The tape keeps a pointer to the geometry, so the caller must not
// modify the geometry afterwards. The operations panic if the geometry is invalid or does not fit the shapes of the
// operands.

// Conv returns the convolution y = W ∗ X + b [Out×B] for weights w [Taps×OutC], images x [In×B] and bias b [OutC×1].
// The bias may be nil. Conv performs g.MultiplyAdds() multiply-adds per image.
func Conv[T linalg.Float](g *Geometry, w, x, bias *ad.Var[T]) *ad.Var[T] {
	g.check("Conv")
	return gradient(w.Tape().Result(g.Out(), x.Cols()), g, output, form[T]{nil, w, x}, bias)
}

// Transpose returns the transposed convolution y = Wᵀ ∗ δ + b [In×B] for weights w [Taps×OutC], delta [Out×B] and bias
// b [InC×1]. The bias may be nil. Generative networks use Transpose to enlarge images. It takes about as long as Conv.
func Transpose[T linalg.Float](g *Geometry, w, delta, bias *ad.Var[T]) *ad.Var[T] {
	g.check("Transpose")
	return gradient(w.Tape().Result(g.In(), delta.Cols()), g, input, form[T]{delta, w, nil}, bias)
}

// WeightGradient returns the gradient y [Taps×OutC] of ⟨δ, W ∗ X⟩ with respect to W for delta [Out×B] and x [In×B]. It
// takes about as long as Conv.
func WeightGradient[T linalg.Float](g *Geometry, delta, x *ad.Var[T]) *ad.Var[T] {
	g.check("WeightGradient")
	return gradient(delta.Tape().Result(g.Taps(), g.OutC), g, weights, form[T]{delta, nil, x}, nil)
}

// A form holds the variables δ, W and X of the inner product ⟨δ, W ∗ X⟩.
type form[T linalg.Float] [3]*ad.Var[T]

// Positions of the variables in a form.
const output, weights, input = 0, 1, 2

// gradient computes the gradient of the trilinear form ⟨δ, W ∗ X⟩ with respect to the variable f[position]. This
// gradient does not depend on f[position] itself. The function adds the bias unless it is nil, stores the result in y,
// records y on the tape, and returns it.
func gradient[T linalg.Float](y *ad.Var[T], g *Geometry, position int, f form[T], bias *ad.Var[T]) *ad.Var[T] {
	var b linalg.Matrix[T]
	if bias != nil {
		b = bias.Value
	}
	f[position] = nil
	delta, w, x := f[output], f[weights], f[input]
	switch position {
	case output:
		conv(g, y.Value, w.Value, x.Value, b)
	case input:
		transpose(g, y.Value, w.Value, delta.Value, b)
	case weights:
		scratch := y.Tape().Matrix(delta.Rows(), delta.Cols())
		weightGradient(g, y.Value, delta.Value, x.Value, scratch.Data)
	}
	return y.Tape().Record(y, rule[T]{g, position}, delta, w, x, bias)
}

// A rule is the differentiation rule for y, a result of the function gradient. The form ⟨δ, W ∗ X⟩ is linear in each of
// its variables. Let y be its gradient with respect to the variable v, and let ȳ be the adjoint of y. If ȳ replaces v,
// the form becomes ⟨ȳ, y⟩. The adjoints of the other two variables are therefore the gradients of this form with
// respect to them. If a bias was added to y, the adjoint of the bias is the sum of ȳ over pixels and samples.
type rule[T linalg.Float] struct {
	g        *Geometry
	position int
}

func (r rule[T]) Pull(s *ad.Sweep[T], y, ybar *ad.Var[T]) {
	operands := y.Operands()
	f := form[T](operands[:3])
	f[r.position] = ybar
	for i, v := range operands[:3] {
		if s.Wants(v) { // operand r.position is nil
			s.Accumulate(v, gradient(s.Result(v), r.g, i, f, nil))
		}
	}
	if bias := operands[3]; s.Wants(bias) {
		channels := bias.Rows()
		pixels := ad.Reshape(ybar, ybar.Rows()/channels, channels*ybar.Cols())
		sums := ad.Reshape(ad.SumTo(pixels, 1, pixels.Cols()), channels, ybar.Cols())
		s.Accumulate(bias, ad.SumTo(sums, channels, 1))
	}
}
