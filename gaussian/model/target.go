package model

import (
	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
)

// Target is log p_θ(D, z) as a function of z, Δ and log σ on the tape,
//
//	log p_θ(D, z) = Σ_j −(N/2) log 2π − N log σ_j − S_j/2σ_j² − N/2σ_j² (z_j + Δ_j − x̄_j)²
//	              + log N(z | 0, I).
//
// where x̄_j and S_j are the statistics in Data. The gradient of the potential U = −log p has the closed form
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

// NewTarget returns the target of a dataset for Δ [d×1] and log σ [d×1]. It is valid until their tape is reset.
func NewTarget(data Data, delta, logSigma *ad.Var[float64]) (g Target) {
	t, n := delta.Tape(), float64(data.N)
	mean, scatter := t.Const(linalg.Column(data.Mean...)), t.Const(linalg.Column(data.Scatter...))
	g.offset = ad.Sub(delta, mean)
	inverse := ad.Exp(ad.Scale(logSigma, -2)) // 1/σ²
	g.precision = ad.Scale(inverse, n)
	g.slope = ad.AddConst(g.precision, 1)
	g.intercept = ad.Mul(g.precision, g.offset)
	residual := ad.Scale(ad.Dot(inverse, scatter), -0.5)
	spread := ad.Scale(ad.Sum(logSigma), -n)
	g.constant = ad.AddConst(ad.Add(residual, spread), -n*float64(len(data.Mean))*linalg.Log2Pi/2)
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
