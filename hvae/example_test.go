package hvae_test

import (
	"fmt"
	"math"

	"hvae/ad"
	"hvae/hvae"
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
	noise := func() *ad.Var[float64] {
		m := tape.Matrix(1, n)
		hvae.FillNormal(rng, m)
		return tape.Const(m)
	}
	flow := &hvae.Flow[float64]{
		Target:    twoModes{},
		K:         10,
		StepSize:  tape.Fill(1, 1, 0.2),
		Tempering: hvae.FixedTempering(tape.Scalar(2.5), 10), // 1/√β₀ = 2.5
	}
	z0 := noise()
	sample := hvae.HIS(flow, z0, hvae.LogNormal(z0), noise())

	logEvidence, se := hvae.ImportanceEstimate(sample.LogEstimate().Value.Data)
	fmt.Printf("log p(x) = %.2f ± %.2f\n", logEvidence, se)
	fmt.Printf("ELBO     = %.2f\n", ad.Mean(sample.ELBO()).Scalar())
	// Output:
	// log p(x) = -3.02 ± 0.03
	// ELBO     = -4.71
}
