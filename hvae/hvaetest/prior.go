package hvaetest

import (
	"fmt"
	"math"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/linalg/random"
)

// TestPrior checks a variational prior q⁰ in ℓ = dims dimensions, whose draws must have the same distribution in all
// columns. The function bind returns the prior on a tape. TestPrior returns an error unless these conditions hold:
//   - Draw must return z₀ [ℓ×B] and log q⁰(z₀) [1×B], and each column must depend only on the same column of the noise.
//   - If the prior is an hvae.Density, LogDensity must return the same log q⁰(z₀).
//   - The mean of h(z₀)/q⁰(z₀) over 20,000 draws must be 1 up to its standard error, because its expectation is ∫ h(z) dz.
//     The density h is normal. It has the mean of separate draws from q⁰ and 0.64 times their covariance, so that the
//     quotient has a finite variance unless the tails of q⁰ are much lighter than normal tails.
func TestPrior(bind func(t *ad.Tape[float64]) hvae.Prior[float64], dims int) error {
	const draws, zBound = 20_000, 4.5 // a correct prior fails with probability 7e-6
	var t ad.Tape[float64]
	q, rng := bind(&t), random.Stream(1, "hvaetest prior")
	noise := func() linalg.Matrix[float64] {
		m := linalg.New[float64](dims, draws)
		random.FillNormal(rng, m)
		return m
	}
	epsilon := noise()
	z, logPrior := q.Draw(t.Const(epsilon))
	if z.Value.Shape() != epsilon.Shape() || logPrior.Rows() != 1 || logPrior.Cols() != draws {
		return fmt.Errorf("for noise %v, z₀ is %v and log q⁰(z₀) is %v",
			epsilon.Shape(), z.Value.Shape(), logPrior.Value.Shape())
	}
	first := linalg.Column(column(epsilon, 0)...)
	alone, logAlone := q.Draw(t.Const(first))
	got := append(column(z.Value, 0), logPrior.Value.Data[0])
	want := append(alone.Value.Clone().Data, logAlone.Scalar())
	if !(Distance(got, want) <= 1e-10*Norm(want)) {
		return fmt.Errorf("for the noise %v, z₀ and log q⁰(z₀) are %v among other columns, but %v alone",
			first.Data, got, want)
	}
	if density, ok := q.(hvae.Density[float64]); ok {
		for j, got := range density.LogDensity(z).Value.Data {
			if want := logPrior.Value.Data[j]; !(math.Abs(got-want) <= 1e-6*max(1, math.Abs(want))) {
				return fmt.Errorf("for z₀ = %v, LogDensity returns %v, but Draw returns log q⁰(z₀) = %v",
					column(z.Value, j), got, want)
			}
		}
	}
	fitted, _ := q.Draw(t.Const(noise()))
	mean, covariance := moments(fitted.Value)
	factor := Cholesky(covariance)
	linalg.Scale(factor, 0.8, factor)
	h := hvae.Normal[float64]{Mean: t.Const(mean), Factor: t.Const(factor)}
	ratio, se := linalg.MeanSE(ad.Exp(ad.Sub(h.LogDensity(z), logPrior)).Value.Data)
	if !(math.Abs(ratio-1) <= zBound*se && se <= 0.1) {
		return fmt.Errorf("the mean of h(z₀)/q⁰(z₀) is %.3g ± %.2g; it must be 1, with a standard error of at most 0.1",
			ratio, se)
	}
	return nil
}

// column returns a copy of column j of m.
func column(m linalg.Matrix[float64], j int) (c []float64) {
	for i := range m.Rows {
		c = append(c, m.At(i, j))
	}
	return c
}

// moments returns the mean [ℓ×1] and the covariance [ℓ×ℓ] of the columns of x [ℓ×B].
func moments(x linalg.Matrix[float64]) (mean, covariance linalg.Matrix[float64]) {
	n := x.Rows
	mean, covariance = linalg.New[float64](n, 1), linalg.New[float64](n, n)
	linalg.Sum(mean, x)
	linalg.Scale(mean, 1/float64(x.Cols), mean)
	for k := range covariance.Data {
		a, b := k/n, k%n
		for j := range x.Cols {
			covariance.Data[k] += (x.At(a, j) - mean.Data[a]) * (x.At(b, j) - mean.Data[b]) / float64(x.Cols)
		}
	}
	return mean, covariance
}

// Cholesky returns the lower triangular matrix C with C·Cᵀ = m, for a symmetric positive definite matrix m.
func Cholesky(m linalg.Matrix[float64]) (C linalg.Matrix[float64]) {
	C = linalg.New[float64](m.Rows, m.Rows)
	for i := range m.Rows {
		for j := range i + 1 {
			rest := m.At(i, j)
			for k := range j {
				rest -= C.At(i, k) * C.At(j, k)
			}
			if i == j {
				C.Row(i)[i] = math.Sqrt(rest)
			} else {
				C.Row(i)[j] = rest / C.At(j, j)
			}
		}
	}
	return C
}
