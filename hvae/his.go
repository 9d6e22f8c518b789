package hvae

import (
	"hvae/ad"
	"hvae/linalg"
)

// A Sample holds B draws of Hamiltonian importance sampling (Algorithm 1).
type Sample[T linalg.Float] struct {
	Start, End Phase[T] // (z₀, ρ₀) and (z_K, ρ_K)

	epsilon, gamma0 *ad.Var[T] // noise ε and γ₀ [ℓ×B]
	logPrior        *ad.Var[T] // log q⁰(z₀) [1×B]
	logJoint        *ad.Var[T] // log p_θ(x, z_K) [1×B]
	logVolume       *ad.Var[T] // log(s^ℓ Π α_k^ℓ) [1×1]; the constant 0 if the tempering is tied, because s·Π α_k = 1
}

// HIS runs Algorithm 1 (alg:his) with noise ε ~ N(0, I) and γ₀ ~ N(0, I), each [ℓ×B]. It computes z₀ ~ q⁰ from ε with
// prior.Draw, sets ρ₀ = s·γ₀ ~ N(0, s²I), and applies the flow f to (z₀, ρ₀). Unless the tempering is untied, s =
// 1/√β₀. The estimate p̂_θ(x) is a smooth function of the noise (equation 6, eqn:reparameterization).
func HIS[T linalg.Float](f *Flow[T], prior Prior[T], epsilon, gamma0 *ad.Var[T]) Sample[T] {
	z0, logPrior := prior.Draw(epsilon)
	mustBe("log q⁰(z₀) of the variational prior", logPrior, 1, z0.Cols())
	f.Tempering.check(f.K, z0.Rows())
	start := Phase[T]{Z: z0, Rho: gamma0}
	if s := f.Tempering.momentumSD; s != nil {
		start.Rho = ad.Mul(row(s, 0), gamma0)
	}
	end := f.run(start, func(Phase[T]) {})
	logVolume := z0.Tape().Scalar(0)
	if f.Tempering.untied {
		logVolume = ad.Add(sumOfLogs(f.Tempering.momentumSD, z0.Rows()), f.LogDet(z0.Tape(), z0.Rows()))
	}
	return Sample[T]{start, end.Phase, epsilon, gamma0, logPrior, end.logJointOf(f.Target), logVolume}
}

// LogEstimate returns log p̂_θ(x) = log p̄ − log q̄ [1×B], where p̂_θ(x) is the unbiased estimate of the evidence
// p_θ(x) (equation 5, eq:estimatorHMC), and
//
//	p̄ = p_θ(x, z_K) N(ρ_K | 0, I),
//	q̄ = q⁰(z₀) N(ρ₀ | 0, s²I) / |det ∇H| = q⁰(z₀) N(γ₀ | 0, I) / (s^ℓ Π α_k^ℓ).
func (s Sample[T]) LogEstimate() *ad.Var[T] {
	logP := ad.Add(s.logJoint, LogNormal(s.End.Rho))
	return ad.Add(ad.Sub(logP, ad.Add(s.logPrior, LogNormal(s.gamma0))), s.logVolume)
}

// ELBO returns the simplified estimate [1×B] of the evidence lower bound (equation 12, eqn:H_ELBO_simplified),
//
//	log p_θ(x, z_K) − ½ρ_Kᵀρ_K − log q⁰(z₀) + ℓ/2 + log(s^ℓ Π α_k^ℓ) = log p̂_θ(x) − ½γ₀ᵀγ₀ + ℓ/2.
//
// The last logarithm is zero if the tempering is tied, as in the paper. Because E[½γ₀ᵀγ₀] = ℓ/2, ELBO and LogEstimate
// have the same mean and the same gradients, but
//
//	Var(ELBO) = Var(log p̂) + ℓ/2 − 2 Cov(log p̂, ½γ₀ᵀγ₀).
//
// Var(ELBO) is larger if the covariance is less than ℓ/4. If the flow transforms the prior exactly into the posterior,
// Var(log p̂) = 0 but Var(ELBO) = ℓ/2. Use ELBO, which needs fewer operations, to train, and LogEstimate to report.
func (s Sample[T]) ELBO() *ad.Var[T] { return s.elbo(s.logPrior) }

// EntropyELBO returns ELBO [1×B] with −log q⁰(z₀) replaced by −log q⁰(z₀) − ½εᵀε + ℓ/2, which has the same mean. If q⁰
// is a DiagonalNormal, the new term is the entropy of q⁰, and the estimate usually varies less.
func (s Sample[T]) EntropyELBO() *ad.Var[T] {
	halfSquares := ad.AddConst(ad.Scale(squaredNorms(s.epsilon), 0.5), -T(s.epsilon.Rows())/2)
	return s.elbo(ad.Add(s.logPrior, halfSquares))
}

// elbo returns the ELBO estimate [1×B], with logPrior in place of log q⁰(z₀).
func (s Sample[T]) elbo(logPrior *ad.Var[T]) *ad.Var[T] {
	kinetic := ad.Scale(squaredNorms(s.End.Rho), -0.5)
	e := ad.Add(ad.Sub(s.logJoint, logPrior), s.logVolume)
	return ad.AddConst(ad.Add(e, kinetic), T(s.End.Rho.Rows())/2)
}
