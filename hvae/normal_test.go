package hvae_test

import (
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
