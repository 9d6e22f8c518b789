package hvaetest

import (
	"math"
	"math/rand/v2"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
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
