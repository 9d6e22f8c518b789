package hvae

import (
	"hvae/ad"
	"hvae/linalg"
)

// A Phase holds B points (z, ρ) of phase space, one in each column.
type Phase[T linalg.Float] struct {
	Z   *ad.Var[T] // position, [ℓ×B]
	Rho *ad.Var[T] // momentum, [ℓ×B]
}

// A state holds a Phase and the values of the target at its position z.
type state[T linalg.Float] struct {
	Phase[T]
	gradU    *ad.Var[T] // ∇U(z) [ℓ×B]
	logJoint *ad.Var[T] // log p_θ(x, z) [1×B]; may be nil before the last step of a flow
}

// leapfrog returns the state at (z′, ρ′) after one leapfrog step from (z, ρ):
//
//	ρ̃  = ρ − ε/2 ⊙ ∇U(z)    (equation 7, eqn:lf1)
//	z′ = z + ε ⊙ ρ̃          (equation 8, eqn:lf2)
//	ρ′ = ρ̃ − ε/2 ⊙ ∇U(z′)   (equation 9, eqn:lf3)
//
// Each line is a shear of phase space, so the Jacobian of the step has determinant 1. The step evaluates one gradient
// and, if it is the last step of a flow, log p_θ(x, z′).
func leapfrog[T linalg.Float](target Target[T], e stepSize[T], s state[T], last bool) state[T] {
	s.Rho = ad.MulAdd(e.minusHalf, s.gradU, s.Rho)
	s.Z = ad.MulAdd(e.epsilon, s.Rho, s.Z)
	s.gradU, s.logJoint = evaluate(target, s.Z, last)
	s.Rho = ad.MulAdd(e.minusHalf, s.gradU, s.Rho)
	return s
}

// recomputed is like leapfrog(target, e, s, true), but keeps only one matrix on the tape: the new z, ρ and ∇U(z), with
// ℓ rows each, and log p_θ(x, z), with one row. The backward pass recomputes the rest.
func recomputed[T linalg.Float](target Target[T], e stepSize[T], s state[T]) state[T] {
	n := s.Z.Rows()
	y := ad.Recomputed(func(v []*ad.Var[T]) *ad.Var[T] {
		s := leapfrog(target, stepSize[T]{v[3], v[4]}, state[T]{Phase: Phase[T]{v[0], v[1]}, gradU: v[2]}, true)
		return ad.Stack(ad.Stack(s.Z, s.Rho), ad.Stack(s.gradU, s.logJoint))
	}, s.Z, s.Rho, s.gradU, e.epsilon, e.minusHalf)
	part := func(i int) *ad.Var[T] { return ad.RowRange(y, i*n, min((i+1)*n, y.Rows())) }
	return state[T]{Phase[T]{part(0), part(1)}, part(2), part(3)}
}

// A stepSize holds ε and −ε/2, each [ℓ×1].
type stepSize[T linalg.Float] struct{ epsilon, minusHalf *ad.Var[T] }

// stepSizeOf returns the step size of step k, where 1 ≤ k ≤ K. It panics unless epsilon is [1×ℓ] or [K×ℓ] for z [ℓ×B].
func stepSizeOf[T linalg.Float](epsilon *ad.Var[T], k, K int, z *ad.Var[T]) stepSize[T] {
	mustNotBeNil("the step size", epsilon == nil)
	if epsilon.Rows() == 1 {
		k, K = 1, 1
	}
	e := row(mustBe("the step size", epsilon, K, z.Rows()), k-1)
	return stepSize[T]{e, ad.Scale(e, -0.5)}
}
