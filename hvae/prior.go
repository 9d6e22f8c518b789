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

// A Density is a variational prior whose density can be computed at any point. ReverseHIS needs a Density.
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
	squares := ad.Add(squaredNorms(q.Mean), squaredNorms(q.SD))
	return ad.Sub(ad.Scale(ad.AddConst(squares, -T(q.SD.Rows())), 0.5), logSD)
}

// logSD returns Σ_j log σ_j.
func (q DiagonalNormal[T]) logSD() *ad.Var[T] { return ad.SumTo(ad.Log(q.SD), 1, q.SD.Cols()) }

// check panics unless μ and σ have n rows.
func (q DiagonalNormal[T]) check(n int) {
	mustNotBeNil("DiagonalNormal.Mean or SD", q.Mean == nil || q.SD == nil)
	mustBe("DiagonalNormal.Mean", q.Mean, n, q.Mean.Cols())
	mustBe("DiagonalNormal.SD", q.SD, n, q.SD.Cols())
}

// Normal is the variational prior N(μ, CCᵀ) with any covariance. Mean μ is [ℓ×B], or [ℓ×1] if all columns are equal.
// Factor [ℓ×ℓ] contains the Cholesky factor C of the covariance, as returned by CholeskyFactor or linalg.Cholesky.
// Elements above its diagonal have no effect. Draw and LogDensity take about ℓ²B multiplications.
type Normal[T linalg.Float] struct{ Mean, Factor *ad.Var[T] }

// Draw returns z₀ = μ + Cε [ℓ×B] and log q⁰(z₀) [1×B].
func (q Normal[T]) Draw(epsilon *ad.Var[T]) (z0, logDensity *ad.Var[T]) {
	C, diagonal := q.factor(epsilon.Rows())
	return ad.Add(ad.MatMul(C, epsilon), q.Mean), ad.Sub(LogNormal(epsilon), ad.Sum(ad.Log(diagonal)))
}

// LogDensity returns log q⁰(z) [1×B] for the columns of z [ℓ×B]. It solves Cε = z − μ by forward substitution.
func (q Normal[T]) LogDensity(z *ad.Var[T]) *ad.Var[T] {
	n := z.Rows()
	C, diagonal := q.factor(n)
	c, r := ad.Reshape(C, n*n, 1), ad.Sub(z, q.Mean)
	epsilon := ad.Div(ad.RowRange(r, 0, 1), ad.RowRange(diagonal, 0, 1))
	for i := 1; i < n; i++ {
		left := ad.Reshape(ad.RowRange(c, i*n, i*n+i), 1, i) // row i of C, left of the diagonal
		rest := ad.Sub(ad.RowRange(r, i, i+1), ad.MatMul(left, epsilon))
		epsilon = ad.Stack(epsilon, ad.Div(rest, ad.RowRange(diagonal, i, i+1)))
	}
	return ad.Sub(LogNormal(epsilon), ad.Sum(ad.Log(diagonal)))
}

// factor returns the Cholesky factor C [n×n] and its diagonal [n×1]. It panics unless Factor is [n×n].
func (q Normal[T]) factor(n int) (C, diagonal *ad.Var[T]) {
	mustNotBeNil("Normal.Mean", q.Mean == nil)
	mustBe("Normal.Factor", q.Factor, n, n)
	below, onDiagonal := masks(q.Factor.Tape(), n)
	d := ad.Mul(onDiagonal, q.Factor)
	return ad.MulAdd(below, q.Factor, d), ad.SumTo(d, n, 1)
}

// Whitened is a target as a density of the noise ε of a variational prior q⁰, in which q⁰ is N(0, I): log p_θ(x, z₀(ε)) +
// log |det ∂z₀/∂ε|. One step size then suits all dimensions. It has the same evidence.
type Whitened[T linalg.Float] struct {
	Target Target[T]
	Prior  Prior[T]
}

// LogJoint implements Target.
func (w Whitened[T]) LogJoint(epsilon *ad.Var[T]) *ad.Var[T] {
	z0, logPrior := w.Prior.Draw(epsilon)
	return ad.Add(w.Target.LogJoint(z0), ad.Sub(LogNormal(epsilon), logPrior))
}

// CholeskyFactor maps an unconstrained parameter x [ℓ×ℓ] to a lower triangular matrix with a positive diagonal: it
// keeps the elements below the diagonal, exponentiates those on it, and sets those above it to 0. It maps 0 to I.
func CholeskyFactor[T linalg.Float](x *ad.Var[T]) *ad.Var[T] {
	mustBe("CholeskyFactor: x", x, x.Rows(), x.Rows())
	below, diagonal := masks(x.Tape(), x.Rows())
	return ad.MulAdd(below, x, ad.Mul(diagonal, ad.Exp(ad.Mul(diagonal, x))))
}

// masks returns two constants [n×n]: below is 1 below the diagonal, and diagonal is 1 on it. Other elements are 0.
func masks[T linalg.Float](t *ad.Tape[T], n int) (below, diagonal *ad.Var[T]) {
	b, d := linalg.New[T](n, n), linalg.New[T](n, n)
	for i := range n {
		d.Row(i)[i] = 1
		for j := range i {
			b.Row(i)[j] = 1
		}
	}
	return t.Const(b), t.Const(d)
}
