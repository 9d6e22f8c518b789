package hvae_test

import (
	"context"
	"math"
	"slices"
	"testing"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
)

// skewed is the target Π_j N(z_j | 0, 3²) sigmoid(z_j)³ in ten dimensions.
type skewed struct{}

// logEvidence is log p(x) of skewed by quadrature.
func (skewed) logEvidence() float64 {
	sum, h := 0.0, 0.01
	for z := -40.0; z < 40; z += h {
		sum += h * math.Exp(logNormal(z, 0, 3)) / math.Pow(1+math.Exp(-z), 3)
	}
	return 10 * math.Log(sum)
}

func (skewed) LogJoint(z *ad.Var[float64]) *ad.Var[float64] {
	prior := hvae.DiagonalNormal[float64]{Mean: z.Tape().Fill(10, 1, 0), SD: z.Tape().Fill(10, 1, 3)}
	logSigmoids := ad.Neg(ad.SumTo(ad.Softplus(ad.Neg(z)), 1, z.Cols()))
	return ad.Add(prior.LogDensity(z), ad.Scale(logSigmoids, 3))
}

// The better ELBO can belong to the worse estimate of the evidence. All flows of K = 3 steps start from q⁰ = N(2, 3²I),
// which is not trained, and every training takes 600 steps with 64 draws of p̂ each. For each trained flow, the test
// computes the ELBO and the root mean square error of log p̂ from 1,000 draws, over 200 repetitions.
func TestFlowWithTheBestELBOHasTheWorstEvidenceUnlessTrainedByImportanceBound(t *testing.T) {
	const dims, K = 10, 3
	truth := skewed{}.logEvidence()
	train := func(tempering string, L int) (elbo, rmse float64) {
		var params hvae.Params[float64]
		step := params.Add("step size", linalg.Column(hvae.Unconstrain(0.3, 0, 3)))
		heat := params.Add("temperature", linalg.Column(hvae.Unconstrain(1.2, 1, math.Inf(1))))
		alpha, sd := params.Add("log α", linalg.New[float64](K, 1)), params.Add("log s", linalg.New[float64](1, 1))
		draw := func(b *hvae.Block[float64], L int) *ad.Var[float64] {
			f := &hvae.Flow[float64]{Target: skewed{}, K: K}
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
		trainer := hvae.NewTrainer(used[tempering], &hvae.Adamax[float64]{Rate: 0.05}, func(b *hvae.Block[float64]) *ad.Var[float64] {
			return hvae.ImportanceBound(draw(b, L), L)
		})
		for range 600 {
			if _, err := trainer.Step(context.Background(), hvae.Draws(64/L)); err != nil {
				t.Fatal(err)
			}
		}
		elbo, logs, err := trainer.Evaluate(context.Background(), hvae.Draws(200_000), 1, func(b *hvae.Block[float64]) *ad.Var[float64] {
			return draw(b, 1)
		})
		if err != nil {
			t.Fatal(err)
		}
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
