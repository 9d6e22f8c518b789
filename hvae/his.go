package hvae

import (
	"fmt"

	"hvae/ad"
	"hvae/linalg"
)

// A Sample holds B draws of Hamiltonian importance sampling (Algorithm 1).
type Sample[T linalg.Float] struct {
	Start, End Phase[T] // (z₀, ρ₀) and (z_K, ρ_K)

	flow     *Flow[T]
	prior    Prior[T]
	logPrior *ad.Var[T] // log q⁰(z₀), [1×B]
	logJoint *ad.Var[T] // log p_θ(x, z_K), [1×B]
	heat     *ad.Var[T] // 1/√β₀ [1×1], or nil without tempering
}

// HIS runs Algorithm 1 (alg:his) with noise ε ~ N(0, I) and γ₀ ~ N(0, I), each [ℓ×B]. It computes
// z₀ ~ q⁰ from ε with prior.Draw, sets ρ₀ = γ₀/√β₀ ~ N(0, β₀⁻¹I), and applies the flow f to
// (z₀, ρ₀). Therefore p̂_θ(x) is a smooth function of the noise (equation 6,
// eqn:reparameterization).
func HIS[T linalg.Float](f *Flow[T], prior Prior[T], epsilon, gamma0 *ad.Var[T]) Sample[T] {
	z0, logPrior := prior.Draw(epsilon)
	mustBe("log q⁰(z₀) of the variational prior", logPrior, z0, 1)
	schedule := f.Tempering.Schedule(f.K)
	rho0 := gamma0
	if heat := schedule.InvSqrtBeta0; heat != nil {
		rho0 = ad.Mul(heat, gamma0)
	}
	start := Phase[T]{Z: z0, Rho: rho0}
	end := f.forward(start, schedule, nil)
	return Sample[T]{start, end.Phase, f, prior, logPrior, end.logJointOf(f.Target), schedule.InvSqrtBeta0}
}

// LogEstimate returns log p̂_θ(x) = log p̄ − log q̄ [1×B], where p̂_θ(x) is the unbiased estimate
// of the evidence p_θ(x) (equation 5, eq:estimatorHMC), and
//
//	p̄ = p_θ(x, z_K) N(ρ_K | 0, I),   q̄ = q⁰(z₀) N(ρ₀ | 0, β₀⁻¹I) β₀^(−ℓ/2).
func (s Sample[T]) LogEstimate() *ad.Var[T] {
	dims := s.Start.Z.Rows()
	logDet := s.flow.LogDet(s.Start.Z.Tape(), dims)
	logP := ad.Add(s.logJoint, LogNormal(s.End.Rho))
	var logMomentum *ad.Var[T] // log N(ρ₀ | 0, β₀⁻¹I)
	if r := s.heat; r == nil {
		logMomentum = LogNormal(s.Start.Rho)
	} else { // N(ρ | 0, r²I) = N(ρ/r | 0, I)·r^−ℓ
		logMomentum = ad.Sub(LogNormal(ad.Div(s.Start.Rho, r)), ad.Scale(ad.Log(r), T(dims)))
	}
	return ad.Sub(logP, ad.Sub(ad.Add(s.logPrior, logMomentum), logDet))
}

// ELBO returns the simplified estimate [1×B] of the evidence lower bound (equation 12,
// eqn:H_ELBO_simplified),
//
//	log p_θ(x, z_K) − ½ρ_Kᵀρ_K − log q⁰(z₀) + ℓ/2 = log p̂_θ(x) − ½γ₀ᵀγ₀ + ℓ/2.
//
// Because E[½γ₀ᵀγ₀] = ℓ/2, ELBO and LogEstimate have the same mean and the same gradients, but
//
//	Var(ELBO) = Var(log p̂) + ℓ/2 − 2 Cov(log p̂, ½γ₀ᵀγ₀).
//
// Var(ELBO) is larger than Var(log p̂) if the covariance is less than ℓ/4. If the flow reaches the
// posterior, Var(log p̂) = 0 but Var(ELBO) = ℓ/2. Use ELBO to train, because it needs fewer operations for
// the same gradients, and LogEstimate to report results.
func (s Sample[T]) ELBO() *ad.Var[T] {
	return s.elbo(ad.Sub(s.logJoint, s.logPrior))
}

// EntropyELBO returns ELBO [1×B] with −log q⁰(z₀) replaced by its expectation, the entropy of
// q⁰. It panics if the variational prior has no method Entropy. DiagonalNormal has this method.
func (s Sample[T]) EntropyELBO() *ad.Var[T] {
	q, ok := s.prior.(interface{ Entropy() *ad.Var[T] })
	if !ok {
		panic(fmt.Sprintf("hvae: EntropyELBO: the variational prior %T has no method Entropy", s.prior))
	}
	return s.elbo(ad.Add(s.logJoint, q.Entropy()))
}

// elbo returns the ELBO estimate e − ½ρ_Kᵀρ_K + ℓ/2 [1×B], where E[e] = E[log p_θ(x, z_K) − log q⁰(z₀)].
func (s Sample[T]) elbo(e *ad.Var[T]) *ad.Var[T] {
	kinetic := ad.Scale(squaredNorms(s.End.Rho), -0.5)
	return ad.AddConst(ad.Add(e, kinetic), T(s.End.Rho.Rows())/2)
}
