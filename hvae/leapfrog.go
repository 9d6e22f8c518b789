package hvae

import (
	"hvae/ad"
	"hvae/linalg"
)

// A Phase is a point (z, ρ) of phase space for each of B columns.
type Phase[T linalg.Float] struct {
	Z   *ad.Var[T] // position, [ℓ×B]
	Rho *ad.Var[T] // momentum, [ℓ×B]

	// gradU is ∇U(z), and logJoint is log p_θ(x, z). Each is nil until it is computed. The next
	// leapfrog step reuses gradU, so K steps need K + 1 gradients instead of 2K.
	gradU, logJoint *ad.Var[T]
}

// LogJoint returns log p_θ(x, z) [1×B]. It evaluates the target unless a leapfrog step has
// already computed the value.
func (s Phase[T]) LogJoint(target Target[T]) *ad.Var[T] {
	if s.logJoint != nil {
		return s.logJoint
	}
	return logJointOf(target, s.Z)
}

// Energy returns the Hamiltonian H(z, ρ) = −log p_θ(x, z) + ½ρᵀρ [1×B].
func (s Phase[T]) Energy(target Target[T]) *ad.Var[T] {
	return ad.Sub(ad.Scale(squaredNorms(s.Rho), 0.5), s.LogJoint(target))
}

// Leapfrog returns the phase (z′, ρ′) after one leapfrog step from s = (z, ρ). The step size
// ε [1×ℓ] has one element per dimension:
//
//	ρ̃  = ρ − ε/2 ⊙ ∇U(z)    (equation 7, eqn:lf1)
//	z′ = z + ε ⊙ ρ̃          (equation 8, eqn:lf2)
//	ρ′ = ρ̃ − ε/2 ⊙ ∇U(z′)   (equation 9, eqn:lf3)
//
// Each line is a shear of phase space, so the Jacobian of the step has determinant 1.
func Leapfrog[T linalg.Float](target Target[T], epsilon *ad.Var[T], s Phase[T]) Phase[T] {
	return (&Flow[T]{Target: target, K: 1, StepSize: epsilon}).Forward(s)
}

// A stepSize holds ε and −ε/2, each [ℓ×1] or [ℓ×B]. Steps with the same ε share a stepSize.
type stepSize[T linalg.Float] struct{ epsilon, minusHalf *ad.Var[T] }

// leapfrog returns the phase after one leapfrog step from s. s.gradU must be set.
func leapfrog[T linalg.Float](target Target[T], e stepSize[T], s Phase[T]) Phase[T] {
	rho := ad.MulAdd(e.minusHalf, s.gradU, s.Rho)
	z := ad.MulAdd(e.epsilon, rho, s.Z)
	gradU, logJoint := PotentialGradient(target, z)
	rho = ad.MulAdd(e.minusHalf, gradU, rho)
	return Phase[T]{Z: z, Rho: rho, gradU: gradU, logJoint: logJoint}
}

// recomputedLeapfrog returns leapfrog(f.Target, e, s) and keeps only the result on the tape.
func (f *Flow[T]) recomputedLeapfrog(e stepSize[T], s Phase[T]) Phase[T] {
	if f.program == nil {
		f.program = f.runLeapfrog
	}
	y, n := ad.Recomputed(f.program, s.Z, s.Rho, s.gradU, e.epsilon, e.minusHalf), s.Z.Rows()
	return Phase[T]{Z: ad.RowRange(y, 0, n), Rho: ad.RowRange(y, n, 2*n), gradU: ad.RowRange(y, 2*n, 3*n), logJoint: ad.RowRange(y, 3*n, 3*n+1)}
}

// runLeapfrog takes one leapfrog step. It is the ad.Program that recomputedLeapfrog runs. The result
// [(3ℓ+1)×B] is the stack of z, ρ, ∇U(z) and log p_θ(x, z).
func (f *Flow[T]) runLeapfrog(args []*ad.Var[T]) *ad.Var[T] {
	s := leapfrog(f.Target, stepSize[T]{args[3], args[4]}, Phase[T]{Z: args[0], Rho: args[1], gradU: args[2]})
	return ad.Stack(ad.Stack(s.Z, s.Rho), ad.Stack(s.gradU, s.LogJoint(f.Target)))
}
