package hvaetest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/linalg/random"
)

// Bimodal is a target with two modes in Dims dimensions:
//
//	p(x, z) = exp(BimodalLogEvidence)·(0.35 N(z | 1, 0.7²I) + 0.65 N(z | −0.8, 0.5²I)).
type Bimodal struct{ Dims int }

// BimodalLogEvidence is log p(x) of the target Bimodal in any number of dimensions.
const BimodalLogEvidence = -1.3

// LogJoint implements hvae.Target. It adds the weighted densities eᵘ and eᵛ of the modes in the log
// domain: log(eᵘ + eᵛ) = v + softplus(u − v).
func (b Bimodal) LogJoint(z *ad.Var[float64]) *ad.Var[float64] {
	component := func(mean, sd float64) *ad.Var[float64] {
		r := ad.Scale(ad.AddConst(z, -mean), 1/sd)
		return ad.AddConst(hvae.LogNormal(r), -float64(b.Dims)*math.Log(sd))
	}
	one := ad.AddConst(component(1, 0.7), math.Log(0.35))
	two := ad.AddConst(component(-0.8, 0.5), math.Log(0.65))
	return ad.AddConst(ad.Add(two, ad.Softplus(ad.Sub(one, two))), BimodalLogEvidence)
}

// FillPosterior fills each column of z [Dims×B] with an exact draw from the posterior.
func (b Bimodal) FillPosterior(rng *rand.Rand, z linalg.Matrix[float64]) {
	for j := range z.Cols {
		mean, sd := -0.8, 0.5
		if rng.Float64() < 0.35 {
			mean, sd = 1, 0.7
		}
		for i := range z.Rows {
			z.Row(i)[j] = mean + sd*rng.NormFloat64()
		}
	}
}

// Quadratic is the target with potential U(z) = ½ω²zᵀz in any number ℓ of dimensions. Its
// evidence is (2π/ω²)^(ℓ/2), and its posterior is N(0, ω⁻²I).
type Quadratic struct{ Omega float64 }

// LogJoint implements hvae.Target.
func (q Quadratic) LogJoint(z *ad.Var[float64]) *ad.Var[float64] {
	return ad.Scale(ad.MulSumTo(z, z, 1, z.Cols()), -0.5*q.Omega*q.Omega)
}

// LogEvidence returns log ∫ exp(−U(z)) dz in dims dimensions.
func (q Quadratic) LogEvidence(dims int) float64 {
	return float64(dims) * (linalg.Log2Pi/2 - math.Log(q.Omega))
}

// A Counter is a target that counts evaluations of its density.
type Counter struct {
	hvae.Target[float64]
	Evaluations int
}

// LogJoint implements hvae.Target.
func (c *Counter) LogJoint(z *ad.Var[float64]) *ad.Var[float64] {
	c.Evaluations++
	return c.Target.LogJoint(z)
}

// A ClosedFormCounter is a closed-form target that counts evaluations of its gradient.
type ClosedFormCounter struct {
	hvae.ClosedForm[float64]
	Gradients int
}

// PotentialGradient implements hvae.ClosedForm.
func (c *ClosedFormCounter) PotentialGradient(z *ad.Var[float64]) *ad.Var[float64] {
	c.Gradients++
	return c.ClosedForm.PotentialGradient(z)
}

// LogJointOnly hides the method PotentialGradient of a closed-form target, so that automatic
// differentiation computes the gradient.
type LogJointOnly struct{ hvae.Target[float64] }

// PotentialGradient returns ∇U at z [ℓ] by numerical differentiation of log p(x, z).
func PotentialGradient(target hvae.Target[float64], z []float64) []float64 {
	var t ad.Tape[float64]
	return Gradient(func(z []float64) float64 {
		t.Reset()
		return -target.LogJoint(t.Const(linalg.Column(z...))).Scalar()
	}, z)
}

// TestTarget checks a target in dims dimensions and returns an error that describes the first
// fault. The function bind returns the target on a tape. For three points z near the origin, log
// p(x, z) must be [1×3], and each column must depend only on the same column of z, up to an error of
// 10⁻¹⁰·max(1, |log p(x, z)|). The gradient ∇U, in closed form or from the tape, must agree with
// numerical differentiation.
func TestTarget(bind func(t *ad.Tape[float64]) hvae.Target[float64], dims int) error {
	const columns = 3
	var t, other ad.Tape[float64]
	z := linalg.New[float64](dims, columns)
	random.FillNormal(random.Stream(1, "hvaetest target"), z)
	all, target := t.Leaf(z), bind(&t)
	logJoint := target.LogJoint(all).Value
	if want := (linalg.Shape{Rows: 1, Cols: columns}); logJoint.Shape() != want {
		return fmt.Errorf("for z %v, log p(x, z) is %v, not %v", z.Shape(), logJoint.Shape(), want)
	}
	if c, ok := target.(hvae.ClosedForm[float64]); ok {
		if gradU := c.PotentialGradient(all).Value; gradU.Shape() != z.Shape() {
			return fmt.Errorf("for z %v, ∇U is %v, not %v", z.Shape(), gradU.Shape(), z.Shape())
		}
	}
	gradU, _ := hvae.PotentialGradient(target, all)
	potential := func(z []float64) float64 { // returns U(z) for one column z
		other.Reset()
		return -bind(&other).LogJoint(other.Const(linalg.Column(z...))).Scalar()
	}
	for j := range columns {
		one := make([]float64, dims)
		for i := range one {
			one[i] = z.At(i, j)
		}
		alone := -potential(one)
		if got := logJoint.Data[j]; !(math.Abs(got-alone) <= 1e-10*max(1, math.Abs(alone))) {
			return fmt.Errorf("for z = %[2]v, log p(x, z) is %[1]v among other columns, but %[3]v alone", got, one, alone)
		}
		for i, want := range Gradient(potential, one) {
			if got := gradU.Value.At(i, j); !(math.Abs(got-want) <= 1e-6*max(1, math.Abs(want))) {
				return fmt.Errorf("∂U/∂z_%d is %v at z = %v, but numerical differentiation gives %v", i+1, got, one, want)
			}
		}
	}
	return nil
}

// TestFlow checks a flow in dims dimensions and returns an error that describes the first fault. The
// function bind returns the flow on a tape. At a point of phase space near the origin, Inverse must undo
// Forward, and LogDet must agree with the determinant of the numerical Jacobian.
func TestFlow(bind func(t *ad.Tape[float64]) *hvae.Flow[float64], dims int) error {
	s := linalg.New[float64](2*dims, 1)
	random.FillNormal(random.Stream(1, "hvaetest flow"), s)
	forward := OnTape(dims, func(t *ad.Tape[float64], s hvae.Phase[float64]) hvae.Phase[float64] { return bind(t).Forward(s) })
	inverse := OnTape(dims, func(t *ad.Tape[float64], s hvae.Phase[float64]) hvae.Phase[float64] { return Inverse(bind(t), s) })
	if back := inverse(forward(s.Data)); !(Distance(back, s.Data) <= 1e-8*Norm(s.Data)) {
		return fmt.Errorf("the inverse maps H(z, ρ) to %v, not back to (z, ρ) = %v", back, s.Data)
	}
	var t ad.Tape[float64]
	got, want := bind(&t).LogDet(&t, dims).Scalar(), math.Log(math.Abs(Determinant(Jacobian(forward, s.Data))))
	if !(math.Abs(got-want) <= 1e-6*max(1, math.Abs(want))) {
		return fmt.Errorf("log |det ∇H| is %v, but the numerical Jacobian gives %v", got, want)
	}
	return nil
}
