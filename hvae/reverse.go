package hvae

import (
	"slices"

	"hvae/ad"
	"hvae/linalg"
)

// Inverse returns (z₀, ρ₀) = H⁻¹(z_K, ρ_K). To undo step k, it divides the momentum by α_k and takes a leapfrog step
// with step size −ε. It needs K + 1 evaluations of ∇U, or none if K = 0.
func (f *Flow[T]) Inverse(end Phase[T]) Phase[T] {
	start, _ := f.inverse(end)
	return start
}

// inverse returns (z₀, ρ₀) and log p_θ(x, z_K).
func (f *Flow[T]) inverse(end Phase[T]) (start Phase[T], logJoint *ad.Var[T]) {
	f.check(end)
	if f.K == 0 {
		return end, logJointOf(f.Target, end.Z)
	}
	s := state[T]{Phase: end}
	s.gradU, logJoint = evaluate(f.Target, end.Z)
	for k := f.K; k >= 1; k-- {
		if f.Tempering.alpha != nil {
			s.Rho = ad.Div(s.Rho, row(f.Tempering.alpha, k-1))
		}
		e := stepSizeOf(f.StepSize, k, f.K, s.Z)
		s = leapfrog(f.Target, stepSize[T]{ad.Neg(e.epsilon), ad.Neg(e.minusHalf)}, s, false)
	}
	return s.Phase, logJoint
}

// ReverseHIS runs Algorithm 1 backwards. It returns the sample whose path ends at (z_K, ρ_K) = (z, rho), each [ℓ×B]. If z
// is an exact draw from the posterior p_θ(z|x), such as z ~ p_θ(z) if x ~ p_θ(x|z) is simulated, and ρ_K ~ N(0, I), then
//
//	E[1/p̂_θ(x)] = c/p_θ(x),
//
// where c ≤ 1 is the probability that a draw of HIS ends in the support of the posterior. Therefore −log of a mean of
// 1/p̂_θ(x) is an upper bound on log p_θ(x) in expectation, even if the draws depend on each other.
//
// For normal distributions, the variance of 1/p̂_θ(x) is infinite if, in some direction, (z_K, ρ_K) of HIS has at least
// twice the variance of the posterior and N(0, I). So q⁰ should be narrow here. ReverseHIS misses regions of q⁰ that no
// exact draw reaches.
func ReverseHIS[T linalg.Float](f *Flow[T], prior Density[T], z, rho *ad.Var[T]) Sample[T] {
	mustNotBeNil("ReverseHIS: the variational prior", prior == nil)
	end := Phase[T]{z, rho}
	start, logJoint := f.inverse(end)
	gamma0 := start.Rho
	if s := f.Tempering.momentumSD; s != nil {
		gamma0 = ad.Div(gamma0, row(s, 0))
	}
	return Sample[T]{start, end, gamma0, prior.LogDensity(start.Z), logJoint, f.logVolume(z.Tape(), z.Rows())}
}

// ReverseEstimate returns the estimate −log mean(1/p̂_θ(x)) of log p_θ(x), given log p̂_θ(x) from ReverseHIS or
// AIS.Reverse. Each exact draw z has the given number of adjacent estimates, which differ in their momenta. Their mean
// is computed first, because only different z are independent. In the result, Draws is the number of z, TailShape and
// EffectiveDraws describe their means of 1/p̂_θ(x), and ELBO is an upper bound, too. NaN counts as 1/p̂_θ(x) = 0.
func ReverseEstimate(logEstimates []float64, momenta int) Evidence {
	if momenta < 1 || len(logEstimates)%momenta != 0 {
		misuse("ReverseEstimate: %d estimates do not fit %d momenta for each z", len(logEstimates), momenta)
	}
	var means []float64 // log mean(1/p̂) for each z
	diverged := 0
	for draws := range slices.Chunk(logEstimates, momenta) {
		inverses := make([]float64, momenta)
		for j, l := range draws {
			inverses[j] = -l
		}
		z := ImportanceEstimate(inverses)
		means, diverged = append(means, z.Log), diverged+z.Diverged
	}
	e := ImportanceEstimate(means)
	e.Log, e.ELBO, e.Diverged = -e.Log, -e.ELBO, diverged
	return e
}
