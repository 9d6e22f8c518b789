// Package hvae is the method of the paper: Hamiltonian importance sampling as a
// normalising flow, its unbiased evidence estimator, the bounds that follow from it,
// and the optimisers that climb them.
//
//	Caterini, Doucet, Sejdinovic: Hamiltonian Variational Auto-Encoder, NeurIPS 2018.
//
// Read in this order: target.go (log p(x, z), the potential U and its gradient),
// leapfrog.go (equations 7 to 9), tempering.go (the schedules α), flow.go (their
// composition H and its inverse), his.go (Algorithm 1, the Rao-Blackwellised ELBO),
// importance.go (log p(x) from many draws), optimise.go, random.go.
//
// Everything is a matrix on a tape: z and ρ are [ℓ × B], a column for each of B
// samples; quantities for each sample are rows [1 × B]; step sizes are the paper's ε.
//
// The package imports ad and linalg.
package hvae

import (
	"hvae/ad"
	"hvae/linalg"
)

// A Target is the joint density of a fixed observation x and the latent variable z,
// as the unnormalised posterior p_θ(x, ·) of Algorithm 1.
type Target[T linalg.Float] interface {
	// LogJoint returns log p_θ(x, z) [1×B] for the columns of z [ℓ×B].
	LogJoint(z *ad.Var[T]) *ad.Var[T]
}

// A ClosedForm is a target that knows ∇U without differentiating log p_θ(x, z).
type ClosedForm[T linalg.Float] interface {
	Target[T]
	// PotentialGradient returns ∇U_θ(z|x) = −∇ log p_θ(x, z) [ℓ×B].
	PotentialGradient(z *ad.Var[T]) *ad.Var[T]
}

// PotentialGradient returns the gradient in z of the potential energy
// U_θ(z|x) = −log p_θ(x, z), in closed form where the target has one, else by the
// tape. On the way the tape computes log p_θ(x, z), which is returned too; it is nil
// where the closed form did not need it.
func PotentialGradient[T linalg.Float](target Target[T], z *ad.Var[T]) (gradU, logJoint *ad.Var[T]) {
	if t, ok := target.(ClosedForm[T]); ok {
		return t.PotentialGradient(z), nil
	}
	if !z.Live() {
		z = z.Tape().Leaf(z.Value)
	}
	logJoint = target.LogJoint(z)
	return ad.Neg(ad.Grad(logJoint, z)), logJoint
}

// LogNormal returns log N(x | 0, I) [1×B] for the columns of x [ℓ×B].
func LogNormal[T linalg.Float](x *ad.Var[T]) *ad.Var[T] {
	return ad.AddConst(ad.Scale(squaredNorms(x), -0.5), -T(x.Rows())*linalg.Log2Pi/2)
}

// squaredNorms returns xᵀx for each column x.
func squaredNorms[T linalg.Float](x *ad.Var[T]) *ad.Var[T] {
	return ad.MulSumTo(x, x, 1, x.Cols())
}
