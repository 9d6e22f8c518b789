package hvae

import (
	"hvae/ad"
	"hvae/linalg"
)

// A Sample holds B draws from Hamiltonian importance sampling (Algorithm 1).
type Sample[T linalg.Float] struct {
	Start, End Phase[T] // (z₀, ρ₀) and (z_K, ρ_K)

	gamma0    *ad.Var[T] // noise γ₀ [ℓ×B]
	logPrior  *ad.Var[T] // log q⁰(z₀) [1×B]
	logJoint  *ad.Var[T] // log p_θ(x, z_K) [1×B]
	logVolume *ad.Var[T] // log(s^ℓ Π α_k^ℓ) [1×1], which is 0 if the tempering is tied
}

// HIS runs Algorithm 1 (alg:his) with independent noise ε, γ₀ ~ N(0, I) [ℓ×B]. It computes z₀ ~ q⁰ from ε with
// prior.Draw, sets ρ₀ = s·γ₀ ~ N(0, s²I), and applies the flow f to (z₀, ρ₀), so p̂_θ(x) is a smooth function of the
// noise (equation 6, eqn:reparameterization). If the tempering is tied, s = 1/√β₀. HIS panics if ε and γ₀ share memory.
func HIS[T linalg.Float](f *Flow[T], prior Prior[T], epsilon, gamma0 *ad.Var[T]) Sample[T] {
	mustNotBeNil("HIS: the variational prior", prior == nil)
	mustNotBeNil("HIS: ε", epsilon == nil)
	z0, logPrior := prior.Draw(epsilon)
	mustBe("log q⁰(z₀) of the variational prior", logPrior, 1, z0.Cols())
	start := Phase[T]{Z: z0, Rho: gamma0}
	f.check(start)
	if linalg.Overlap(epsilon.Value, gamma0.Value) {
		misuse("HIS: ε and γ₀ are the same variable or share memory; they must be independent draws")
	}
	if s := f.Tempering.MomentumSD; s != nil {
		start.Rho = ad.Mul(row(s, 0), gamma0)
	}
	path, logJoint := f.run(start)
	return Sample[T]{start, path[f.K], gamma0, logPrior, logJoint, f.logVolume(z0.Tape(), z0.Rows())}
}

// ReverseHIS runs Algorithm 1 backwards. It returns the sample whose path ends at (z_K, ρ_K) = (z, rho), each [ℓ×B].
// Let z be an exact draw from p_θ(z|x), such as the z ~ p_θ(z) from which x was simulated, and let ρ_K ~ N(0, I). Then
//
//	E[1/p̂_θ(x)] = c/p_θ(x),
//
// where c ≤ 1 is the probability that a draw from HIS ends in the support of the posterior. Therefore the expectation
// of −log(mean of 1/p̂_θ(x)) is an upper bound on log p_θ(x), even if the draws are not independent.
//
// For normal distributions, 1/p̂_θ(x) has infinite variance if, in some direction, the variance of (z_K, ρ_K) from HIS
// is at least twice the variance of p_θ(z|x) N(ρ|0, I). So choose a narrow q⁰. The estimate misses any region to which
// HIS moves draws from q⁰ but in which no exact draw lies.
func ReverseHIS[T linalg.Float](f *Flow[T], prior Density[T], z, rho *ad.Var[T]) Sample[T] {
	mustNotBeNil("ReverseHIS: the variational prior", prior == nil)
	end := Phase[T]{z, rho}
	start := f.Inverse(end)
	gamma0 := start.Rho
	if s := f.Tempering.MomentumSD; s != nil {
		gamma0 = ad.Div(gamma0, row(s, 0))
	}
	logPrior, logJoint := prior.LogDensity(start.Z), logJointOf(f.Target, z)
	return Sample[T]{start, end, gamma0, logPrior, logJoint, f.logVolume(z.Tape(), z.Rows())}
}

// LogEstimate returns log p̂_θ(x) = log p̄ − log q̄ [1×B], where p̂_θ(x) is the unbiased estimate of the evidence
// p_θ(x) (equation 5, eq:estimatorHMC), and
//
//	p̄ = p_θ(x, z_K) N(ρ_K | 0, I),
//	q̄ = q⁰(z₀) N(ρ₀ | 0, s²I) / |det ∇H| = q⁰(z₀) N(γ₀ | 0, I) / (s^ℓ Π α_k^ℓ).
//
// The mean of log p̂_θ(x) is the evidence lower bound (ELBO), which training maximises. README.md says why this package
// omits the variant of equation 12 (eqn:H_ELBO_simplified).
func (s Sample[T]) LogEstimate() *ad.Var[T] {
	logP := ad.Add(s.logJoint, LogNormal(s.End.Rho))
	return ad.Add(ad.Sub(logP, ad.Add(s.logPrior, LogNormal(s.gamma0))), s.logVolume)
}
