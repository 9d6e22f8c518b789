package hvae

import (
	"hvae/ad"
	"hvae/linalg"
)

// A Phase is a point (z, ρ) of phase space for each of B columns.
type Phase[T linalg.Float] struct {
	Z   *ad.Var[T] // position, [ℓ×B]
	Rho *ad.Var[T] // momentum, [ℓ×B]

	// ∇U(z) and log p_θ(x, z) where a leapfrog step has computed them, else nil. The gradient
	// that ends one step begins the next, so K steps take K + 1 gradients and not 2K.
	gradU, logJoint *ad.Var[T]
}

// LogJoint returns log p_θ(x, z) [1×B], evaluating the target only if no leapfrog step has.
func (s Phase[T]) LogJoint(target Target[T]) *ad.Var[T] {
	if s.logJoint != nil {
		return s.logJoint
	}
	return logJointOf(target, s.Z)
}

// Energy returns the Hamiltonian H(z, ρ) = U(z) + ½ρᵀρ [1×B].
func (s Phase[T]) Energy(target Target[T]) *ad.Var[T] {
	return ad.Sub(ad.Scale(squaredNorms(s.Rho), 0.5), s.LogJoint(target))
}

// Leapfrog takes one leapfrog step with a step size for each dimension, ε [1×ℓ]:
//
//	ρ̃  = ρ − ε/2 ⊙ ∇U(z)    (equation 7, eqn:lf1)
//	z′ = z + ε ⊙ ρ̃          (equation 8, eqn:lf2)
//	ρ′ = ρ̃ − ε/2 ⊙ ∇U(z′)   (equation 9, eqn:lf3)
//
// Each line is a shear of phase space, so the step has unit Jacobian.
func Leapfrog[T linalg.Float](target Target[T], epsilon *ad.Var[T], s Phase[T]) Phase[T] {
	return (&Flow[T]{Target: target, K: 1, StepSize: epsilon}).Forward(s)
}

// A stepSize is ε with −ε/2, computed once for all steps that share it: columns [ℓ×1], or
// matrices like z.
type stepSize[T linalg.Float] struct{ epsilon, minusHalf *ad.Var[T] }

func newStepSize[T linalg.Float](epsilon *ad.Var[T]) stepSize[T] {
	return stepSize[T]{epsilon, ad.Scale(epsilon, -0.5)}
}

// leapfrog takes a step from s, where ∇U is known.
func leapfrog[T linalg.Float](target Target[T], e stepSize[T], s Phase[T]) Phase[T] {
	rho := ad.MulAdd(e.minusHalf, s.gradU, s.Rho)
	z := ad.MulAdd(e.epsilon, rho, s.Z)
	gradU, logJoint := PotentialGradient(target, z)
	rho = ad.MulAdd(e.minusHalf, gradU, rho)
	return Phase[T]{Z: z, Rho: rho, gradU: gradU, logJoint: logJoint}
}
