package hvae_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"math"
	"reflect"
	"slices"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/linalg/numeric"
	"hvae/linalg/random"
)

// A density is a function that implements Target.
type density func(z *ad.Var[float64]) *ad.Var[float64]

func (f density) LogJoint(z *ad.Var[float64]) *ad.Var[float64] { return f(z) }

// Algorithm 1 estimates the evidence from 10,000 draws, without training. In the model, z is uniform on (−6, 6)², x | z
// ~ N(z, I), and x = 0. The latent variable y is unbounded and determines z. The square contains nearly all of the mass
// of N(z | 0, I), so log p(x) ≈ log 1/144 = −4.970. With Constrain, the result would be wrong.
func ExampleBounded() {
	target := density(func(y *ad.Var[float64]) *ad.Var[float64] {
		z, logJacobian := hvae.Bounded(y, -6, 6)
		return ad.AddConst(ad.Add(hvae.LogNormal(z), logJacobian), -math.Log(144))
	})
	var evaluator hvae.Evaluator[float64] // computes the draws in blocks, on all cores
	e, err := evaluator.Evidence(context.Background(), 10_000, 1, func(b *hvae.Block[float64]) *ad.Var[float64] {
		prior := hvae.DiagonalNormal[float64]{Mean: b.Tape.Fill(2, 1, 0), SD: b.Tape.Fill(2, 1, 0.4)}
		flow := &hvae.Flow[float64]{Target: target, K: 3, StepSize: b.Tape.Fill(1, 2, 0.1)}
		return hvae.HIS(flow, prior, b.Noise(2, 1), b.Noise(2, 1)).LogEstimate()
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("log p(x) = %.3f ± %.3f, ELBO %.3f\n", e.Log, e.StandardError, e.ELBO)
	fmt.Printf("k̂ = %.1f, %.0f effective draws of %d, diverged: %d\n", e.TailShape, e.EffectiveDraws, e.Draws, e.Diverged)
	// Output:
	// log p(x) = -4.969 ± 0.003, ELBO -5.015
	// k̂ = -0.6, 9293 effective draws of 10000, diverged: 0
}

// logistic is Bayesian logistic regression with weights z ~ N(0, I). Row i of X [N×ℓ] has the
// label y_i ∈ {0, 1}, which is 1 with probability sigmoid((Xz)_i).
type logistic struct{ X, y linalg.Matrix[float64] }

func (l logistic) LogJoint(z *ad.Var[float64]) *ad.Var[float64] {
	a := ad.MatMul(z.Tape().Const(l.X), z)
	ones := ad.MulSumTo(z.Tape().Const(l.y), a, 1, z.Cols())
	return ad.Add(ad.Sub(ones, ad.SumTo(ad.Softplus(a), 1, z.Cols())), hvae.LogNormal(z))
}

// smallLogistic has an intercept and a slope. By quadrature, its log evidence is −4.104.
var smallLogistic = logistic{
	X: linalg.Of(6, 2, []float64{1, -2, 1, -1, 1, -0.5, 1, 0.5, 1, 1, 1, 2}),
	y: linalg.Column(0.0, 0, 1, 0, 1, 1),
}

// Algorithm 2 trains the variational prior, the step sizes and the temperature of a flow. The
// trained flow then estimates the log evidence of the target, which is −4.104 by quadrature.
func ExampleTrainer() {
	var params hvae.Params[float64]
	mean, logSD := params.Add("mean", linalg.Column(0.0, 0)), params.Add("log sd", linalg.Column(0.0, 0))
	step := params.Add("step size", linalg.Of(1, 2, []float64{-1, -1}))
	heat := params.Add("temperature", linalg.Column(hvae.Unconstrain(1.2, 1, math.Inf(1))))
	estimate := func(b *hvae.Block[float64]) *ad.Var[float64] { // Algorithm 1
		prior := hvae.DiagonalNormal[float64]{Mean: b.Var(mean), SD: ad.Exp(b.Var(logSD))}
		flow := &hvae.Flow[float64]{Target: smallLogistic, K: 4, StepSize: hvae.Constrain(b.Var(step), 0, 0.5),
			Tempering: hvae.FixedTempering(4, hvae.Constrain(b.Var(heat), 1, math.Inf(1)))}
		return hvae.HIS(flow, prior, b.Noise(2, 1), b.Noise(2, 1)).LogEstimate()
	}
	trainer := hvae.NewTrainer(params, hvae.Adamax[float64]{Rate: 0.02}, estimate)
	for range 500 {
		if _, err := trainer.Step(context.Background(), hvae.Draws(32)); err != nil {
			log.Fatal(err)
		}
	}
	e, _ := trainer.Evidence(context.Background(), 10_000, 1, estimate)
	fmt.Printf("ELBO %.3f, log p(x) = %.3f ± %.3f\n", e.ELBO, e.Log, e.StandardError)
	// Output: ELBO -4.117, log p(x) = -4.102 ± 0.002
}

// ppca is probabilistic principal component analysis of observations x [D×B]: z ~ N(0, I), x | z ~ N(Wz + μ, σ²I).
type ppca struct{ x, W, mu, sigma *ad.Var[float64] }

func (p ppca) LogJoint(z *ad.Var[float64]) *ad.Var[float64] {
	sigmas := ad.BroadcastTo(p.sigma, p.x.Rows(), 1)
	likelihood := hvae.DiagonalNormal[float64]{Mean: ad.Affine(p.W, z, p.mu), SD: sigmas}
	return ad.Add(likelihood.LogDensity(p.x), hvae.LogNormal(z))
}

// This example trains probabilistic PCA on minibatches, as an HVAE with a linear encoder and one leapfrog step. With
// D − 1 latent dimensions, the model can represent any covariance matrix, so the maximum of the mean log-likelihood is
// −½(D log 2π + log det S + D) = −3.77 for the sample covariance S. The ELBO nearly reaches this maximum.
func ExampleTrainer_minibatches() {
	const D, L, N = 3, 2, 200
	x := linalg.New[float64](D, N) // the data
	random.FillNormal(random.Stream(1, "data"), x)
	linalg.MatMul(x, linalg.Of(3, 3, []float64{2, 0, 0, 1, 0.6, 0, -1, 0.3, 0.5}), x.Clone())

	var params hvae.Params[float64]
	W, mu := params.Add("W", linalg.Of(D, L, []float64{0.3, 0, 0, 0.3, 0, 0})), params.Add("mu", linalg.New[float64](D, 1))
	logSigma := params.Add("log sigma", linalg.New[float64](1, 1))
	encoder := params.Add("encoder", linalg.Of(L, D, []float64{0.3, 0, 0, 0, 0.3, 0}))
	offset, spread := params.Add("offset", linalg.New[float64](L, 1)), params.Add("log sd", linalg.New[float64](L, 1))
	step := params.Add("step size", linalg.Of(1, L, []float64{-2, -2}))
	estimate := func(b *hvae.Block[float64]) *ad.Var[float64] {
		x := b.Columns(x)
		prior := hvae.DiagonalNormal[float64]{Mean: ad.Affine(b.Var(encoder), x, b.Var(offset)), SD: ad.Exp(b.Var(spread))}
		target := ppca{x, b.Var(W), b.Var(mu), ad.Exp(b.Var(logSigma))}
		flow := &hvae.Flow[float64]{Target: target, K: 1, StepSize: hvae.Constrain(b.Var(step), 0, 0.5)}
		return hvae.HIS(flow, prior, b.Noise(L, 1), b.Noise(L, 1)).LogEstimate()
	}
	adamax := &hvae.Adamax[float64]{}
	trainer := hvae.NewTrainer(params, adamax, estimate)
	for epoch := range 400 {
		adamax.Rate = 0.05 * (1 - float64(epoch)/400)
		for batch := range slices.Chunk(random.Stream(1, "epoch", epoch).Perm(N), 50) {
			if _, err := trainer.Step(context.Background(), batch); err != nil {
				log.Fatal(err)
			}
		}
	}
	everything := slices.Repeat(random.Stream(1, "everything").Perm(N), 20) // 20 draws for each observation
	elbo, _, _ := trainer.Evaluate(context.Background(), everything, 1, estimate)
	fmt.Printf("ELBO %.2f\n", elbo)
	// Output: ELBO -3.78
}

// All observations x_i | z ~ N(z, 1) share the latent variable z ~ N(0, 1). A bound that uses only the observations of
// its block must multiply their log-likelihood by N/B. In the exact posterior, z has the mean 0.419 and the standard
// deviation 1/√61 = 0.128.
func ExampleBatch() {
	const N = 60
	x := linalg.New[float64](1, N)
	for i := range N {
		x.Data[i] = 0.5 + random.Stream(1, "observation", i).NormFloat64()
	}
	var params hvae.Params[float64]
	mean, logSD := params.Add("mean", linalg.Column(0.0)), params.Add("log sd", linalg.Column(0.0))
	adamax := &hvae.Adamax[float64]{}
	trainer := hvae.NewTrainer(params, adamax, func(b *hvae.Block[float64]) *ad.Var[float64] {
		x := ad.Reshape(b.Columns(x), b.Size, 1)
		target := density(func(z *ad.Var[float64]) *ad.Var[float64] {
			logLikelihood := hvae.LogNormal(ad.Sub(x, z)) // of the block, for each column of z
			return ad.Add(hvae.LogNormal(z), ad.Scale(logLikelihood, N/float64(b.Size)))
		})
		prior := hvae.DiagonalNormal[float64]{Mean: b.Var(mean), SD: ad.Exp(b.Var(logSD))}
		return hvae.HIS(&hvae.Flow[float64]{Target: target}, prior, b.Noise(1, 1), b.Noise(1, 1)).LogEstimate()
	})
	for epoch := range 400 {
		adamax.Rate = 0.05 * (1 - float64(epoch)/400)
		for batch := range slices.Chunk(random.Stream(1, "epoch", epoch).Perm(N), 10) {
			if _, err := trainer.Step(context.Background(), batch); err != nil {
				log.Fatal(err)
			}
		}
	}
	fmt.Printf("z has the mean %.2f and the standard deviation %.2f\n", mean.Value.Data[0], math.Exp(logSD.Value.Data[0]))
	// Output: z has the mean 0.42 and the standard deviation 0.13
}

// A run stops in the middle of an epoch and saves its state. Another process continues the run.
// The result is bit-identical to the result of an uninterrupted run.
func ExampleTrainer_Restore() {
	x := linalg.Of(1, 6, []float64{-3, 1, 2, 4, 0, 5})
	start := func() *hvae.Trainer[float64] { // estimates θ for x ~ N(θ + z, 1)
		var params hvae.Params[float64]
		theta := params.Add("theta", linalg.Column(0.0))
		return hvae.NewTrainer(params, hvae.Adamax[float64]{Rate: 0.1}, func(b *hvae.Block[float64]) *ad.Var[float64] {
			return hvae.LogNormal(ad.Sub(b.Columns(x), ad.Add(b.Var(theta), b.Noise(1, 1))))
		})
	}
	train := func(t *hvae.Trainer[float64], steps int) {
		for step := t.Steps(); step < steps; step++ {
			order := random.Stream(1, "epoch", step/3).Perm(6) // an epoch has three batches
			if _, err := t.Step(context.Background(), order[step%3*2:][:2]); err != nil {
				log.Fatal(err)
			}
		}
	}
	whole, first, second := start(), start(), start() // the second runs in another process
	train(whole, 20)
	train(first, 10)
	file, _ := json.Marshal(first.State())
	var state hvae.State[float64]
	if err := json.Unmarshal(file, &state); err != nil {
		log.Fatal(err)
	}
	if err := second.Restore(state); err != nil {
		log.Fatal(err)
	}
	train(second, 20)
	fmt.Println(reflect.DeepEqual(second.State(), whole.State()))
	// Output: true
}

// eightSchools is a model of eight measured effects y_j with standard errors σ_j (Rubin, 1981; Gelman et al., 2013):
//
//	μ ~ N(0, 5²),   τ ~ half-Cauchy(5),   θ_j ~ N(μ, τ²),   y_j ~ N(θ_j, σ_j²).
//
// Row 0 of its latent variables [10×B] is μ, row 1 is mapped to τ > 0, and the other rows are (θ_j − μ)/τ.
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

// Fit estimates the evidence in one call. The draws z_K, weighted by p̂, then estimate posterior expectations. By
// quadrature, log p(y) = −31.311, E[μ | y] = 4.40 and E[τ | y] = 3.60. ExampleTrainer shows the parts of Fit.
func ExampleFit() {
	fit, err := hvae.Fit(context.Background(), eightSchools{}, 10, hvae.FitOptions{K: 2, Steps: 500, Draws: 10_000})
	if err != nil {
		log.Fatal(err)
	}
	e := fit.Evidence
	fmt.Printf("log p(y) = %.2f ± %.2f, %.0f effective draws of %d\n", e.Log, e.StandardError, e.EffectiveDraws, e.Draws)
	fmt.Printf("by annealed importance sampling %.1f; warning: %q\n", fit.Annealed.Log, fit.Warning)

	var evaluator hvae.Evaluator[float64]
	evaluator.Evaluate(context.Background(), hvae.Draws(1), 1, func(b *hvae.Block[float64]) *ad.Var[float64] {
		s := fit.Draw(b, 20_000)
		logs := s.LogEstimate()
		weights := ad.Exp(ad.AddConst(logs, -numeric.LogSumExp(logs.Value.Data)))
		mu, start := ad.RowRange(s.End.Z, 0, 1), ad.RowRange(s.Start.Z, 0, 1)
		tau, _ := hvae.Bounded(ad.RowRange(s.End.Z, 1, 2), 0, math.Inf(1))
		fmt.Printf("E[μ | y] = %.2f, E[τ | y] = %.2f\n", ad.Dot(weights, mu).Scalar(), ad.Dot(weights, tau).Scalar())
		fmt.Printf("for z₀ ~ q⁰, the mean of μ is %.2f\n", ad.Mean(start).Scalar())
		return hvae.ImportanceBound(logs, 20_000)
	})
	// Output:
	// log p(y) = -31.32 ± 0.01, 6155 effective draws of 10000
	// by annealed importance sampling -31.3; warning: ""
	// E[μ | y] = 4.43, E[τ | y] = 3.61
	// for z₀ ~ q⁰, the mean of μ is 4.44
}
