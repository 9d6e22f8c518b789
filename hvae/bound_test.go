package hvae_test

import (
	"flag"
	"math"
	"slices"
	"testing"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/linalg/random"
)

var long = flag.Bool("long", false, "also run the tests that take seconds, as .ci/run does")

// trained trains params for the given number of steps, each with a batch of n draws, and returns the trainer.
func trained(t *testing.T, params hvae.Params[float64], rate float64, steps, n int, bound hvae.Bound[float64],
) *hvae.Trainer[float64] {
	trainer := hvae.NewTrainer(params, hvae.Adamax[float64]{Rate: rate}, bound)
	for range steps {
		_, err := trainer.Step(t.Context(), hvae.Draws(n))
		noError(t, err)
	}
	return trainer
}

// skewed is the target Π_j N(z_j | 0, 3²) sigmoid(z_j)³ in ten dimensions. By quadrature, log p(x) = −11.15525.
func skewed(z *ad.Var[float64]) *ad.Var[float64] {
	prior := hvae.DiagonalNormal[float64]{Mean: z.Tape().Fill(10, 1, 0), SD: z.Tape().Fill(10, 1, 3)}
	logSigmoids := ad.Neg(ad.SumTo(ad.Softplus(ad.Neg(z)), 1, z.Cols()))
	return ad.Add(prior.LogDensity(z), ad.Scale(logSigmoids, 3))
}

// A flow with a better ELBO can give a worse estimate of the evidence. All flows have K = 3 leapfrog steps and start
// from q⁰ = N(2, 3²I), which is not trained. Training takes 600 iterations with 64 draws of p̂ each. For each trained
// flow, the test computes the ELBO and, over 200 repetitions, the root-mean-square error of estimates from 1,000 draws.
func TestFlowWithTheBestELBOHasTheWorstEvidenceUnlessTrainedByImportanceBound(t *testing.T) {
	if !*long {
		t.Skip("takes seconds; run it with -long")
	}
	const dims, K, truth = 10, 3, -11.15525
	train := func(tempering string, L int) (elbo, rmse float64) {
		var params hvae.Params[float64]
		step := params.Add("step size", linalg.Column(hvae.Unconstrain(0.3, 0, 3)))
		heat := params.Add("temperature", linalg.Column(hvae.Unconstrain(1.2, 1, math.Inf(1))))
		alpha, sd := params.Add("log α", linalg.New[float64](K, 1)), params.Add("log s", linalg.New[float64](1, 1))
		draw := func(b *hvae.Block[float64], L int) *ad.Var[float64] {
			f := &hvae.Flow[float64]{Target: density(skewed), K: K}
			f.StepSize = ad.BroadcastTo(hvae.Constrain(b.Var(step), 0, 3), 1, dims)
			if tempering == "fixed" {
				f.Tempering = hvae.FixedTempering(K, hvae.Constrain(b.Var(heat), 1, math.Inf(1)))
			} else if tempering == "untied" {
				f.Tempering = hvae.UntiedTempering(ad.Exp(b.Var(alpha)), ad.Exp(b.Var(sd)))
			}
			q := hvae.DiagonalNormal[float64]{Mean: b.Tape.Fill(dims, 1, 2), SD: b.Tape.Fill(dims, 1, 3)}
			return hvae.HIS(f, q, b.Noise(dims, L), b.Noise(dims, L)).LogEstimate()
		}
		used := map[string]hvae.Params[float64]{"none": {step}, "fixed": {step, heat}, "untied": {step, alpha, sd}}
		trainer := trained(t, used[tempering], 0.05, 600, 64/L, func(b *hvae.Block[float64]) *ad.Var[float64] {
			return hvae.ImportanceBound(draw(b, L), L)
		})
		logEstimate := func(b *hvae.Block[float64]) *ad.Var[float64] { return draw(b, 1) }
		elbo, logs, err := trainer.Evaluate(t.Context(), hvae.Draws(200_000), 1, logEstimate)
		noError(t, err)
		for draws := range slices.Chunk(logs, 1000) {
			d := hvae.ImportanceEstimate(draws).Log - truth
			rmse += d * d / 200
		}
		return elbo - truth, math.Sqrt(rmse)
	}
	none, noneError := train("none", 1)
	fixed, fixedError := train("fixed", 1)
	untied, untiedError := train("untied", 1)
	weighted, weightedError := train("untied", 16)
	t.Logf("ELBO − log p(x): none %.2f, fixed %.2f, untied %.2f, untied with L = 16 %.2f", none, fixed, untied, weighted)
	t.Logf("error of log p̂: none %.3f, fixed %.3f, untied %.3f, untied with L = 16 %.3f", noneError, fixedError, untiedError, weightedError)
	if !(untied > fixed+2 && untiedError > 1.5*fixedError) {
		t.Error("by the ELBO, the untied flow must have the better ELBO and the larger error")
	}
	if !(weightedError < 0.8*min(noneError, fixedError, untiedError)) {
		t.Error("the flow trained by ImportanceBound must have the smallest error")
	}
}

// Where q⁰ fits the posterior, as in logistic regression, training with several draws costs precision. Where it does
// not, as for the eight schools, draws help after training with the ELBO. The standard errors are of estimates from
// 20,000 draws. All trainings take 1,000 steps with 64 draws.
func TestImportanceBoundHelpsWhereThePriorDoesNotFit(t *testing.T) {
	if !*long {
		t.Skip("takes seconds; run it with -long")
	}
	rng, regression := random.Stream(1, "logistic"), logistic{linalg.New[float64](200, 6), linalg.New[float64](200, 1)}
	random.FillNormal(rng, regression.X)
	for i := range regression.y.Data {
		if rng.Float64() < 1/(1+math.Exp(-regression.X.At(i, 0)-regression.X.At(i, 1))) {
			regression.y.Data[i] = 1
		}
	}
	standardError := func(target hvae.Target[float64], dims int, Ls ...int) float64 {
		var params hvae.Params[float64]
		mean, logSD := params.Add("mean", linalg.New[float64](dims, 1)), params.Add("log sd", linalg.New[float64](dims, 1))
		below := params.Add("below", linalg.New[float64](dims, dims))
		bound := func(L int) hvae.Bound[float64] {
			return func(b *hvae.Block[float64]) *ad.Var[float64] {
				q := hvae.Normal[float64]{Mean: b.Var(mean), SD: ad.Exp(b.Var(logSD)), Below: b.Var(below)}
				sample := hvae.HIS(&hvae.Flow[float64]{Target: target}, q, b.Noise(dims, L), b.Noise(dims, L))
				return hvae.ImportanceBound(sample.LogEstimate(), L)
			}
		}
		for _, L := range Ls {
			trained(t, params, 0.02, 1000/len(Ls), 64/L, bound(L))
		}
		e, err := new(hvae.Evaluator[float64]).Evidence(t.Context(), 20_000, 1, bound(1))
		noError(t, err)
		return e.StandardError
	}
	var fits, differs [3]float64
	for i, Ls := range [][]int{{1}, {1, 8}, {8}} {
		fits[i], differs[i] = standardError(regression, 6, Ls...), standardError(eightSchools{}, 10, Ls...)
	}
	t.Logf("ELBO, then 8 draws, only 8 draws: logistic regression %.4f, eight schools %.4f", fits, differs)
	if !(1.5*fits[0] < fits[1] && 1.5*fits[1] < fits[2]) {
		t.Error("for logistic regression, the ELBO must give the smallest standard error, and 8 draws the largest")
	}
	if !(differs[1] < 0.6*differs[0] && differs[1] < 0.9*differs[2]) {
		t.Error("for the eight schools, the ELBO and then 8 draws must give the smallest standard error")
	}
}
