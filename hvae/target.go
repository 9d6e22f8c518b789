// Package hvae implements the Hamiltonian variational auto-encoder: Hamiltonian importance
// sampling as a normalising flow, its unbiased estimate of the evidence, bounds of the
// evidence, and training.
//
//	Caterini, Doucet, Sejdinovic: Hamiltonian Variational Auto-Encoder, NeurIPS 2018.
//
// Start with the examples in example_test.go: ExampleHIS estimates an evidence (Algorithm 1),
// ExampleTrainer trains a flow (Algorithm 2), ExampleTrainer_Minibatches trains a variational
// auto-encoder, and ExampleTrainer_Restore continues an interrupted run. ExampleAIS
// (ais_test.go) computes a lower and an upper bound. Package hvaetest tests targets and flows.
//
// All variables are matrices on a tape (package ad), and their columns are samples. For B
// samples in ℓ dimensions, z and ρ are [ℓ×B], densities are rows [1×B], and step sizes are a
// row [1×ℓ]. Misuse panics; a bound that is not finite is an error.
//
// Read the source in this order: target.go, leapfrog.go, tempering.go, flow.go, prior.go,
// his.go (Algorithm 1), importance.go, params.go, trainer.go (Algorithm 2),
// optimise.go, and ais.go (section 2.2). The package imports ad, linalg and linalg/random.
package hvae

import (
	"fmt"

	"hvae/ad"
	"hvae/linalg"
)

// A Target is a joint density p_θ(x, ·), the unnormalised posterior of Algorithm 1.
type Target[T linalg.Float] interface {
	// LogJoint returns log p_θ(x, z) [1×B] for the columns of z [ℓ×B]. Column j of the result
	// must depend only on column j of z, because the gradient of the sum over all columns
	// serves as the gradient of each column.
	LogJoint(z *ad.Var[T]) *ad.Var[T]
}

// A ClosedForm is a target with ∇U in closed form. Then only training differentiates.
type ClosedForm[T linalg.Float] interface {
	Target[T]
	// PotentialGradient returns ∇U_θ(z|x) = −∇ log p_θ(x, z) [ℓ×B].
	PotentialGradient(z *ad.Var[T]) *ad.Var[T]
}

// PotentialGradient returns the gradient [ℓ×B] of the potential U_θ(z|x) = −log p_θ(x, z). For
// a ClosedForm, logJoint is nil. For other targets, PotentialGradient differentiates
// log p_θ(x, z) and also returns it as logJoint [1×B].
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

// logJointOf returns log p_θ(x, z) [1×B]. It panics if the target returns another shape.
func logJointOf[T linalg.Float](target Target[T], z *ad.Var[T]) *ad.Var[T] {
	l := target.LogJoint(z)
	mustBe("the target's log joint density", l, z, 1)
	return l
}

// mustBe panics unless v is [rows×B] for z [ℓ×B].
func mustBe[T linalg.Float](name string, v, z *ad.Var[T], rows int) {
	if want := (linalg.Shape{Rows: rows, Cols: z.Cols()}); v.Value.Shape() != want {
		panic(fmt.Sprintf("hvae: %s is %v for z %v; it must be %v", name, v.Value.Shape(), z.Value.Shape(), want))
	}
}

// LogNormal returns log N(x | 0, I) [1×B] for the columns of x [ℓ×B].
func LogNormal[T linalg.Float](x *ad.Var[T]) *ad.Var[T] {
	return ad.AddConst(ad.Scale(squaredNorms(x), -0.5), -T(x.Rows())*linalg.Log2Pi/2)
}

// squaredNorms returns xᵀx [1×B] for the columns of x [ℓ×B].
func squaredNorms[T linalg.Float](x *ad.Var[T]) *ad.Var[T] { return ad.MulSumTo(x, x, 1, x.Cols()) }
