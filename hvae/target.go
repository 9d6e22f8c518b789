// Package hvae implements the Hamiltonian variational auto-encoder:
//
//	Caterini, Doucet, Sejdinovic: Hamiltonian Variational Auto-Encoder, NeurIPS 2018.
//
// A flow is a sequence of steps of Hamiltonian dynamics. It moves draws from a simple distribution, the variational
// prior, towards the posterior of a latent variable z, given data x. The flow gives unbiased estimates of the evidence
// p_θ(x) and a lower bound on log p_θ(x). Training maximises this bound. Start with the examples in example_test.go.
// Package hvaetest helps to test targets, flows and priors.
//
// All variables are matrices on a tape (package ad). For B samples in ℓ dimensions, z and the momentum ρ are [ℓ×B], and
// densities are [1×B], with one column per sample. Step sizes are [1×ℓ], or [K×ℓ] for K steps. Functions panic if
// shapes do not match or settings are missing.
//
// Read in this order: target.go, leapfrog.go, tempering.go, flow.go, prior.go, his.go (Algorithm 1), importance.go,
// params.go, blocks.go, trainer.go (Algorithm 2), optimise.go, ais.go (section 2.2), and fit.go, which combines them.
package hvae

import (
	"fmt"

	"hvae/ad"
	"hvae/linalg"
	"hvae/linalg/numeric"
)

// A Target is a joint density p_θ(x, z) as a function of z.
type Target[T linalg.Float] interface {
	// LogJoint returns log p_θ(x, z) [1×B] for the columns of z [ℓ×B], on the tape of z. The target holds x and θ.
	// Column j of the result must depend only on column j of z.
	LogJoint(z *ad.Var[T]) *ad.Var[T]
}

// A ClosedForm is a target with a formula for ∇U. With the formula, only training needs automatic differentiation.
type ClosedForm[T linalg.Float] interface {
	Target[T]
	// PotentialGradient returns ∇U_θ(z|x) = −∇ log p_θ(x, z) [ℓ×B], computed by operations on the tape of z.
	PotentialGradient(z *ad.Var[T]) *ad.Var[T]
}

// PotentialGradient returns the gradient [ℓ×B] of the potential U_θ(z|x) = −log p_θ(x, z) with respect to z.
func PotentialGradient[T linalg.Float](target Target[T], z *ad.Var[T]) *ad.Var[T] {
	gradU, _ := evaluate(target, z, false)
	return gradU
}

// evaluate returns ∇U_θ(z|x) [ℓ×B] and log p_θ(x, z) [1×B]. If the latter is not needed, it may be nil.
func evaluate[T linalg.Float](target Target[T], z *ad.Var[T], logJointNeeded bool) (gradU, logJoint *ad.Var[T]) {
	if t, ok := target.(ClosedForm[T]); ok {
		gradU = mustBe("the target's potential gradient", t.PotentialGradient(z), z.Rows(), z.Cols())
		if logJointNeeded {
			logJoint = logJointOf(target, z)
		}
		return gradU, logJoint
	}
	if !z.Live() { // ad.Grad cannot differentiate with respect to a constant
		z = z.Tape().Leaf(z.Value)
	}
	logJoint = logJointOf(target, z) // a call to LogJoint is enough for both results
	return ad.Neg(ad.Grad(logJoint, z)), logJoint
}

// logJointOf returns log p_θ(x, z) [1×B]. It panics if LogJoint returns any other shape.
func logJointOf[T linalg.Float](target Target[T], z *ad.Var[T]) *ad.Var[T] {
	mustNotBeNil("the target", target == nil)
	return mustBe("the target's log joint density", target.LogJoint(z), 1, z.Cols())
}

// mustBe returns v. It panics unless v is [rows×cols].
func mustBe[T linalg.Float](name string, v *ad.Var[T], rows, cols int) *ad.Var[T] {
	mustNotBeNil(name, v == nil)
	if v.Rows() != rows || v.Cols() != cols {
		misuse("%s is %v; it must be [%d×%d]", name, v.Value.Shape(), rows, cols)
	}
	return v
}

func mustBeAtLeast(name string, value, least int) {
	if value < least {
		misuse("%s is %d; it must be at least %d", name, value, least)
	}
}

func mustNotBeNil(name string, isNil bool) {
	if isNil {
		misuse("%s is nil", name)
	}
}

// misuse panics with a message about incorrect use of this package.
func misuse(format string, args ...any) { panic("hvae: " + fmt.Sprintf(format, args...)) }

// LogNormal returns log N(x | 0, I) [1×B] for the columns of x [ℓ×B].
func LogNormal[T linalg.Float](x *ad.Var[T]) *ad.Var[T] {
	squares := ad.MulSumTo(x, x, 1, x.Cols())
	return ad.AddConst(ad.Scale(squares, -0.5), -T(x.Rows())*numeric.Log2Pi/2)
}

// row returns row k of v as a column [n×1], where n is the number of columns of v.
func row[T linalg.Float](v *ad.Var[T], k int) *ad.Var[T] {
	return ad.Reshape(ad.RowRange(v, k, k+1), v.Cols(), 1)
}
