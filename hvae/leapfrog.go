package hvae

import (
	"hvae/ad"
	"hvae/linalg"
)

// A Phase is a point (z, ρ) of phase space for each sample.
type Phase[T linalg.Float] struct {
	Z   *ad.Var[T] // position, [ℓ×B]
	Rho *ad.Var[T] // momentum, [ℓ×B]

	// What was computed at Z on the way; nil if not yet. The gradient that ends one
	// leapfrog step begins the next, so K steps take K+1 gradients and not 2K.
	gradU, logJoint *ad.Var[T]
}

// LogJoint returns log p_θ(x, z) [1×B] at the phase's position, computing it only if
// the gradient there has not left it behind.
func (s Phase[T]) LogJoint(target Target[T]) *ad.Var[T] {
	if s.logJoint != nil {
		return s.logJoint
	}
	return logJointOf(target, s.Z)
}

// Leapfrog takes one leapfrog step with step sizes ε [ℓ×1], one for each dimension:
//
//	ρ̃  = ρ − ε/2 ⊙ ∇U(z)    (equation 7, eqn:lf1)
//	z′ = z + ε ⊙ ρ̃          (equation 8, eqn:lf2)
//	ρ′ = ρ̃ − ε/2 ⊙ ∇U(z′)   (equation 9, eqn:lf3)
//
// Each line is a shear of phase space, so the step has unit Jacobian.
func Leapfrog[T linalg.Float](target Target[T], epsilon *ad.Var[T], s Phase[T]) Phase[T] {
	return leapfrog(target, newStepSize(epsilon), s)
}

// A stepSize is ε with −ε/2, formed once for all the steps that share it.
type stepSize[T linalg.Float] struct{ epsilon, minusHalf *ad.Var[T] }

func newStepSize[T linalg.Float](epsilon *ad.Var[T]) stepSize[T] {
	return stepSize[T]{epsilon, ad.Scale(epsilon, -0.5)}
}

func leapfrog[T linalg.Float](target Target[T], e stepSize[T], s Phase[T]) Phase[T] {
	if s.gradU == nil {
		s.gradU, _ = PotentialGradient(target, s.Z)
	}
	rho := ad.MulAdd(e.minusHalf, s.gradU, s.Rho)
	z := ad.MulAdd(e.epsilon, rho, s.Z)
	gradU, logJoint := PotentialGradient(target, z)
	rho = ad.MulAdd(e.minusHalf, gradU, rho)
	return Phase[T]{Z: z, Rho: rho, gradU: gradU, logJoint: logJoint}
}

// LeapfrogInverse returns the point that Leapfrog takes to s. Leapfrog is reversible:
// its inverse is itself between two flips of the momentum.
func LeapfrogInverse[T linalg.Float](target Target[T], epsilon *ad.Var[T], s Phase[T]) Phase[T] {
	s.Rho = ad.Neg(s.Rho)
	s = Leapfrog(target, epsilon, s)
	s.Rho = ad.Neg(s.Rho)
	return s
}
