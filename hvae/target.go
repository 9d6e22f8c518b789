// Package hvae implements the method of the paper: Hamiltonian importance sampling as a
// normalising flow, its unbiased estimator of the evidence, the bounds that follow from it,
// and the training loop that climbs them.
//
//	Caterini, Doucet, Sejdinovic: Hamiltonian Variational Auto-Encoder, NeurIPS 2018.
//
// Start with the examples in example_test.go: ExampleHIS estimates an evidence (Algorithm 1),
// ExampleTrainer trains a flow (Algorithm 2), ExampleTrainer_Minibatches is a variational
// auto-encoder, and ExampleTrainer_Restore continues an interrupted run. ExampleAIS
// (ais_test.go) encloses an evidence between two bounds, and package hvaetest tests targets.
//
// Everything is a matrix on a tape (package ad) whose columns are samples: z and ρ are [ℓ×B]
// for B samples of ℓ dimensions, a quantity of each sample is a row [1×B], and step sizes are
// a row [1×ℓ]. Misuse panics; a bound that is not finite is an error.
//
// Read the source in this order: target.go, leapfrog.go, tempering.go, flow.go, prior.go,
// random.go, his.go (Algorithm 1), importance.go, params.go, trainer.go (Algorithm 2),
// optimise.go, and for section 2.2 chain.go and ais.go. The package imports ad and linalg.
package hvae

import (
	"fmt"

	"hvae/ad"
	"hvae/linalg"
)

// A Target is a joint density p_θ(x, ·): the unnormalised posterior of Algorithm 1.
type Target[T linalg.Float] interface {
	// LogJoint returns log p_θ(x, z) [1×B] for the columns of z [ℓ×B]. Column j must depend
	// on column j of z only: their gradients are computed as the gradient of the sum.
	LogJoint(z *ad.Var[T]) *ad.Var[T]
}

// A ClosedForm is a target with ∇U in closed form, so that only training differentiates.
type ClosedForm[T linalg.Float] interface {
	Target[T]
	// PotentialGradient returns ∇U_θ(z|x) = −∇ log p_θ(x, z) [ℓ×B].
	PotentialGradient(z *ad.Var[T]) *ad.Var[T]
}

// PotentialGradient returns the gradient [ℓ×B] of the potential U_θ(z|x) = −log p_θ(x, z): in
// closed form if the target has one (logJoint is nil then), else by differentiating
// log p_θ(x, z) [1×B], which it also returns.
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

// mustBe panics unless v has the given number of rows and as many columns as z.
func mustBe[T linalg.Float](what string, v, z *ad.Var[T], rows int) {
	if want := (linalg.Shape{Rows: rows, Cols: z.Cols()}); v.Value.Shape() != want {
		panic(fmt.Sprintf("hvae: %s is %v for z %v, which needs %v", what, v.Value.Shape(), z.Value.Shape(), want))
	}
}

// LogNormal returns log N(x | 0, I) [1×B] for the columns of x [ℓ×B].
func LogNormal[T linalg.Float](x *ad.Var[T]) *ad.Var[T] {
	return ad.AddConst(ad.Scale(squaredNorms(x), -0.5), -T(x.Rows())*linalg.Log2Pi/2)
}

// squaredNorms returns xᵀx [1×B] for the columns x.
func squaredNorms[T linalg.Float](x *ad.Var[T]) *ad.Var[T] {
	return ad.MulSumTo(x, x, 1, x.Cols())
}
