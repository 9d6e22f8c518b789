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

// logNormal returns log N(z | mean, sd²).
func logNormal(z, mean, sd float64) float64 {
	return -(z-mean)*(z-mean)/(2*sd*sd) - math.Log(sd*math.Sqrt(2*math.Pi))
}

func TestDiagonalNormalDrawsAndDensitiesMatchTheirFormulas(t *testing.T) {
	var tape ad.Tape[float64]
	mean, sd := []float64{0.3, -2}, []float64{0.5, 3}
	epsilon := linalg.Of(2, 3, []float64{0, 1, -0.7, 0.2, -1, 2})
	// Test all combinations of shapes [ℓ×1] and [ℓ×B] for the mean μ and the standard deviation σ.
	one := hvae.DiagonalNormal[float64]{Mean: tape.Const(linalg.Column(mean...)), SD: tape.Const(linalg.Column(sd...))}
	each := hvae.DiagonalNormal[float64]{Mean: ad.BroadcastTo(one.Mean, 2, 3), SD: ad.BroadcastTo(one.SD, 2, 3)}
	for _, q := range []hvae.DiagonalNormal[float64]{one, each, {Mean: each.Mean, SD: one.SD}, {Mean: one.Mean, SD: each.SD}} {
		z, logPrior := q.Draw(tape.Const(epsilon))
		again := q.LogDensity(z)
		for j := range 3 {
			want := 0.0
			for i := range 2 {
				draw := mean[i] + sd[i]*epsilon.At(i, j)
				if got := z.Value.At(i, j); !(math.Abs(got-draw) <= 1e-14) {
					t.Errorf("z₀ is %v, want %v", got, draw)
				}
				want += logNormal(draw, mean[i], sd[i])
			}
			for _, got := range []float64{logPrior.Value.At(0, j), again.Value.At(0, j)} {
				if !(math.Abs(got-want) <= 1e-14) {
					t.Errorf("column %d: log q⁰ is %v, want %v", j, got, want)
				}
			}
		}
	}
}

func TestDivergenceOfDiagonalNormalMatchesQuadrature(t *testing.T) {
	var tape ad.Tape[float64]
	mean, sd := []float64{0.3, -2}, []float64{0.5, 3}
	q := hvae.DiagonalNormal[float64]{Mean: tape.Const(linalg.Column(mean...)), SD: tape.Const(linalg.Column(sd...))}
	divergence := 0.0
	for i := range mean {
		divergence += integrate(func(z float64) float64 {
			return math.Exp(logNormal(z, mean[i], sd[i])) * (logNormal(z, mean[i], sd[i]) - logNormal(z, 0, 1))
		}, mean[i]-12*sd[i], mean[i]+12*sd[i], 2000)
	}
	wide := hvae.DiagonalNormal[float64]{Mean: ad.BroadcastTo(q.Mean, 2, 3), SD: q.SD}
	if d := wide.Divergence(); d.Cols() != 3 || d.Value.Data[2] != q.Divergence().Scalar() {
		t.Errorf("for a mean with three equal columns, the divergences are %v, want three times %v", d.Value, q.Divergence().Scalar())
	}
	if got := q.Divergence().Scalar(); !(math.Abs(got-divergence) <= 1e-11) {
		t.Errorf("the divergence from N(0, I) is %v, want %v by quadrature", got, divergence)
	}
}

func TestGradientsOfNormalMatchNumericalDerivatives(t *testing.T) {
	rng := random.Stream(1, "normal gradients")
	normals := func(rows, cols int) linalg.Matrix[float64] {
		m := linalg.New[float64](rows, cols)
		random.FillNormal(rng, m)
		return m
	}
	// The gradient at z₀ reaches μ and C both through z₀ and through the density.
	params := []linalg.Matrix[float64]{normals(4, 3), normals(4, 4), normals(4, 3)}
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

func TestLogJacobianOfBoundedMatchesNumericalDerivatives(t *testing.T) {
	for _, c := range []struct{ lo, hi float64 }{{-6, 6}, {0, 1}, {2, math.Inf(1)}} {
		for _, y := range [][]float64{{0.3, -2}, {4, 0}, {-9, 7}} {
			var tape ad.Tape[float64]
			v, logJacobian := hvae.Bounded(tape.Const(linalg.Column(y...)), c.lo, c.hi)
			J := hvaetest.Jacobian(func(y []float64) []float64 {
				v, _ := hvae.Bounded(tape.Const(linalg.Column(y...)), c.lo, c.hi)
				return v.Value.Data
			}, y)
			got, want := logJacobian.Scalar(), math.Log(hvaetest.Determinant(J))
			if !(math.Abs(got-want) <= 1e-6) {
				t.Errorf("(%v, %v), y = %v: the log Jacobian is %v, want %v", c.lo, c.hi, y, got, want)
			}
			for _, v := range v.Value.Data {
				if !(c.lo < v && v < c.hi) {
					t.Errorf("Bounded maps an element of %v to %v, which is outside (%v, %v)", y, v, c.lo, c.hi)
				}
			}
		}
	}
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
