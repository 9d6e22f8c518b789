package ad_test

import (
	"fmt"
	"math"

	"hvae/ad"
	"hvae/linalg"
)

// This example differentiates a leapfrog step for the potential U(z) = z⁴/4 with respect to the step size ε. The new
// momentum ρ′ depends on ∇U(z′), so its derivative contains the second derivative of U.
func ExampleGrad() {
	var tape ad.Tape[float64]
	gradU := func(z *ad.Var[float64]) *ad.Var[float64] { return ad.Grad(ad.Scale(ad.Square(ad.Square(z)), 0.25), z) }
	z, rho, epsilon := tape.Leaf(linalg.Column(1.5)), tape.Leaf(linalg.Column(-0.4)), tape.Leaf(linalg.Column(0.1))
	minusHalf := ad.Scale(epsilon, -0.5)
	half := ad.MulAdd(minusHalf, gradU(z), rho)   // ρ̃ = ρ − ε/2·∇U(z)
	z1 := ad.MulAdd(epsilon, half, z)             // z′ = z + ε·ρ̃
	rho1 := ad.MulAdd(minusHalf, gradU(z1), half) // ρ′ = ρ̃ − ε/2·∇U(z′)
	dz, drho := ad.Grad(z1, epsilon).Scalar(), ad.Grad(rho1, epsilon).Scalar()

	cube := func(x float64) float64 { return x * x * x }
	byHand := -0.4 - 0.1*cube(1.5) // ∂z′/∂ε = ρ − ε·z³, and U″(z′) = 3z′²
	fmt.Printf("∂z′/∂ε = %.6f, by hand %.6f\n", dz, byHand)
	x := z1.Scalar()
	fmt.Printf("∂ρ′/∂ε = %.6f, by hand %.6f\n", drho, -cube(1.5)/2-cube(x)/2-0.1/2*3*x*x*byHand)
	// Output:
	// ∂z′/∂ε = -0.737500, by hand -0.737500
	// ∂ρ′/∂ε = -2.959844, by hand -2.959844
}

// sin returns y = sin a, an operation that package ad does not provide.
func sin(a *ad.Var[float64]) *ad.Var[float64] {
	y := a.Tape().Result(a.Rows(), a.Cols())
	for i, x := range a.Value.Data {
		y.Value.Data[i] = math.Sin(x)
	}
	return a.Tape().Record(y, sinRule{}, a)
}

// sinRule computes the adjoint ā = ȳ ⊙ cos a, where cos a = sin(a + π/2). Accumulate copies the contribution or adds it
// to earlier contributions, so a rule need not manage memory.
type sinRule struct{}

func (sinRule) Pull(s *ad.Sweep[float64], y, ybar *ad.Var[float64]) {
	a := y.Operands()[0]
	s.Accumulate(a, ad.Mul(ybar, sin(ad.AddConst(a, math.Pi/2))))
}

// A new operation can be differentiated to any order, because its differentiation rule is itself built from operations.
func ExampleRule() {
	var tape ad.Tape[float64]
	x := tape.Leaf(linalg.Column(1.0))
	y := sin(x)
	slope := ad.Grad(y, x)
	fmt.Printf("sin 1 = %.4f, cos 1 = %.4f, −sin 1 = %.4f\n", y.Scalar(), slope.Scalar(), ad.Grad(slope, x).Scalar())
	// Output: sin 1 = 0.8415, cos 1 = 0.5403, −sin 1 = -0.8415
}

func ExampleRepeat() {
	var t ad.Tape[float64]
	x := t.Const(linalg.Of(2, 2, []float64{1, 2, 3, 4}))
	y := ad.Repeat(x, 3).Value
	fmt.Println(y.Row(0))
	fmt.Println(y.Row(1))
	// Output:
	// [1 1 1 2 2 2]
	// [3 3 3 4 4 4]
}
