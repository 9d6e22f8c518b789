package hvae

import (
	"fmt"

	"hvae/ad"
	"hvae/linalg"
)

// A Sample is the result of Hamiltonian importance sampling (Algorithm 1) for each of B columns.
type Sample[T linalg.Float] struct {
	Start, End Phase[T] // (z₀, ρ₀) and (z_K, ρ_K)

	flow     *Flow[T]
	schedule Tempering[T]
	prior    Prior[T]
	logPrior *ad.Var[T] // log q⁰(z₀), [1×B]
}

// HIS runs Algorithm 1 (alg:his) with noise ε and γ₀ [ℓ×B], both from N(0, I). It draws z₀ from
// the variational prior with ε, sets ρ₀ = γ₀/√β₀ ~ N(0, β₀⁻¹I), and moves both by the flow, so
// that p̂_θ(x) is a smooth function of the noise (equation 6, eqn:reparameterization).
func HIS[T linalg.Float](f *Flow[T], prior Prior[T], epsilon, gamma0 *ad.Var[T]) Sample[T] {
	z0, logPrior := prior.Draw(epsilon)
	mustBe("log q⁰(z₀) of the variational prior", logPrior, z0, 1)
	schedule := f.Tempering.Schedule(f.K)
	rho0 := gamma0
	if s := schedule.InvSqrtBeta0; s != nil {
		rho0 = ad.Mul(s, gamma0)
	}
	start := Phase[T]{Z: z0, Rho: rho0}
	return Sample[T]{start, f.forward(start, schedule, nil), f, schedule, prior, logPrior}
}

// LogEstimate returns log p̂_θ(x) = log p̄ − log q̄ [1×B], the logarithm of Algorithm 1's
// unbiased estimate of p_θ(x) (equation 5, eq:estimatorHMC), where
//
//	p̄ = p_θ(x, z_K) N(ρ_K | 0, I),   q̄ = q⁰(z₀) N(ρ₀ | 0, β₀⁻¹I) β₀^(−ℓ/2).
func (s Sample[T]) LogEstimate() *ad.Var[T] {
	logDet := s.schedule.logDet(s.Start.Z.Tape(), s.Start.Z.Rows())
	logP := ad.Add(s.End.LogJoint(s.flow.Target), LogNormal(s.End.Rho))
	logQ := ad.Sub(ad.Add(s.logPrior, s.logMomentum()), logDet)
	return ad.Sub(logP, logQ)
}

// logMomentum returns log N(ρ₀ | 0, β₀⁻¹I) [1×B], the density of the momentum's canonical
// distribution at inverse temperature β₀.
func (s Sample[T]) logMomentum() *ad.Var[T] {
	r := s.schedule.InvSqrtBeta0
	if r == nil {
		return LogNormal(s.Start.Rho)
	}
	gamma := ad.Div(s.Start.Rho, r) // N(ρ | 0, r²I) = N(ρ/r | 0, I)·r^−ℓ
	return ad.Sub(LogNormal(gamma), ad.Scale(ad.Log(r), T(gamma.Rows())))
}

// ELBO returns the Rao-Blackwellised estimate [1×B] of the evidence lower bound (equation 12,
// eqn:H_ELBO_simplified),
//
//	log p_θ(x, z_K) − ½ρ_Kᵀρ_K − log q⁰(z₀) + ℓ/2.
//
// It is LogEstimate with ½γ₀ᵀγ₀ replaced by its expectation ℓ/2, with the same mean and the
// same gradients. Its variance Var(log p̂) + ℓ/2 − 2 Cov(log p̂, ½γ₀ᵀγ₀) is larger than
// LogEstimate's unless the covariance exceeds ℓ/4: as the flow approaches the posterior,
// Var(log p̂) approaches 0, but this ℓ/2. So train with ELBO, and report LogEstimate.
func (s Sample[T]) ELBO() *ad.Var[T] {
	return s.elbo(ad.Sub(s.End.LogJoint(s.flow.Target), s.logPrior))
}

// EntropyELBO returns ELBO [1×B] with −log q⁰(z₀) replaced by its expectation, too: the method
// Entropy of the variational prior, such as DiagonalNormal. It panics if there is none.
func (s Sample[T]) EntropyELBO() *ad.Var[T] {
	q, ok := s.prior.(interface{ Entropy() *ad.Var[T] })
	if !ok {
		panic(fmt.Sprintf("hvae: EntropyELBO of a variational prior %T without Entropy", s.prior))
	}
	return s.elbo(ad.Add(s.End.LogJoint(s.flow.Target), q.Entropy()))
}

// elbo returns e − ½ρ_Kᵀρ_K + ℓ/2.
func (s Sample[T]) elbo(e *ad.Var[T]) *ad.Var[T] {
	kinetic := ad.Scale(squaredNorms(s.End.Rho), -0.5)
	return ad.AddConst(ad.Add(e, kinetic), T(s.End.Rho.Rows())/2)
}
