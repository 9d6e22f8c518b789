package hvae_test

import (
	"context"
	"fmt"
	"log"
	"math"
	"testing"

	"hvae/ad"
	"hvae/hvae"
	"hvae/hvae/hvaetest"
	"hvae/linalg"
	"hvae/linalg/random"
)

func TestNormalDrawsAndDensitiesMatchTheirFormulas(t *testing.T) {
	var tape ad.Tape[float64]
	mean, factor := linalg.Column(0.3, -2), linalg.Of(2, 2, []float64{0.5, 0, -1.2, 3})
	epsilon := linalg.Of(2, 3, []float64{0, 1, -0.7, 0.2, -1, 2})
	q := hvae.Normal[float64]{Mean: tape.Const(mean), Factor: tape.Const(factor)}
	for _, q := range []hvae.Normal[float64]{q, {Mean: ad.BroadcastTo(q.Mean, 2, 3), Factor: q.Factor}} {
		z, logPrior := q.Draw(tape.Const(epsilon))
		again := q.LogDensity(z)
		for j := range 3 {
			a, b := z.Value.At(0, j)-0.3, z.Value.At(1, j)+2
			e1, e2 := epsilon.At(0, j), epsilon.At(1, j)
			if !(math.Hypot(a-0.5*e1, b+1.2*e1-3*e2) <= 1e-14) {
				t.Errorf("column %d: z₀ − μ is (%v, %v), want Cε", j, a, b)
			}
			// The covariance is CCᵀ = (0.25, −0.6; −0.6, 10.44), with determinant 2.25.
			want := -0.5*(10.44*a*a+2*0.6*a*b+0.25*b*b)/2.25 - math.Log(2*math.Pi*1.5)
			for _, got := range []float64{logPrior.Value.At(0, j), again.Value.At(0, j)} {
				if !(math.Abs(got-want) <= 1e-13) {
					t.Errorf("column %d: log q⁰ is %v, want %v", j, got, want)
				}
			}
		}
	}
}

func TestGradientsOfNormalMatchNumericalDerivatives(t *testing.T) {
	normals := func(rows, cols int) linalg.Matrix[float64] {
		m := linalg.New[float64](rows, cols)
		random.FillNormal(random.Stream(1, "normal gradients", rows, cols), m)
		return m
	}
	// The gradient at z₀ reaches μ and C both through z₀ and through the density.
	params := []linalg.Matrix[float64]{normals(4, 1), normals(4, 4), normals(4, 3)}
	for name, f := range map[string]func(q hvae.Normal[float64], v *ad.Var[float64]) *ad.Var[float64]{
		"Draw": func(q hvae.Normal[float64], v *ad.Var[float64]) *ad.Var[float64] {
			z0, logPrior := q.Draw(v)
			return ad.Sub(hvaetest.Bimodal.LogJoint(z0), logPrior)
		},
		"LogDensity": hvae.Normal[float64].LogDensity,
	} {
		if e := hvaetest.GradientError(params, func(_ *ad.Tape[float64], p []*ad.Var[float64]) *ad.Var[float64] {
			return f(hvae.Normal[float64]{Mean: p[0], Factor: hvae.CholeskyFactor(p[1])}, p[2])
		}); !(e <= 1e-8) {
			t.Errorf("%s: the relative error of the gradient is %.2g", name, e)
		}
	}
}

func TestNormalRejectsAnythingButACholeskyFactor(t *testing.T) {
	var tape ad.Tape[float64]
	for want, factor := range map[string]linalg.Matrix[float64]{
		"is [2×1]; it must be [2×2]":          linalg.Column(1.0, 1),
		"element (1, 2) of the factor is 0.5": linalg.Of(2, 2, []float64{1, 0.5, 0, 1}),
		"element (2, 2) of the factor is -1":  linalg.Of(2, 2, []float64{1, 0, 0, -1}),
	} {
		q := hvae.Normal[float64]{Mean: tape.Fill(2, 1, 0), Factor: tape.Const(factor)}
		mustPanic(t, want, func() { q.Draw(tape.Fill(2, 3, 0)) })
		mustPanic(t, want, func() { q.LogDensity(tape.Fill(2, 3, 0)) })
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
