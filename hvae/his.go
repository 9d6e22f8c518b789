package hvae

import (
	"hvae/ad"
	"hvae/linalg"
)

// A Sample is what Hamiltonian importance sampling (Algorithm 1) drew for each of B
// columns, from its first point to its last.
type Sample[T linalg.Float] struct {
	Start, End Phase[T]

	flow     *Flow[T]
	logPrior *ad.Var[T] // log q⁰(z₀), [1×B]
}

// HIS runs Algorithm 1 (alg:his). The caller draws z₀ [ℓ×B] from the variational prior q⁰,
// in reparameterised form if it has parameters (DiagonalNormal.Draw), and gives log q⁰(z₀)
// [1×B], and draws γ₀ [ℓ×B] from N(0, I). The initial momentum is ρ₀ = γ₀/√β₀ ~ N(0, β₀⁻¹I),
// so that p̂_θ(x) is a smooth function of the noise (equation 6, eqn:reparameterization).
func HIS[T linalg.Float](f *Flow[T], z0, logPrior, gamma0 *ad.Var[T]) Sample[T] {
	mustBe("log q⁰(z₀)", logPrior, z0, 1)
	rho0 := gamma0
	if s := f.Tempering.invSqrtBeta0; s != nil {
		rho0 = ad.Mul(s, gamma0)
	}
	start := Phase[T]{Z: z0, Rho: rho0}
	return Sample[T]{Start: start, End: f.Forward(start), flow: f, logPrior: logPrior}
}

// LogEstimate returns log p̂_θ(x) = log p̄ − log q̄ [1×B], the logarithm of Algorithm
// 1's unbiased estimate of p_θ(x) (equation 5, eq:estimatorHMC), where
//
//	p̄ = p_θ(x, z_K) N(ρ_K | 0, I),   q̄ = q⁰(z₀) N(ρ₀ | 0, β₀⁻¹I) β₀^(−ℓ/2).
func (s Sample[T]) LogEstimate() *ad.Var[T] {
	logDet := s.flow.LogDet(s.Start.Z.Tape(), s.Start.Z.Rows())
	logP := ad.Add(s.End.LogJoint(s.flow.Target), LogNormal(s.End.Rho))
	logQ := ad.Sub(ad.Add(s.logPrior, s.logMomentum()), logDet)
	return ad.Sub(logP, logQ)
}

// logMomentum returns log N(ρ₀ | 0, β₀⁻¹I) [1×B], the canonical momentum distribution
// at inverse temperature β₀.
func (s Sample[T]) logMomentum() *ad.Var[T] {
	r := s.flow.Tempering.invSqrtBeta0
	if r == nil {
		return LogNormal(s.Start.Rho)
	}
	gamma := ad.Div(s.Start.Rho, r) // N(ρ | 0, r²I) = N(ρ/r | 0, I)·r^−ℓ
	return ad.Sub(LogNormal(gamma), ad.Scale(ad.Log(r), T(gamma.Rows())))
}

// ELBO returns, for each column, the Rao-Blackwellised estimate [1×B] of the evidence
// lower bound (equation 12, eqn:H_ELBO_simplified),
//
//	log p_θ(x, z_K) − ½ρ_Kᵀρ_K − log q⁰(z₀) + ℓ/2,
//
// whose mean is that of LogEstimate: the terms of the momentum are replaced by their
// expectation.
func (s Sample[T]) ELBO() *ad.Var[T] {
	e := ad.Sub(s.End.LogJoint(s.flow.Target), s.logPrior)
	kinetic := ad.Scale(squaredNorms(s.End.Rho), -0.5)
	return ad.AddConst(ad.Add(e, kinetic), T(s.End.Rho.Rows())/2)
}
