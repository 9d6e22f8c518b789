// Package model implements the Gaussian experiment of section 4.1 of the HVAE paper. Variational methods estimate the
// parameters θ = (Δ, σ) of the model
//
//	z ~ N(0, I_d),   x_i | z ~ N(z + Δ, Σ),   Σ = diag(σ_1², …, σ_d²),
//
// from one dataset D = {x_1, …, x_N}. The evidence of this model is known in closed form. The file twomodes.go contains
// a separate target that shows the effect of tempering.
package model

import (
	"math"
	"math/rand/v2"
	"slices"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/linalg/numeric"
	"hvae/linalg/random"
)

// Theta is a value of θ, which consists of offsets Δ [d] and standard deviations σ [d].
type Theta struct{ Delta, Sigma []float64 }

// Truth returns the parameters that generate the datasets in d dimensions,
//
//	Δ_j = r_j/5,   σ_j = 36 r_j²/(10 (d−1)²) + 0.1,   where r_j = j − (d−1)/2 and j = 0 … d−1.
//
// If d = 1, σ is 1.
func Truth(d int) (t Theta) {
	for j := range d {
		r := float64(j) - float64(d-1)/2
		sigma := 1.0
		if d > 1 {
			sigma = 36*r*r/(10*float64((d-1)*(d-1))) + 0.1
		}
		t.Delta = append(t.Delta, r/5)
		t.Sigma = append(t.Sigma, sigma)
	}
	return t
}

// Data holds the sufficient statistics of a dataset. The sums of squares are centred to avoid cancellation.
type Data struct {
	N       int
	Mean    []float64 // x̄_j
	Scatter []float64 // S_j = Σ_i (x_ij − x̄_j)²
}

// Add adds a dimension to the dataset. The slice x contains the coordinate of each point in this dimension.
func (d *Data) Add(x []float64) {
	mean, scatter := numeric.MeanScatter(x)
	d.N = len(x)
	d.Mean = append(d.Mean, mean)
	d.Scatter = append(d.Scatter, scatter)
}

// Draw draws z ~ N(0, I) and n points x_i ~ N(z + Δ, Σ), and returns the statistics of the points. To save memory, it
// holds the n coordinates of only one dimension at a time.
func Draw(truth Theta, n int, rng *rand.Rand) (data Data) {
	x := linalg.New[float64](1, n)
	for j, sigma := range truth.Sigma {
		z := rng.NormFloat64()
		random.FillNormal(rng, x)
		linalg.Scale(x, sigma, x)
		linalg.AddConst(x, x, z+truth.Delta[j])
		data.Add(x.Data)
	}
	return data
}

// LogEvidence returns the log evidence, which is the log density of D with z integrated out,
//
//	log p_θ(D) = Σ_j −(N/2) log 2πv_j − S_j/2v_j − ½ log(1 + N/v_j) − ½ (x̄_j − Δ_j)²/(1 + v_j/N),
//
// where v_j = σ_j².
func (d Data) LogEvidence(t Theta) (sum float64) {
	n := float64(d.N)
	for j, sigma := range t.Sigma {
		v := sigma * sigma
		r := d.Mean[j] - t.Delta[j]
		sum -= n/2*(numeric.Log2Pi+math.Log(v)) + d.Scatter[j]/(2*v)
		sum -= 0.5*math.Log1p(n/v) + 0.5*r*r/(1+v/n)
	}
	return sum
}

// TiedLimit returns a lower bound on the gap log p_θ(D) − ELBO of an HVAE with tied tempering and q⁰ = N(0, I). For any
// number of steps, this bound is d(exp(ΔH/d) − 1) − ΔH, where ΔH = ½ Σ_j log(1 + N/σ_j²) (see hvae.Tempering).
func (d Data) TiedLimit(t Theta) float64 {
	excess := 0.0 // ΔH
	for _, sigma := range t.Sigma {
		excess += 0.5 * math.Log1p(float64(d.N)/(sigma*sigma))
	}
	dims := float64(len(t.Sigma))
	return dims*math.Expm1(excess/dims) - excess
}

// MaximumLikelihood returns the θ that maximises log p_θ(D): Δ̂_j = x̄_j, and v = σ̂_j² is the positive root of N v² +
// (N(N−1) − S_j) v − N S_j = 0. N must be at least 2, and every S_j positive.
func (d Data) MaximumLikelihood() Theta {
	t := Theta{Delta: slices.Clone(d.Mean)}
	n := float64(d.N)
	for _, s := range d.Scatter {
		b := n*(n-1) - s
		root := math.Hypot(b, 2*n*math.Sqrt(s)) // √(b² + 4·N·NS)
		v := 2 * n * s / (b + root)             // precise unless S_j is much larger than N(N−1)
		t.Sigma = append(t.Sigma, math.Sqrt(v))
	}
	return t
}

// Target is log p_θ(D, z) as a function of z, where Δ and log σ are variables on a tape:
//
//	log p_θ(D, z) = Σ_j −(N/2) log 2π − N log σ_j − S_j/2σ_j² − N/2σ_j² (z_j + Δ_j − x̄_j)²
//	              + log N(z | 0, I).
//
// The gradient of the potential U = −log p has the closed form
//
//	∇U_θ(z|D) = z + N Σ⁻¹(z + Δ − x̄).
type Target struct {
	offset    *ad.Var[float64] // Δ − x̄, [d×1]
	precision *ad.Var[float64] // N/σ², [d×1]
	slope     *ad.Var[float64] // 1 + N/σ², [d×1]
	intercept *ad.Var[float64] // N/σ²(Δ − x̄), [d×1]
	constant  *ad.Var[float64] // the terms of log p_θ(D, z) that do not contain z, [1×1]
}

var _ hvae.ClosedForm[float64] = Target{}

// NewTarget returns the Target for a dataset, Δ [d×1] and log σ [d×1]. It is valid until delta's tape is reset.
func NewTarget(data Data, delta, logSigma *ad.Var[float64]) (g Target) {
	t := delta.Tape()
	n := float64(data.N)
	g.offset = ad.Sub(delta, t.Const(linalg.Column(data.Mean...)))
	inverse := ad.Exp(ad.Scale(logSigma, -2)) // 1/σ²
	g.precision = ad.Scale(inverse, n)
	g.slope = ad.AddConst(g.precision, 1)
	g.intercept = ad.Mul(g.precision, g.offset)
	residual := ad.Scale(ad.Dot(inverse, t.Const(linalg.Column(data.Scatter...))), -0.5)
	spread := ad.Scale(ad.Sum(logSigma), -n)
	g.constant = ad.AddConst(ad.Add(residual, spread), -n*float64(len(data.Mean))*numeric.Log2Pi/2)
	return g
}

// LogJoint implements hvae.Target.
func (g Target) LogJoint(z *ad.Var[float64]) *ad.Var[float64] {
	squares := ad.Square(ad.Add(z, g.offset))
	misfit := ad.MulSumTo(g.precision, squares, 1, z.Cols())
	return ad.Add(ad.MulAdd(misfit, z.Tape().Scalar(-0.5), g.constant), hvae.LogNormal(z))
}

// PotentialGradient implements hvae.ClosedForm.
func (g Target) PotentialGradient(z *ad.Var[float64]) *ad.Var[float64] {
	return ad.MulAdd(g.slope, z, g.intercept)
}
