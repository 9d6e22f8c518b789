package model

import (
	"context"
	"math"
	"math/rand/v2"

	"hvae/ad"
	"hvae/hvae"
	"hvae/hvae/hvaetest"
	"hvae/linalg"
)

// TwoModes is a target that shows the effect of tempering (section 2.3). It is a density on the
// plane with two narrow modes,
//
//	p(x, z) = ½ N(z | −m, s²I) + ½ N(z | m, s²I),   m = (3, 0),   s = ½.
//
// Its integral over z is p(x) = 1. The potential barrier between the modes is 17 nats high. At
// temperature 1, the mean kinetic energy is only 1 nat, so paths rarely cross the barrier.
var TwoModes = hvaetest.TwoModes{Modes: [2]hvaetest.Mode{
	{Weight: 0.5, Mean: linalg.Column(modeAt, 0), SD: 0.5},
	{Weight: 0.5, Mean: linalg.Column(-modeAt, 0), SD: 0.5},
}}

const modeAt = 3.0

// A TwoModesFlow holds the settings of Algorithm 1 for the target TwoModes. The variational prior is
// q⁰ = N(−m, PriorSD² I), around the left mode.
type TwoModesFlow struct {
	Tempering    string  `json:"tempering"`      // "none", "fixed", "free" or "untied"; the last two have equal α_k
	PriorSD      float64 `json:"prior_sd"`       // standard deviation of q⁰
	MomentumSD   float64 `json:"momentum_sd"`    // s, the standard deviation of ρ₀; only for "untied"
	InvSqrtBeta0 float64 `json:"inv_sqrt_beta0"` // 1/√β₀ = Π 1/α_k; unused if Tempering is "none"
	StepSize     float64 `json:"eps"`            // ε
	K            int     `json:"k"`              // number of leapfrog steps, at least 1
}

// A TwoModesDraw is one draw of Algorithm 1.
type TwoModesDraw struct {
	LogEstimate float64    // log p̂
	Start, End  [2]float64 // z₀ and z_K
}

// ChangesMode reports whether the draw starts and ends in different modes.
func (d TwoModesDraw) ChangesMode() bool { return d.Start[0]*d.End[0] < 0 }

// Draw returns n draws. If ctx is done, Draw returns ctx.Err().
func (f TwoModesFlow) Draw(ctx context.Context, n int, rng *rand.Rand) (draws []TwoModesDraw, err error) {
	const batch = 500
	var t ad.Tape[float64]
	for len(draws) < n {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		t.Reset()
		_, s := f.sample(&t, min(batch, n-len(draws)), rng)
		start, end := s.Start.Z.Value, s.End.Z.Value
		for i, l := range s.LogEstimate().Value.Data {
			draws = append(draws, TwoModesDraw{l, [2]float64{start.At(0, i), start.At(1, i)}, [2]float64{end.At(0, i), end.At(1, i)}})
		}
	}
	return draws, nil
}

// A TwoModesPath is the path of one draw. Each slice has one element for each of k = 0 … K.
type TwoModesPath struct {
	X, Y []float64 // z_k
	H    []float64 // energy U(z_k) + ½‖ρ_k‖² in nats
}

// Paths returns the paths of n draws.
func (f TwoModesFlow) Paths(n int, rng *rand.Rand) []TwoModesPath {
	var t ad.Tape[float64]
	flow, sample := f.sample(&t, n, rng)
	paths := make([]TwoModesPath, n)
	for _, s := range flow.Path(sample.Start) {
		H := s.Energy(flow.Target).Value
		for i := range paths {
			p := &paths[i]
			p.X, p.Y, p.H = append(p.X, s.Z.Value.At(0, i)), append(p.Y, s.Z.Value.At(1, i)), append(p.H, H.At(0, i))
		}
	}
	return paths
}

// sample runs Algorithm 1 n times. It returns the flow and the n samples.
func (f TwoModesFlow) sample(t *ad.Tape[float64], n int, rng *rand.Rand) (*hvae.Flow[float64], hvae.Sample[float64]) {
	epsilon, gamma0 := hvae.Noise(t, rng, 2, n), hvae.Noise(t, rng, 2, n)
	flow := &hvae.Flow[float64]{Target: TwoModes, K: f.K, StepSize: t.Fill(1, 2, f.StepSize)}
	switch f.Tempering {
	case "fixed":
		flow.Tempering = hvae.FixedTempering(f.K, t.Scalar(f.InvSqrtBeta0))
	case "free":
		flow.Tempering = hvae.FreeTempering(t.Fill(f.K, 1, math.Pow(f.InvSqrtBeta0, -1/float64(f.K))))
	case "untied":
		flow.Tempering = hvae.UntiedTempering(t.Fill(f.K, 1, math.Pow(f.InvSqrtBeta0, -1/float64(f.K))), t.Scalar(f.MomentumSD))
	}
	prior := hvae.DiagonalNormal[float64]{Mean: t.Const(linalg.Column(-modeAt, 0)), SD: t.Fill(2, 1, f.PriorSD)}
	return flow, hvae.HIS(flow, prior, epsilon, gamma0)
}
