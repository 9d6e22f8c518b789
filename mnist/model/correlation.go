package model

import (
	"math"

	"hvae/ad"
	"hvae/linalg"
)

// moments holds Σ (z − p) and Σ (z − p)(z − p)ᵀ over draws z [ℓ×1] of the latent variables, where
// p [ℓ×1] is a fixed point near their mean.
type moments[T linalg.Float] struct{ sum, products linalg.Matrix[T] }

// add adds n draws z [ℓ×n] to the sums. p [ℓ×1] must be the same in all calls. The tape provides scratch
// memory.
func (m *moments[T]) add(t *ad.Tape[T], z, p linalg.Matrix[T]) {
	if m.sum.Data == nil {
		m.sum, m.products = linalg.New[T](z.Rows, 1), linalg.New[T](z.Rows, z.Rows)
	}
	near, sum, scratch := t.Matrix(z.Rows, z.Cols), t.Matrix(z.Rows, 1), t.Matrix(z.Cols, z.Rows)
	linalg.Sub(near, z, p)
	linalg.Sum(sum, near)
	linalg.Add(m.sum, m.sum, sum)
	linalg.AddMatMulTB(m.products, near, near, scratch.Data)
}

// correlation returns the absolute sample correlation in n draws, averaged over all pairs of
// dimensions. It returns NaN for one dimension, or if a dimension does not vary. For independent
// dimensions, the expected value is IndependentCorrelation(n).
func (m *moments[T]) correlation(n int) float64 {
	covariance := func(i, j int) float64 {
		return float64(m.products.At(i, j)) - float64(m.sum.At(i, 0))*float64(m.sum.At(j, 0))/float64(n)
	}
	total, pairs := 0.0, 0.0
	for i := range m.sum.Rows {
		for j := range i {
			total += math.Abs(covariance(i, j)) / math.Sqrt(covariance(i, i)*covariance(j, j))
			pairs++
		}
	}
	return total / pairs
}

// IndependentCorrelation returns E|r| = Γ((n−1)/2)/(√π Γ(n/2)) ≈ √(2/(πn)), where r is the sample
// correlation of two independent normal variables in n ≥ 2 draws. For n > 2, the distribution of r² is
// Beta(½, n/2 − 1).
func IndependentCorrelation(n int) float64 {
	a, _ := math.Lgamma(float64(n-1) / 2)
	b, _ := math.Lgamma(float64(n) / 2)
	return math.Exp(a-b) / math.Sqrt(math.Pi)
}
