package model

import (
	"context"
	"math"
	"math/rand/v2"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/linalg/random"
)

// TwoModes is a target that shows the effect of tempering (section 2.3). It is a density on the plane with two narrow
// modes,
//
//	p(x, z) = ½ N(z | −m, s²I) + ½ N(z | m, s²I),   m = (3, 0),   s = ½.
//
// Its integral over z is p(x) = 1. The barrier between the modes is about 17 nats high. At temperature 1, the mean
// kinetic energy is only 1 nat, so paths rarely cross it.
var TwoModes hvae.Target[float64] = twoModes{linalg.Column(3.0, 0), linalg.Column(-3.0, 0)}

type twoModes struct{ right, left linalg.Matrix[float64] } // m and −m

// LogJoint implements hvae.Target by log(½eᵘ + ½eᵛ) = v + softplus(u − v) − log 2.
func (m twoModes) LogJoint(z *ad.Var[float64]) *ad.Var[float64] {
	const sd = 0.5
	mode := func(mean linalg.Matrix[float64]) *ad.Var[float64] {
		r := ad.Scale(ad.Sub(z, z.Tape().Const(mean)), 1/sd)
		return ad.AddConst(hvae.LogNormal(r), -2*math.Log(sd))
	}
	u, v := mode(m.right), mode(m.left)
	return ad.AddConst(ad.Add(v, ad.Softplus(ad.Sub(u, v))), -math.Ln2)
}

// A TwoModesFlow holds the settings of Algorithm 1 for the target TwoModes. The variational prior is q⁰ = N(−m,
// PriorSD² I), around the left mode.
type TwoModesFlow struct {
	Tempering    string  `json:"tempering"`      // "none", "fixed", or "untied" with equal α_k
	PriorSD      float64 `json:"prior_sd"`       // standard deviation of q⁰
	MomentumSD   float64 `json:"momentum_sd"`    // s, the standard deviation of ρ₀; only for "untied"
	InvSqrtBeta0 float64 `json:"inv_sqrt_beta0"` // 1/√β₀ = Π 1/α_k; unused if Tempering is "none"
	StepSize     float64 `json:"eps"`            // ε
	K            int     `json:"k"`              // number of leapfrog steps, at least 1
}

// A TwoModesDraw is one draw of Algorithm 1 and its path. The elements of the slices belong to k = 0 … K.
type TwoModesDraw struct {
	LogEstimate float64   // log p̂
	X, Y        []float64 // coordinates of z_k
	Energy      []float64 // H(z_k, ρ_k) − min U in nats, where min U = log π is the potential at a mode
}

// ChangesMode reports whether the draw starts and ends in different modes.
func (d TwoModesDraw) ChangesMode() bool { return d.X[0]*d.X[len(d.X)-1] < 0 }

// Draw returns n draws. If paths is false, the paths have only the elements for k = 0 and k = K. If ctx is done, Draw
// returns ctx.Err().
func (f TwoModesFlow) Draw(ctx context.Context, n int, rng *rand.Rand, paths bool) (draws []TwoModesDraw, err error) {
	var t ad.Tape[float64]
	for len(draws) < n && ctx.Err() == nil {
		t.Reset()
		batch := make([]TwoModesDraw, min(500, n-len(draws)))
		noise := t.Matrix(4, len(batch))
		random.FillNormal(rng, noise)
		epsilon, gamma0 := t.Const(noise.RowRange(0, 2)), t.Const(noise.RowRange(2, 4))
		prior := hvae.DiagonalNormal[float64]{Mean: t.Const(linalg.Column(-3.0, 0)), SD: t.Fill(2, 1, f.PriorSD)}
		flow := &hvae.Flow[float64]{Target: TwoModes, K: f.K, StepSize: t.Fill(1, 2, f.StepSize), Tempering: f.tempering(&t)}
		sample := hvae.HIS(flow, prior, epsilon, gamma0)
		path := []hvae.Phase[float64]{sample.Start, sample.End}
		if paths {
			path = flow.Path(sample.Start)
		}
		for _, phase := range path {
			kinetic := ad.Scale(ad.MulSumTo(phase.Rho, phase.Rho, 1, len(batch)), 0.5)
			z, energy := phase.Z.Value, ad.Sub(kinetic, TwoModes.LogJoint(phase.Z)).Value
			for i := range batch {
				d := &batch[i]
				d.X, d.Y = append(d.X, z.At(0, i)), append(d.Y, z.At(1, i))
				d.Energy = append(d.Energy, energy.At(0, i)-math.Log(math.Pi))
			}
		}
		for i, l := range sample.LogEstimate().Value.Data {
			batch[i].LogEstimate = l
		}
		draws = append(draws, batch...)
	}
	return draws, ctx.Err()
}

func (f TwoModesFlow) tempering(t *ad.Tape[float64]) hvae.Tempering[float64] {
	switch f.Tempering {
	case "fixed":
		return hvae.FixedTempering(f.K, t.Scalar(f.InvSqrtBeta0))
	case "untied":
		return hvae.UntiedTempering(t.Fill(f.K, 1, math.Pow(f.InvSqrtBeta0, -1/float64(f.K))), t.Scalar(f.MomentumSD))
	}
	return hvae.Tempering[float64]{}
}
