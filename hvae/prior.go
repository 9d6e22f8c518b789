package hvae

import (
	"math"

	"hvae/ad"
	"hvae/linalg"
)

// A Prior is a variational prior q⁰ whose draws are functions of noise.
type Prior[T linalg.Float] interface {
	// Draw returns z₀ ~ q⁰ [ℓ×B] and log q⁰(z₀) [1×B] as functions of noise ε ~ N(0, I) [ℓ×B].
	Draw(epsilon *ad.Var[T]) (z0, logDensity *ad.Var[T])
}

// A Density is a variational prior whose density can be computed at any point. A reverse estimate needs it.
type Density[T linalg.Float] interface {
	Prior[T]
	// LogDensity returns log q⁰(z) [1×B] for the columns of z [ℓ×B].
	LogDensity(z *ad.Var[T]) *ad.Var[T]
}

// StandardNormal is the variational prior N(0, I) in any number ℓ of dimensions.
type StandardNormal[T linalg.Float] struct{}

// Draw returns z₀ = ε [ℓ×B] and log N(ε | 0, I) [1×B].
func (StandardNormal[T]) Draw(epsilon *ad.Var[T]) (z0, logDensity *ad.Var[T]) {
	return epsilon, LogNormal(epsilon)
}

// LogDensity returns log N(z | 0, I) [1×B].
func (StandardNormal[T]) LogDensity(z *ad.Var[T]) *ad.Var[T] { return LogNormal(z) }

// DiagonalNormal is the variational prior N(μ, diag(σ²)). Mean μ and SD σ are [ℓ×B], or [ℓ×1] if all columns are equal.
type DiagonalNormal[T linalg.Float] struct{ Mean, SD *ad.Var[T] }

// Draw returns z₀ = μ + σ ⊙ ε [ℓ×B] and log q⁰(z₀) [1×B].
func (q DiagonalNormal[T]) Draw(epsilon *ad.Var[T]) (z0, logDensity *ad.Var[T]) {
	q.check(epsilon)
	return ad.MulAdd(q.SD, epsilon, q.Mean), ad.Sub(LogNormal(epsilon), q.logSD())
}

// LogDensity returns log q⁰(z) [1×B] for the columns of z [ℓ×B].
func (q DiagonalNormal[T]) LogDensity(z *ad.Var[T]) *ad.Var[T] {
	q.check(z)
	return ad.Sub(LogNormal(ad.Div(ad.Sub(z, q.Mean), q.SD)), q.logSD())
}

// Divergence returns the Kullback-Leibler divergence KL(q⁰ ‖ N(0, I)) = Σ_j (½(μ_j² + σ_j² − 1) − log σ_j). The result
// is [1×B], or [1×1] if μ and σ are [ℓ×1].
func (q DiagonalNormal[T]) Divergence() *ad.Var[T] {
	q.check(q.Mean)
	logSD := q.logSD()
	squares := ad.Add(squaredNorms(q.Mean), squaredNorms(q.SD))
	return ad.Sub(ad.Scale(ad.AddConst(squares, -T(q.SD.Rows())), 0.5), logSD)
}

// logSD returns Σ_j log σ_j.
func (q DiagonalNormal[T]) logSD() *ad.Var[T] { return ad.SumTo(ad.Log(q.SD), 1, q.SD.Cols()) }

// check panics unless μ, σ and z have the same number ℓ of rows, and if an element of σ is negative.
func (q DiagonalNormal[T]) check(z *ad.Var[T]) {
	mustNotBeNil("DiagonalNormal.Mean or SD", q.Mean == nil || q.SD == nil)
	n, mean, sd := z.Rows(), q.Mean.Value.Shape(), q.SD.Value.Shape()
	if mean.Rows != n || sd.Rows != n {
		misuse("DiagonalNormal has Mean %v and SD %v for noise or z %v; all must have the same number of rows", mean, sd, z.Value.Shape())
	}
	mustBeFactors("DiagonalNormal", "SD", q.SD, 0, T(math.Inf(1)))
}
