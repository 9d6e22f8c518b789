package hvae_test

import (
	"context"
	"fmt"
	"log"
	"math"
	"testing"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/linalg/random"
)

// logNormal returns log N(z | mean, sd²).
func logNormal(z, mean, sd float64) float64 {
	return -(z-mean)*(z-mean)/(2*sd*sd) - math.Log(sd*math.Sqrt(2*math.Pi))
}

// Mean and SD may be [ℓ×1] or [ℓ×B]. (hvaetest.TestPrior checks the density.)
func TestDiagonalNormalAcceptsColumnsOfMeansAndStandardDeviations(t *testing.T) {
	var tape ad.Tape[float64]
	mean, sd := tape.Const(linalg.Column(0.3, -2)), tape.Const(linalg.Column(0.5, 3))
	means, sds := ad.BroadcastTo(mean, 2, 3), ad.BroadcastTo(sd, 2, 3)
	epsilon := tape.Const(linalg.Of(2, 3, []float64{0, 1, -0.7, 0.2, -1, 2}))
	for _, q := range []hvae.DiagonalNormal[float64]{{mean, sd}, {mean, sds}, {means, sd}, {means, sds}} {
		z, logPrior := q.Draw(epsilon)
		for j, got := range logPrior.Value.Data {
			x, y := z.Value.At(0, j), z.Value.At(1, j)
			if want := logNormal(x, 0.3, 0.5) + logNormal(y, -2, 3); !(math.Abs(got-want) <= 1e-14) {
				t.Errorf("mean %v, SD %v: log q⁰ of (%v, %v) is %v, want %v", q.Mean.Value, q.SD.Value, x, y, got, want)
			}
		}
	}
}

// regression is the target of a Gaussian process: values z ~ N(0, CCᵀ), observations y ~ N(z, 0.3²I).
type regression struct{ factor, y linalg.Matrix[float64] } // C and y

func (r regression) LogJoint(z *ad.Var[float64]) *ad.Var[float64] {
	t := z.Tape()
	prior := hvae.Normal[float64]{Mean: t.Fill(z.Rows(), 1, 0), Factor: t.Const(r.factor)}
	likelihood := hvae.DiagonalNormal[float64]{Mean: z, SD: t.Fill(z.Rows(), 1, 0.3)}
	return ad.Add(prior.LogDensity(z), likelihood.LogDensity(t.Const(r.y)))
}

// The elements of the posterior are correlated. Without a flow, a Normal reaches the evidence, which is −5.024 by the
// formula for N(y | 0, CCᵀ + 0.3²I), and a DiagonalNormal does not.
func ExampleNormal() {
	x, y := []float64{-2, -1.2, -0.3, 0.4, 1.1, 2}, linalg.Column(-0.9, -1.1, -0.2, 0.5, 0.8, 0.7)
	n := len(x)
	covariance := linalg.New[float64](n, n)
	for i := range covariance.Data {
		d := x[i/n] - x[i%n]
		covariance.Data[i] = math.Exp(-d * d / 2)
	}
	target := regression{linalg.Cholesky(covariance), y}
	var params hvae.Params[float64]
	mean := params.Add("mean", linalg.New[float64](n, 1))
	factor := params.Add("factor", linalg.New[float64](n, n)) // for C = I
	logSD := params.Add("log sd", linalg.New[float64](n, 1))
	train := func(params []*hvae.Param[float64], prior func(b *hvae.Block[float64]) hvae.Prior[float64]) {
		bound := func(b *hvae.Block[float64]) *ad.Var[float64] {
			return hvae.HIS(&hvae.Flow[float64]{Target: target}, prior(b), b.Noise(n, 1), b.Noise(n, 1)).LogEstimate()
		}
		adamax := &hvae.Adamax[float64]{}
		trainer := hvae.NewTrainer(params, adamax, bound)
		for step := range 1000 {
			adamax.Rate = 0.1 * (1 - float64(step)/1000)
			if _, err := trainer.Step(context.Background(), hvae.Draws(32)); err != nil {
				log.Fatal(err)
			}
		}
		e, err := trainer.Evidence(context.Background(), 10_000, 1, bound)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("ELBO %.2f, log p(y) = %.3f ± %.3f\n", e.ELBO, e.Log, e.StandardError)
	}
	train(hvae.Params[float64]{mean, factor}, func(b *hvae.Block[float64]) hvae.Prior[float64] {
		return hvae.Normal[float64]{Mean: b.Var(mean), Factor: hvae.CholeskyFactor(b.Var(factor))}
	})
	train(hvae.Params[float64]{mean, logSD}, func(b *hvae.Block[float64]) hvae.Prior[float64] {
		return hvae.DiagonalNormal[float64]{Mean: b.Var(mean), SD: ad.Exp(b.Var(logSD))}
	})
	// Output:
	// ELBO -5.03, log p(y) = -5.024 ± 0.001
	// ELBO -5.73, log p(y) = -5.082 ± 0.019
}

func TestUnconstrainInvertsConstrain(t *testing.T) {
	var tape ad.Tape[float64]
	for _, c := range []struct{ v, lo, hi float64 }{{0.2, 0, 0.5}, {0.9, 0, 1}, {5, 1, math.Inf(1)}, {-3, -4, 2}} {
		if got := hvae.Constrain(tape.Scalar(hvae.Unconstrain(c.v, c.lo, c.hi)), c.lo, c.hi).Scalar(); !(math.Abs(got-c.v) <= 1e-14) {
			t.Errorf("for the interval (%v, %v), Constrain(Unconstrain(v)) is %v, want v = %v", c.lo, c.hi, got, c.v)
		}
	}
}

// uniformPrior is the target of the model z ~ uniform on (−6, 6)ˡ, x | z ~ N(z, I) for x = 0. Its latent variable
// y ∈ ℝˡ is mapped to z.
type uniformPrior struct{}

func (uniformPrior) LogJoint(y *ad.Var[float64]) *ad.Var[float64] {
	z, logJacobian := hvae.Bounded(y, -6, 6)
	logPrior := -float64(y.Rows()) * math.Log(12)
	return ad.AddConst(ad.Add(hvae.LogNormal(z), logJacobian), logPrior)
}

// The support of z is a square that contains nearly all of N(0, I), so log p(x) = log 1/144 = −4.970. With Constrain
// instead of Bounded, no error would be reported, but the estimate would be wrong.
func ExampleBounded() {
	var tape ad.Tape[float64]
	noise := tape.Matrix(2, 10_000)
	random.FillNormal(random.Stream(1, "example"), noise)
	prior := hvae.DiagonalNormal[float64]{Mean: tape.Fill(2, 1, 0), SD: tape.Fill(2, 1, 0.4)}
	flow := &hvae.Flow[float64]{Target: uniformPrior{}}
	sample := hvae.HIS(flow, prior, tape.Const(noise), tape.Const(noise)) // for K = 0, γ₀ has no effect
	e := hvae.ImportanceEstimate(sample.LogEstimate().Value.Data)
	fmt.Printf("log p(x) = %.3f ± %.3f\n", e.Log, e.StandardError)
	// Output:
	// log p(x) = -4.969 ± 0.003
}
