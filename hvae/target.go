// Package hvae is the method of the paper: Hamiltonian importance sampling as a
// normalising flow, its unbiased evidence estimator, the bounds that follow from it, and
// the training loop that climbs them.
//
//	Caterini, Doucet, Sejdinovic: Hamiltonian Variational Auto-Encoder, NeurIPS 2018.
//
// Read in this order: target.go (log p(x, z), the potential U and its gradient),
// leapfrog.go (a step of the dynamics), tempering.go (the schedules α), flow.go (their
// composition H and its inverse), prior.go and random.go (where a flow starts), his.go
// (Algorithm 1, the Rao-Blackwellised ELBO), importance.go (log p(x) from many draws), then
// ranges.go, trainer.go (Algorithm 2) and optimise.go. Section 2.2 is in chain.go (estimates
// by any Markov chain) and ais.go (annealed importance sampling). The examples are a manual;
// tools to test a target of your own are in hvae/hvaetest.
//
// Everything is a matrix on a tape: z and ρ are [ℓ × B], a column for each of B
// samples; quantities for each sample are rows [1 × B]; step sizes are the paper's ε.
//
// The package imports ad and linalg.
package hvae

import (
	"fmt"

	"hvae/ad"
	"hvae/linalg"
)

// A Target is the joint density of a fixed observation x and the latent variable z,
// as the unnormalised posterior p_θ(x, ·) of Algorithm 1.
type Target[T linalg.Float] interface {
	// LogJoint returns log p_θ(x, z) [1×B] for the columns of z [ℓ×B]. Column j of the
	// result may depend on column j of z alone: the tape's gradient of the sum is then
	// that of each column.
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
		gradU = t.PotentialGradient(z)
		mustBe("the target's potential gradient", gradU, z, z.Rows())
		return gradU, nil
	}
	if !z.Live() {
		z = z.Tape().Leaf(z.Value)
	}
	logJoint = logJointOf(target, z)
	return ad.Neg(ad.Grad(logJoint, z)), logJoint
}

// logJointOf returns log p_θ(x, z) [1×B].
func logJointOf[T linalg.Float](target Target[T], z *ad.Var[T]) *ad.Var[T] {
	l := target.LogJoint(z)
	mustBe("the target's log joint density", l, z, 1)
	return l
}

// mustBe panics unless v has the given number of rows and a column for each of z's.
func mustBe[T linalg.Float](what string, v, z *ad.Var[T], rows int) {
	if want := (linalg.Shape{Rows: rows, Cols: z.Cols()}); v.Value.Shape() != want {
		panic(fmt.Sprintf("hvae: %s is %v for z %v, which needs %v", what, v.Value.Shape(), z.Value.Shape(), want))
	}
}

// LogNormal returns log N(x | 0, I) [1×B] for the columns of x [ℓ×B].
func LogNormal[T linalg.Float](x *ad.Var[T]) *ad.Var[T] {
	return ad.AddConst(ad.Scale(squaredNorms(x), -0.5), -T(x.Rows())*linalg.Log2Pi/2)
}

// squaredNorms returns xᵀx for each column x.
func squaredNorms[T linalg.Float](x *ad.Var[T]) *ad.Var[T] {
	return ad.MulSumTo(x, x, 1, x.Cols())
}
