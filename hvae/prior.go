package hvae

import (
	"fmt"

	"hvae/ad"
	"hvae/linalg"
)

// A DiagonalNormal is the variational prior q⁰(z₀) = N(z₀ | μ, diag(σ²)), with Mean μ and
// standard deviations SD σ [ℓ×B], or [ℓ×1] for all columns.
type DiagonalNormal[T linalg.Float] struct{ Mean, SD *ad.Var[T] }

// Draw returns a draw z₀ = μ + σ ⊙ ε [ℓ×B] and log q⁰(z₀) [1×B] for noise ε ~ N(0, I)
// [ℓ×B]. It is reparameterised: gradients pass through it to μ and σ.
func (q DiagonalNormal[T]) Draw(epsilon *ad.Var[T]) (z0, logPrior *ad.Var[T]) {
	return ad.MulAdd(q.SD, epsilon, q.Mean), q.logDensity(epsilon)
}

// LogDensity returns log q⁰(z) [1×B] for the columns of z [ℓ×B].
func (q DiagonalNormal[T]) LogDensity(z *ad.Var[T]) *ad.Var[T] {
	return q.logDensity(ad.Div(ad.Sub(z, q.Mean), q.SD))
}

// logDensity returns log q⁰(μ + σ ⊙ ε).
func (q DiagonalNormal[T]) logDensity(epsilon *ad.Var[T]) *ad.Var[T] {
	if epsilon.Rows() != q.SD.Rows() {
		panic(fmt.Sprintf("hvae: noise %v for a normal of %v", epsilon.Value.Shape(), q.SD.Value.Shape()))
	}
	return ad.Sub(LogNormal(epsilon), q.logSD())
}

// Entropy returns E[−log q⁰(z₀)] = Σ_j log σ_j + ½ log 2πe, a row like μ's.
func (q DiagonalNormal[T]) Entropy() *ad.Var[T] {
	return ad.AddConst(q.logSD(), T(q.SD.Rows())*(linalg.Log2Pi+1)/2)
}

// Divergence returns KL(q⁰ ‖ N(0, I)) = Σ_j ½(μ_j² + σ_j² − 1) − log σ_j, a row like μ's.
func (q DiagonalNormal[T]) Divergence() *ad.Var[T] {
	logSD := q.logSD()
	squares := ad.Add(squaredNorms(q.Mean), squaredNorms(q.SD))
	return ad.Sub(ad.Scale(ad.AddConst(squares, -T(q.SD.Rows())), 0.5), logSD)
}

// logSD returns Σ_j log σ_j.
func (q DiagonalNormal[T]) logSD() *ad.Var[T] {
	if q.Mean.Value.Shape() != q.SD.Value.Shape() {
		panic(fmt.Sprintf("hvae: a normal of mean %v and standard deviation %v", q.Mean.Value.Shape(), q.SD.Value.Shape()))
	}
	return ad.SumTo(ad.Log(q.SD), 1, q.SD.Cols())
}
