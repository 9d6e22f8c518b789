package model

import (
	"math"
	"math/rand/v2"

	"hvae/ad"
	"hvae/hvae"
	"hvae/hvae/hvaetest"
	"hvae/linalg"
	"hvae/linalg/random"
)

// TwoModes is a target that shows the effect of tempering (section 2.3). It is a density on the plane with two modes,
//
//	p(x, z) = ½ N(z | −m, s²I) + ½ N(z | m, s²I),   m = (3, 0),   s = ½.
//
// Its integral over z is p(x) = 1. The barrier between the modes is about 17 nats high. At temperature 1, the mean
// kinetic energy is only 1 nat, so paths rarely cross the barrier.
var TwoModes = hvaetest.TwoModes{Modes: [2]hvaetest.Mode{
	{Weight: 0.5, Mean: linalg.Column(3.0, 0), SD: 0.5},
	{Weight: 0.5, Mean: linalg.Column(-3.0, 0), SD: 0.5},
}}

// A TwoModesFlow configures Algorithm 1 for TwoModes. Its q⁰ = N(−m, PriorSD² I) is centred on the left mode.
type TwoModesFlow struct {
	Tempering    string  `json:"tempering"`      // "none", "fixed", or "untied" with equal α_k
	PriorSD      float64 `json:"prior_sd"`       // standard deviation of q⁰
	MomentumSD   float64 `json:"momentum_sd"`    // s, the standard deviation of ρ₀; only for "untied"
	InvSqrtBeta0 float64 `json:"inv_sqrt_beta0"` // 1/√β₀ = Π 1/α_k; unused if Tempering is "none"
	StepSize     float64 `json:"eps"`            // ε
	K            int     `json:"k"`              // number of leapfrog steps, at least 1
}

// Draw runs Algorithm 1 on the tape t. It returns the flow and a sample of n draws. They are valid until t is reset.
func (f TwoModesFlow) Draw(t *ad.Tape[float64], n int, rng *rand.Rand) (*hvae.Flow[float64], hvae.Sample[float64]) {
	noise := t.Matrix(4, n)
	random.FillNormal(rng, noise)
	epsilon, gamma0 := t.Const(noise.RowRange(0, 2)), t.Const(noise.RowRange(2, 4))
	prior := hvae.DiagonalNormal[float64]{Mean: t.Const(linalg.Column(-3.0, 0)), SD: t.Fill(2, 1, f.PriorSD)}
	flow := &hvae.Flow[float64]{Target: TwoModes, K: f.K, StepSize: t.Fill(1, 2, f.StepSize)}
	switch f.Tempering {
	case "fixed":
		flow.Tempering = hvae.FixedTempering(f.K, t.Scalar(f.InvSqrtBeta0))
	case "untied":
		alpha := math.Pow(f.InvSqrtBeta0, -1/float64(f.K))
		flow.Tempering = hvae.UntiedTempering(t.Fill(f.K, 1, alpha), t.Scalar(f.MomentumSD))
	}
	return flow, hvae.HIS(flow, prior, epsilon, gamma0)
}
