package model

import (
	"context"
	"math"
	"math/rand/v2"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
)

// TwoModes is a target that shows the effect of tempering (section 2.3), a density on the plane
// with two narrow modes:
//
//	p(x, z) = ½ N(z | −m, s²I) + ½ N(z | m, s²I),   m = (3, 0),   s = ½.
//
// Hence log p(x) = 0. The potential barrier between the modes is 17 nats high, whereas the mean
// kinetic energy at temperature 1 is 1 nat.
type TwoModes struct{}

const (
	modeAt, modeWidth = 3.0, 0.5
	priorWidth        = 1.5 // of the variational prior N(−m, (3/2)²I)
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

// A TwoModesFlow is Algorithm 1 on TwoModes with a variational prior around the left mode.
type TwoModesFlow struct {
	K            int     // number of leapfrog steps, at least 1
	StepSize     float64 // ε
	InvSqrtBeta0 float64 // 1/√β₀; unused if Tempering is "none"
	Tempering    string  // "none", "fixed", or "free" with equal α_k
}

// Draw returns draws of log p̂ and the number of draws whose start and end are in different modes,
// or ctx's error if ctx ends first.
func (f TwoModesFlow) Draw(ctx context.Context, draws int, rng *rand.Rand) (logEstimates []float64, changed int, err error) {
	const batch = 500
	var t ad.Tape[float64]
	for len(logEstimates) < draws {
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		t.Reset()
		flow, noise := f.start(&t, min(batch, draws-len(logEstimates)), rng)
		sample := hvae.HIS(flow, leftPrior{}, noise[0], noise[1])
		logEstimates = append(logEstimates, sample.LogEstimate().Value.Data...)
		for i, z := range sample.End.Z.Value.Row(0) {
			if z*sample.Start.Z.Value.At(0, i) < 0 {
				changed++
			}
		}
	}
	return logEstimates, changed, nil
}

// A TwoModesPath is the path of one draw; its slices have an element for each k = 0 … K.
type TwoModesPath struct {
	X, Y    []float64 // z_k
	H       []float64 // energy U(z_k) + ½‖ρ_k‖² in nats
	InvBeta []float64 // temperature 1/β_k
}

// ChangesMode reports whether the path starts and ends in different modes.
func (p TwoModesPath) ChangesMode() bool { return p.X[0]*p.X[len(p.X)-1] < 0 }

// Paths returns the paths of n draws.
func (f TwoModesFlow) Paths(n int, rng *rand.Rand) []TwoModesPath {
	var t ad.Tape[float64]
	flow, noise := f.start(&t, n, rng)
	start := hvae.HIS(flow, leftPrior{}, noise[0], noise[1]).Start
	invSqrtBeta, alpha := 1.0, []float64(nil)
	if schedule := flow.Tempering.Schedule(f.K); schedule.Alpha != nil {
		invSqrtBeta, alpha = schedule.InvSqrtBeta0.Scalar(), schedule.Alpha.Value.Data
	}
	paths := make([]TwoModesPath, n)
	for k, s := range flow.Path(start) {
		if k > 0 && alpha != nil {
			invSqrtBeta *= alpha[k-1]
		}
		H := s.Energy(flow.Target).Value
		for i := range paths {
			p := &paths[i]
			p.X, p.Y = append(p.X, s.Z.Value.At(0, i)), append(p.Y, s.Z.Value.At(1, i))
			p.H, p.InvBeta = append(p.H, H.At(0, i)), append(p.InvBeta, invSqrtBeta*invSqrtBeta)
		}
	}
	return paths
}

// start returns the flow and the noise of n draws, ε [2×n] and γ₀ [2×n].
func (f TwoModesFlow) start(t *ad.Tape[float64], n int, rng *rand.Rand) (flow *hvae.Flow[float64], noise [2]*ad.Var[float64]) {
	noise = [2]*ad.Var[float64]{hvae.Noise(t, rng, 2, n), hvae.Noise(t, rng, 2, n)}
	flow = &hvae.Flow[float64]{Target: TwoModes{}, K: f.K, StepSize: t.Const(linalg.Of(1, 2, []float64{f.StepSize, f.StepSize}))}
	switch f.Tempering {
	case "fixed":
		flow.Tempering = hvae.FixedTempering(t.Scalar(f.InvSqrtBeta0))
	case "free":
		alpha := linalg.New[float64](f.K, 1)
		alpha.Fill(math.Pow(f.InvSqrtBeta0, -1/float64(f.K)))
		flow.Tempering = hvae.FreeTempering(t.Const(alpha))
	}
	return flow, noise
}

// leftPrior is the variational prior N(−m, (3/2)²I).
type leftPrior struct{}

// Draw implements hvae.Prior.
func (leftPrior) Draw(epsilon *ad.Var[float64]) (z0, logDensity *ad.Var[float64]) {
	z0 = ad.Add(ad.Scale(epsilon, priorWidth), epsilon.Tape().Const(linalg.Column(-modeAt, 0)))
	return z0, logNormalAt(z0, -modeAt, priorWidth)
}
