package hvae

import (
	"hvae/ad"
	"hvae/linalg"
)

// A Prior is a variational prior q⁰ whose draws are functions of noise.
type Prior[T linalg.Float] interface {
	// Draw returns z₀ ~ q⁰ [ℓ×B] and log q⁰(z₀) [1×B] as functions of noise ε ~ N(0, I) [ℓ×B].
	Draw(epsilon *ad.Var[T]) (z0, logDensity *ad.Var[T])
}

// A Density is a variational prior whose density can be computed at any point, as ReverseHIS requires.
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
	q.check(epsilon.Rows())
	return ad.MulAdd(q.SD, epsilon, q.Mean), ad.Sub(LogNormal(epsilon), q.logSD())
}

// LogDensity returns log q⁰(z) [1×B] for the columns of z [ℓ×B].
func (q DiagonalNormal[T]) LogDensity(z *ad.Var[T]) *ad.Var[T] {
	q.check(z.Rows())
	return ad.Sub(LogNormal(ad.Div(ad.Sub(z, q.Mean), q.SD)), q.logSD())
}

// Divergence returns the Kullback-Leibler divergence KL(q⁰ ‖ N(0, I)) = Σ_j (½(μ_j² + σ_j² − 1) − log σ_j). The result
// is [1×B], or [1×1] if μ and σ are [ℓ×1].
func (q DiagonalNormal[T]) Divergence() *ad.Var[T] {
	q.check(q.Mean.Rows())
	logSD := q.logSD()
	squares := ad.Add(ad.MulSumTo(q.Mean, q.Mean, 1, q.Mean.Cols()), ad.MulSumTo(q.SD, q.SD, 1, q.SD.Cols()))
	return ad.Sub(ad.Scale(ad.AddConst(squares, -T(q.SD.Rows())), 0.5), logSD)
}

func (q DiagonalNormal[T]) logSD() *ad.Var[T] { return ad.SumTo(ad.Log(q.SD), 1, q.SD.Cols()) }

// check panics unless μ and σ have n rows.
func (q DiagonalNormal[T]) check(n int) {
	mustNotBeNil("Mean or SD of q⁰", q.Mean == nil || q.SD == nil)
	mustBe("Mean of q⁰", q.Mean, n, q.Mean.Cols())
	mustBe("SD of q⁰", q.SD, n, q.SD.Cols())
}

// Normal is the variational prior N(μ, CCᵀ) with any covariance, where C is lower triangular. Mean μ and SD, the
// diagonal of C, have the shapes of DiagonalNormal, and SD is positive. Below [ℓ×ℓ] contains the elements of C below
// the diagonal; its other elements have no effect. Draw and LogDensity take about ℓ²B multiplications.
type Normal[T linalg.Float] struct{ Mean, SD, Below *ad.Var[T] }

// Draw returns z₀ = μ + Cε [ℓ×B] and log q⁰(z₀) [1×B].
func (q Normal[T]) Draw(epsilon *ad.Var[T]) (z0, logDensity *ad.Var[T]) {
	n := epsilon.Rows()
	mask := linalg.New[T](n, n) // 1 below the diagonal
	for i := range n {
		linalg.Column(mask.Row(i)[:i]...).Fill(1)
	}
	below := ad.Mul(epsilon.Tape().Const(mask), mustBe("Below of q⁰", q.Below, n, n))
	z0, logDensity = DiagonalNormal[T]{q.Mean, q.SD}.Draw(epsilon)
	return ad.Add(ad.MatMul(below, epsilon), z0), logDensity
}

// LogDensity returns log q⁰(z) [1×B] for the columns of z [ℓ×B]. It solves Cε = z − μ by forward substitution.
func (q Normal[T]) LogDensity(z *ad.Var[T]) *ad.Var[T] {
	n, diagonal := z.Rows(), DiagonalNormal[T]{q.Mean, q.SD}
	diagonal.check(n)
	below, r := ad.Reshape(mustBe("Below of q⁰", q.Below, n, n), n*n, 1), ad.Sub(z, q.Mean)
	epsilon := ad.Div(ad.RowRange(r, 0, 1), ad.RowRange(q.SD, 0, 1))
	for i := 1; i < n; i++ {
		left := ad.Reshape(ad.RowRange(below, i*n, i*n+i), 1, i) // row i of C, left of the diagonal
		rest := ad.Sub(ad.RowRange(r, i, i+1), ad.MatMul(left, epsilon))
		epsilon = ad.Stack(epsilon, ad.Div(rest, ad.RowRange(q.SD, i, i+1)))
	}
	return ad.Sub(LogNormal(epsilon), diagonal.logSD())
}

// Whitened is a target as a density of the noise ε of a variational prior q⁰: log p_θ(x, z₀(ε)) + log |det ∂z₀/∂ε|. Its
// evidence is the same, and one step size suits all dimensions, because q⁰ as a density of ε is N(0, I).
type Whitened[T linalg.Float] struct {
	Target Target[T]
	Prior  Prior[T]
}

// LogJoint implements Target.
func (w Whitened[T]) LogJoint(epsilon *ad.Var[T]) *ad.Var[T] {
	z0, logPrior := w.Prior.Draw(epsilon)
	return ad.Add(w.Target.LogJoint(z0), ad.Sub(LogNormal(epsilon), logPrior))
}
