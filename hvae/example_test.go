package hvae_test

import (
	"context"
	"fmt"
	"math"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
)

// twoModes is the joint density p(x, z) = e⁻³·½[N(z | −2, ½²) + N(z | 2, ½²)] of an
// observation and a latent variable in one dimension, so that log p(x) = −3.
type twoModes struct{}

func (twoModes) LogJoint(z *ad.Var[float64]) *ad.Var[float64] {
	mode := func(mean float64) *ad.Var[float64] {
		return ad.AddConst(hvae.LogNormal(ad.Scale(ad.AddConst(z, -mean), 2)), math.Log(2))
	}
	a, b := mode(-2), mode(2)
	return ad.AddConst(ad.Add(b, ad.Softplus(ad.Sub(a, b))), -math.Ln2-3)
}

// Algorithm 1 estimates the evidence of a target with two modes from 10,000 draws of
// N(0, 1): the tape differentiates the density, and tempering lets the flow reach both
// modes.
func ExampleHIS() {
	const n = 10000
	var tape ad.Tape[float64]
	rng := hvae.Stream(1, "example")
	flow := &hvae.Flow[float64]{
		Target:    twoModes{},
		K:         10,
		StepSize:  tape.Fill(1, 1, 0.2),
		Tempering: hvae.FixedTempering(tape.Scalar(2.5), 10), // 1/√β₀ = 2.5
	}
	z0 := hvae.Noise(&tape, rng, 1, n)
	sample := hvae.HIS(flow, z0, hvae.LogNormal(z0), hvae.Noise(&tape, rng, 1, n))

	logEvidence, se := hvae.ImportanceEstimate(sample.LogEstimate().Value.Data)
	fmt.Printf("log p(x) = %.2f ± %.2f\n", logEvidence, se)
	fmt.Printf("ELBO     = %.2f\n", ad.Mean(sample.ELBO()).Scalar())
	// Output:
	// log p(x) = -3.02 ± 0.03
	// ELBO     = -4.71
}

// logistic is Bayesian logistic regression: weights z ~ N(0, I), and of row i of X [N×ℓ]
// a label y_i ∈ {0, 1}, which is 1 with probability sigmoid((Xz)_i).
type logistic struct{ X, y linalg.Matrix[float64] }

func (l logistic) LogJoint(z *ad.Var[float64]) *ad.Var[float64] {
	a := ad.MatMul(z.Tape().Const(l.X), z)
	ones := ad.MulSumTo(z.Tape().Const(l.y), a, 1, z.Cols())
	return ad.Add(ad.Sub(ones, ad.SumTo(ad.Softplus(a), 1, z.Cols())), hvae.LogNormal(z))
}

// Algorithm 2 trains the variational prior, the step sizes and the temperature of a flow
// for a target of one's own. What is learned then estimates the evidence, which is −4.104
// by quadrature.
func ExampleTrainer() {
	target := logistic{
		X: linalg.Of(6, 2, []float64{1, -2, 1, -1, 1, -0.5, 1, 0.5, 1, 1, 1, 2}),
		y: linalg.Column(0.0, 0, 1, 0, 1, 1),
	}
	params := []hvae.Param[float64]{
		{Name: "mean", Value: linalg.Column(0.0, 0)},
		{Name: "log sd", Value: linalg.Column(0.0, 0)},
		{Name: "step size", Value: linalg.Of(1, 2, []float64{-1, -1})},
		{Name: "temperature", Value: linalg.Column(hvae.LogTemperature(1.2))},
	}
	draw := func(b *hvae.Block[float64]) hvae.Sample[float64] {
		prior := hvae.DiagonalNormal[float64]{Mean: b.Params[0], SD: ad.Exp(b.Params[1])}
		z0, logPrior := prior.Draw(hvae.Noise(b.Tape, b.Rng, 2, b.Hi-b.Lo))
		flow := &hvae.Flow[float64]{Target: target, K: 4, StepSize: hvae.StepSize(b.Params[2], 0.5),
			Tempering: hvae.FixedTempering(hvae.InvSqrtBeta0(b.Params[3]), 4)}
		return hvae.HIS(flow, z0, logPrior, hvae.Noise(b.Tape, b.Rng, 2, b.Hi-b.Lo))
	}
	ctx := context.Background()
	trainer := hvae.NewTrainer(params, hvae.NewAdamax(0.02),
		func(b *hvae.Block[float64]) *ad.Var[float64] { return draw(b).ELBO() })
	trainer.Seed = 1
	for range 500 {
		if _, err := trainer.Step(ctx, 32); err != nil { // 32 draws
			panic(err)
		}
	}
	logs, _ := trainer.Evaluate(ctx, 10_000,
		func(b *hvae.Block[float64]) *ad.Var[float64] { return draw(b).LogEstimate() })
	elbo := 0.0
	for _, l := range logs {
		elbo += l / float64(len(logs))
	}
	logEvidence, se := hvae.ImportanceEstimate(logs)
	fmt.Printf("ELBO %.3f, log p(x) = %.3f ± %.3f\n", elbo, logEvidence, se)
	// Output:
	// ELBO -4.118, log p(x) = -4.102 ± 0.002
}

// conjugate is the target z ~ N(0, I), x | z ~ N(z, I) for a point x [ℓ×1]. It knows ∇U
// without a tape, and log p(x) = log N(x | 0, 2I).
type conjugate struct{ x linalg.Matrix[float64] }

func (c conjugate) LogJoint(z *ad.Var[float64]) *ad.Var[float64] {
	return ad.Add(hvae.LogNormal(z), hvae.LogNormal(ad.Sub(z.Tape().Const(c.x), z)))
}

func (c conjugate) PotentialGradient(z *ad.Var[float64]) *ad.Var[float64] {
	return ad.Sub(ad.Scale(z, 2), z.Tape().Const(c.x))
}

// A target that has its gradient in closed form gives it to the leapfrog: nothing is
// differentiated but by training.
func ExampleClosedForm() {
	var tape ad.Tape[float64]
	target := conjugate{linalg.Column(1.0, -2)}
	flow := &hvae.Flow[float64]{Target: target, K: 8, StepSize: tape.Fill(1, 2, 0.15)}
	rng := hvae.Stream(1, "example")
	z0 := hvae.Noise(&tape, rng, 2, 1000)
	sample := hvae.HIS(flow, z0, hvae.LogNormal(z0), hvae.Noise(&tape, rng, 2, 1000))
	logEvidence, se := hvae.ImportanceEstimate(sample.LogEstimate().Value.Data)
	exact := hvae.LogNormal(tape.Const(linalg.Column(1/math.Sqrt2, -2/math.Sqrt2))).Scalar() - math.Ln2
	fmt.Printf("log p(x) = %.3f ± %.3f, exactly %.3f\n", logEvidence, se, exact)
	// Output:
	// log p(x) = -3.825 ± 0.045, exactly -3.781
}

// around is the target N(z | μ, I) with a parameter μ.
type around struct{ mean *ad.Var[float64] }

func (a around) LogJoint(z *ad.Var[float64]) *ad.Var[float64] {
	return hvae.LogNormal(ad.Sub(z, a.mean))
}

// Recompute gives the same gradient from a tape that forgets what lies within leapfrog
// steps. The flow must know the target's parameters, and how to make the target of them on
// the tape where steps run.
func ExampleRecompute() {
	slope := func(recompute bool) (float64, int) {
		var tape, scratch ad.Tape[float64]
		mean := tape.Leaf(linalg.Column(1.0, -2))
		flow := &hvae.Flow[float64]{Target: around{mean}, K: 100, StepSize: tape.Fill(1, 2, 0.05)}
		if recompute {
			flow.Recompute = &hvae.Recompute[float64]{
				Tape:   &scratch,
				Params: []*ad.Var[float64]{mean},
				Target: func(params []*ad.Var[float64]) hvae.Target[float64] { return around{params[0]} },
			}
		}
		rng := hvae.Stream(1, "example")
		z0 := hvae.Noise(&tape, rng, 2, 10)
		elbo := hvae.HIS(flow, z0, hvae.LogNormal(z0), hvae.Noise(&tape, rng, 2, 10)).ELBO()
		kept := tape.Len()
		ad.Backward(elbo, mean)
		return mean.Adjoint().Data[0], kept
	}
	all, n := slope(false)
	again, m := slope(true)
	fmt.Printf("the same gradient: %v, with less than half as much kept: %v\n", all == again, m < n/2)
	// Output:
	// the same gradient: true, with less than half as much kept: true
}
