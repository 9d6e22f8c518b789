// Package hvaetest checks targets, flows, variational priors and gradients for package hvae. TwoModes, Bimodal and
// Quadratic are targets with known evidence. Read targets.go, check.go and numeric.go, in that order.
package hvaetest

import (
	"math"
	"math/rand/v2"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
)

// TwoModes is a target with two modes in any number ℓ of dimensions. Its evidence is known:
//
//	p(x, z) = exp(LogEvidence)·(w₁ N(z | m₁, s₁²I) + w₂ N(z | m₂, s₂²I)),   w₁ + w₂ = 1.
type TwoModes struct {
	LogEvidence float64 // log p(x)
	Modes       [2]Mode
}

// A Mode is a weighted normal density w·N(z | m, s²I).
type Mode struct {
	Weight float64                // w
	Mean   linalg.Matrix[float64] // m: [ℓ×1], or [1×1] if its elements are equal
	SD     float64                // s
}

// Bimodal is the target of most tests.
var Bimodal = TwoModes{-1.3, [2]Mode{{0.35, linalg.Column(1.0), 0.7}, {0.65, linalg.Column(-0.8), 0.5}}}

// LogJoint returns LogEvidence + log w₂ + v + softplus(u − v + log(w₁/w₂)), where eᵘ and eᵛ are the normal densities.
func (m TwoModes) LogJoint(z *ad.Var[float64]) *ad.Var[float64] {
	component := func(c Mode) *ad.Var[float64] {
		r := ad.Scale(ad.Sub(z, z.Tape().Const(c.Mean)), 1/c.SD)
		return ad.AddConst(hvae.LogNormal(r), -float64(z.Rows())*math.Log(c.SD))
	}
	one, two := component(m.Modes[0]), component(m.Modes[1])
	odds := ad.AddConst(ad.Sub(one, two), math.Log(m.Modes[0].Weight/m.Modes[1].Weight))
	return ad.AddConst(ad.Add(two, ad.Softplus(odds)), math.Log(m.Modes[1].Weight)+m.LogEvidence)
}

// FillPosterior fills each column of z [ℓ×B] with an exact draw from the posterior.
func (m TwoModes) FillPosterior(rng *rand.Rand, z linalg.Matrix[float64]) {
	for j := range z.Cols {
		c := m.Modes[1]
		if rng.Float64() < m.Modes[0].Weight {
			c = m.Modes[0]
		}
		for i := range z.Rows {
			z.Row(i)[j] = c.Mean.At(min(i, c.Mean.Rows-1), 0) + c.SD*rng.NormFloat64()
		}
	}
}

// Quadratic is the target with potential U(z) = ½ω²zᵀz in any number ℓ of dimensions. Its posterior is N(0, ω⁻²I),
// and its evidence is (2π/ω²)^(ℓ/2).
type Quadratic struct{ Omega float64 }

// LogJoint implements hvae.Target.
func (q Quadratic) LogJoint(z *ad.Var[float64]) *ad.Var[float64] {
	return ad.Scale(ad.MulSumTo(z, z, 1, z.Cols()), -0.5*q.Omega*q.Omega)
}
