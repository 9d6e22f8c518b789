package model

import (
	"math"
	"math/rand/v2"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
)

// TwoModes is the target that shows what tempering is for (section 2.3): a plane with two
// narrow modes,
//
//	p(x, z) = ½ N(z | −m, s²I) + ½ N(z | m, s²I),   m = (3, 0),   s = ½,
//
// so that log p(x) = 0. The barrier between them is 17 nats high; a momentum of
// temperature one has a kinetic energy of one.
type TwoModes struct{}

const (
	modeAt, modeWidth = 3.0, 0.5
	// The variational prior N(−m, (3/2)²I) lies about one of the modes.
	priorWidth = 1.5
)

// LogJoint implements hvae.Target.
func (TwoModes) LogJoint(z *ad.Var[float64]) *ad.Var[float64] {
	left, right := logNormalAt(z, -modeAt, modeWidth), logNormalAt(z, modeAt, modeWidth)
	mixture := ad.Add(left, ad.Softplus(ad.Sub(right, left))) // log(eˡ + eʳ) = l + log(1 + eʳ⁻ˡ)
	return ad.AddConst(mixture, -math.Ln2)
}

// logNormalAt returns log N(z | (at, 0), width²I) [1×B] for z [2×B].
func logNormalAt(z *ad.Var[float64], at, width float64) *ad.Var[float64] {
	from := ad.Sub(z, z.Tape().Const(linalg.Column(at, 0)))
	return ad.AddConst(hvae.LogNormal(ad.Scale(from, 1/width)), -2*math.Log(width))
}

// DrawTwoModes runs Algorithm 1 on TwoModes with K leapfrog steps of ε = 0.1, from the
// temperature 1/β₀ down to one by fixed tempering, or without tempering for 1/√β₀ = 1. It
// returns draws of log p̂, and how many of them ended in another mode than they began in.
func DrawTwoModes(K int, invSqrtBeta0 float64, draws int, rng *rand.Rand) (logEstimates []float64, changed int) {
	const batch = 500
	var t ad.Tape[float64]
	for len(logEstimates) < draws {
		t.Reset()
		sample := drawTwoModes(&t, TwoModes{}, K, invSqrtBeta0, min(batch, draws-len(logEstimates)), rng)
		logEstimates = append(logEstimates, sample.LogEstimate().Value.Data...)
		for i, z := range sample.End.Z.Value.Row(0) {
			if z*sample.Start.Z.Value.At(0, i) < 0 {
				changed++
			}
		}
	}
	return logEstimates, changed
}

// TwoModesPaths returns the positions z_0 … z_K [2×n] of n draws of the same kind.
func TwoModesPaths(K int, invSqrtBeta0 float64, n int, rng *rand.Rand) []linalg.Matrix[float64] {
	var t ad.Tape[float64]
	var r recorder
	drawTwoModes(&t, &r, K, invSqrtBeta0, n, rng)
	return r.visited
}

// A recorder is TwoModes, and remembers where it was asked: a flow of K ≥ 1 steps takes
// its K+1 gradients at z_0 … z_K.
type recorder struct {
	TwoModes
	visited []linalg.Matrix[float64]
}

func (r *recorder) LogJoint(z *ad.Var[float64]) *ad.Var[float64] {
	r.visited = append(r.visited, z.Value.Clone())
	return r.TwoModes.LogJoint(z)
}

// drawTwoModes runs Algorithm 1 for n columns.
func drawTwoModes(t *ad.Tape[float64], target hvae.Target[float64], K int, invSqrtBeta0 float64, n int, rng *rand.Rand) hvae.Sample[float64] {
	flow := hvae.Flow[float64]{Target: target, K: K}
	epsilon, gamma0 := hvae.Noise(t, rng, 2, n), hvae.Noise(t, rng, 2, n)
	z0 := ad.Add(ad.Scale(epsilon, priorWidth), t.Const(linalg.Column(-modeAt, 0)))
	flow.StepSize = t.Const(linalg.Of(1, 2, []float64{0.1, 0.1}))
	if invSqrtBeta0 != 1 {
		flow.Tempering = hvae.FixedTempering(t.Scalar(invSqrtBeta0), K)
	}
	return hvae.HIS(&flow, z0, logNormalAt(z0, -modeAt, priorWidth), gamma0)
}
