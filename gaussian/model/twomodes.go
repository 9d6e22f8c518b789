package model

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

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

const (
	modeAt     = 3.0
	priorWidth = 1.5 // of the variational prior N(−m, (3/2)²I)
)

// A TwoModesFlow holds the settings of Algorithm 1 for the target TwoModes. The mean of the
// variational prior is the left mode (−3, 0).
type TwoModesFlow struct {
	K            int     // number of leapfrog steps, at least 1
	StepSize     float64 // ε
	InvSqrtBeta0 float64 // 1/√β₀; unused if Tempering is "none"
	Tempering    string  // "none", "fixed", or "free", which has equal α_k
}

// Draw returns n draws of log p̂, and the number of draws that start and end in different modes. If
// ctx is done, Draw returns ctx.Err().
func (f TwoModesFlow) Draw(ctx context.Context, n int, rng *rand.Rand) (logEstimates []float64, changed int, err error) {
	const batch = 500
	var t ad.Tape[float64]
	for len(logEstimates) < n {
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		t.Reset()
		_, sample := f.sample(&t, min(batch, n-len(logEstimates)), rng)
		logEstimates = append(logEstimates, sample.LogEstimate().Value.Data...)
		for i, z := range sample.End.Z.Value.Row(0) {
			if z*sample.Start.Z.Value.At(0, i) < 0 {
				changed++
			}
		}
	}
	return logEstimates, changed, nil
}

// A TwoModesPath is the path of one draw. Each slice has one element for each of k = 0 … K.
type TwoModesPath struct {
	X, Y    []float64 // z_k
	H       []float64 // energy U(z_k) + ½‖ρ_k‖² in nats
	InvBeta []float64 // temperature 1/β_k
}

// ChangesMode reports whether the start and the end of the path are in different modes.
func (p TwoModesPath) ChangesMode() bool { return p.X[0]*p.X[len(p.X)-1] < 0 }

// Paths returns the paths of n draws.
func (f TwoModesFlow) Paths(n int, rng *rand.Rand) []TwoModesPath {
	var t ad.Tape[float64]
	flow, sample := f.sample(&t, n, rng)
	factors := slices.Repeat([]float64{1}, f.K+1) // 1/√β₀ and α₁ … α_K
	if alpha := flow.Tempering.Alpha(); alpha != nil {
		factors = append([]float64{flow.Tempering.MomentumSD().Scalar()}, alpha.Value.Data...)
	}
	paths, invSqrtBeta := make([]TwoModesPath, n), 1.0
	for k, s := range flow.Path(sample.Start) {
		invSqrtBeta *= factors[k]
		H := s.Energy(flow.Target).Value
		for i := range paths {
			p := &paths[i]
			p.X, p.Y = append(p.X, s.Z.Value.At(0, i)), append(p.Y, s.Z.Value.At(1, i))
			p.H, p.InvBeta = append(p.H, H.At(0, i)), append(p.InvBeta, invSqrtBeta*invSqrtBeta)
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
	}
	prior := hvae.DiagonalNormal[float64]{Mean: t.Const(linalg.Column(-modeAt, 0)), SD: t.Fill(2, 1, priorWidth)}
	return flow, hvae.HIS(flow, prior, epsilon, gamma0)
}
