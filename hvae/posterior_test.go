package hvae_test

import (
	"context"
	"fmt"
	"log"
	"math"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
)

// eightSchools is the target of eight measured effects y_j with standard errors σ_j (Rubin, 1981; Gelman et al., 2013):
//
//	μ ~ N(0, 5²),   τ ~ half-Cauchy(5),   θ_j ~ N(μ, τ²),   y_j ~ N(θ_j, σ_j²).
//
// Its latent variables [10×B] are μ, an element of ℝ that is mapped to τ > 0, and (θ_j − μ)/τ.
type eightSchools struct{}

func (eightSchools) LogJoint(z *ad.Var[float64]) *ad.Var[float64] {
	t := z.Tape()
	y, sigma := linalg.Column(28.0, 8, -3, 7, -1, 1, 18, 12), linalg.Column(15.0, 10, 16, 11, 9, 11, 10, 18)
	mu, eta := ad.RowRange(z, 0, 1), ad.RowRange(z, 2, 10)
	tau, logJacobian := hvae.Bounded(ad.RowRange(z, 1, 2), 0, math.Inf(1))

	logMu := hvae.DiagonalNormal[float64]{Mean: t.Scalar(0), SD: t.Scalar(5)}.LogDensity(mu)
	logTau := ad.AddConst(ad.Neg(ad.Log(ad.AddConst(ad.Square(ad.Scale(tau, 0.2)), 1))), math.Log(0.4/math.Pi))
	likelihood := hvae.DiagonalNormal[float64]{Mean: ad.MulAdd(tau, eta, mu), SD: t.Const(sigma)}
	logPrior := ad.Add(ad.Add(logMu, ad.Add(logTau, logJacobian)), hvae.LogNormal(eta))
	return ad.Add(logPrior, likelihood.LogDensity(t.Const(y)))
}

// Each draw z_K, weighted by its p̂, is a draw from the posterior. The weighted means of the draws are posterior
// expectations. By quadrature, log p(y) = −31.311, E[μ | y] = 4.40 and E[τ | y] = 3.60.
func ExampleSample() {
	const dims, K, draws = 10, 2, 20_000
	var params hvae.Params[float64]
	mean, logSD := params.Add("mean", linalg.New[float64](dims, 1)), params.Add("log sd", linalg.New[float64](dims, 1))
	step := params.Add("step size", linalg.New[float64](1, dims))
	alpha, momentumSD := params.Add("log α", linalg.New[float64](K, 1)), params.Add("log s", linalg.New[float64](1, 1))
	draw := func(b *hvae.Block[float64], L int) hvae.Sample[float64] {
		prior := hvae.DiagonalNormal[float64]{Mean: b.Var(mean), SD: ad.Exp(b.Var(logSD))}
		flow := &hvae.Flow[float64]{Target: eightSchools{}, K: K, StepSize: hvae.Constrain(b.Var(step), 0, 0.5),
			Tempering: hvae.UntiedTempering(ad.Exp(b.Var(alpha)), ad.Exp(b.Var(momentumSD)))}
		return hvae.HIS(flow, prior, b.Noise(dims, L), b.Noise(dims, L))
	}
	bound := func(b *hvae.Block[float64]) *ad.Var[float64] {
		return hvae.ImportanceBound(draw(b, 8).LogEstimate(), 8)
	}
	trainer := hvae.NewTrainer(params, &hvae.Adamax[float64]{Rate: 0.02}, bound)
	for range 1000 {
		if _, err := trainer.Step(context.Background(), hvae.Draws(4)); err != nil {
			log.Fatal(err)
		}
	}
	logs, mu, tau := make([]float64, draws), make([]float64, draws), make([]float64, draws)
	trainer.Each(context.Background(), hvae.Draws(draws), 1, func(b *hvae.Block[float64]) {
		s := draw(b, 1)
		copy(logs[b.First:], s.LogEstimate().Value.Data) // b.First is the position of the block's first draw
		copy(mu[b.First:], s.End.Z.Value.Row(0))
		v, _ := hvae.Bounded(ad.RowRange(s.End.Z, 1, 2), 0, math.Inf(1))
		copy(tau[b.First:], v.Value.Data)
	})
	e, total := hvae.ImportanceEstimate(logs), linalg.LogSumExp(logs)
	expectation := func(values []float64) (mean, se float64) {
		for i, v := range values {
			mean += math.Exp(logs[i]-total) * v
		}
		for i, v := range values {
			se = math.Hypot(se, math.Exp(logs[i]-total)*(v-mean))
		}
		return mean, se
	}
	fmt.Printf("log p(y) = %.2f ± %.2f, effective draws %.0f\n", e.Log, e.StandardError, e.EffectiveDraws)
	mean1, se1 := expectation(mu)
	mean2, se2 := expectation(tau)
	fmt.Printf("E[μ | y] = %.2f ± %.2f, E[τ | y] = %.2f ± %.2f\n", mean1, se1, mean2, se2)
	// Output:
	// log p(y) = -31.31 ± 0.01, effective draws 9405
	// E[μ | y] = 4.35 ± 0.03, E[τ | y] = 3.66 ± 0.04
}
