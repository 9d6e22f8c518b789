package hvae_test

import (
	"context"
	"math"
	"strings"
	"testing"

	"hvae/ad"
	"hvae/hvae"
	"hvae/hvae/hvaetest"
	"hvae/linalg"
	"hvae/linalg/numeric"
)

// banana is the target exp(−½x² − ½(y − x²)²), whose evidence is 2π.
func banana(z *ad.Var[float64]) *ad.Var[float64] {
	x, y := ad.RowRange(z, 0, 1), ad.RowRange(z, 1, 2)
	return ad.Scale(ad.Add(ad.Square(x), ad.Square(ad.Sub(y, ad.Square(x)))), -0.5)
}

// funnel is the target v ~ N(0, 3²), x_i | v ~ N(0, eᵛ) (Neal, 2003), whose evidence is 1.
func funnel(z *ad.Var[float64]) *ad.Var[float64] {
	v, x := ad.RowRange(z, 0, 1), ad.RowRange(z, 1, z.Rows())
	logX := ad.Sub(hvae.LogNormal(ad.Mul(ad.Exp(ad.Scale(v, -0.5)), x)), ad.Scale(v, float64(x.Rows())/2))
	return ad.AddConst(ad.Add(hvae.LogNormal(ad.Scale(v, 1./3)), logX), -math.Log(3))
}

// Fit must be within four standard errors of log p(x), or return a warning that begins with the given text. The first
// three cases need -long. In 31 dimensions, q⁰ is diagonal.
func TestFitIsRightOrWarns(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute in WebAssembly")
	}
	modes := func(weight, sd float64) hvaetest.TwoModes { // weight and sd describe the second mode
		return hvaetest.TwoModes{Modes: [2]hvaetest.Mode{
			{Weight: 1 - weight, Mean: linalg.Column(0.0), SD: 1}, {Weight: weight, Mean: linalg.Column(6.0), SD: sd},
		}}
	}
	evidence := func(dims, omega float64) float64 { return dims * (numeric.Log2Pi/2 - math.Log(omega)) } // of Quadratic
	for i, c := range []struct {
		name    string
		target  hvae.Target[float64]
		dims    int
		o       hvae.FitOptions
		truth   float64
		warning string
	}{
		{"banana", density(banana), 2, hvae.FitOptions{K: 3}, numeric.Log2Pi, "k̂ is 0."},
		{"funnel", density(funnel), 5, hvae.FitOptions{}, 0, "k̂ is 0."},
		{"eight schools", eightSchools{}, 10, hvae.FitOptions{}, -31.3113, ""},
		{"banana", density(banana), 2, hvae.FitOptions{Steps: 200, Draws: 4000}, numeric.Log2Pi, "k̂ is 1."},
		{"two modes", modes(0.5, 1), 1, hvae.FitOptions{}, 0, ""},
		{"a missed mode", modes(0.9, 0.1), 1, hvae.FitOptions{}, 0, "k̂ of AIS is "},
		{"logistic regression", smallLogistic, 2, hvae.FitOptions{K: 2, Steps: 500}, -4.104, ""},
		{"few draws", smallLogistic, 2, hvae.FitOptions{Steps: 100, Draws: 50}, -4.104, "k̂ is NaN"},
		{"31 dimensions", hvaetest.Quadratic{Omega: 3}, 31, hvae.FitOptions{K: 1, Steps: 100, Draws: 2000}, evidence(31, 3), ""},
		{"untrained", hvaetest.Quadratic{Omega: 100}, 4, hvae.FitOptions{Steps: 1, Draws: 4000}, evidence(4, 100), "the two estimates differ by "},
	} {
		if i < 3 && !*long {
			continue
		}
		c.o.Seed = 1
		f, err := hvae.Fit(t.Context(), c.target, c.dims, c.o)
		e := f.Evidence
		t.Logf("%s, K = %d: log p(x) = %.4f ± %.4f, k̂ = %.2f; by AIS %.4f ± %.4f; %s",
			c.name, c.o.K, e.Log, e.StandardError, e.TailShape, f.Annealed.Log, f.Annealed.StandardError, f.Warning)
		if err != nil || f.Warning == "" && !(math.Abs(e.Log-c.truth) <= 4*e.StandardError) {
			t.Errorf("%s: log p(x) = %.4f ± %.4f without a warning, want %.4f; error %v", c.name, e.Log, e.StandardError, c.truth, err)
		}
		if (f.Warning == "") != (c.warning == "") || !strings.HasPrefix(f.Warning, c.warning) {
			t.Errorf("%s: the warning is %q, want %q", c.name, f.Warning, c.warning)
		}
	}
}

func TestFitReturnsErrorsAndPanicsIfMisused(t *testing.T) {
	mustPanic(t, "Fit: dims is 0, with {K:2", func() { hvae.Fit(t.Context(), smallLogistic, 0, hvae.FitOptions{K: 2}) })
	mustPanic(t, "with {K:-1 Steps:0", func() { hvae.Fit(t.Context(), smallLogistic, 1, hvae.FitOptions{K: -1}) })
	mustPanic(t, "and no option negative", func() { hvae.Fit(t.Context(), smallLogistic, 1, hvae.FitOptions{Steps: -1}) })
	mustPanic(t, "Draws:-1", func() { hvae.Fit(t.Context(), smallLogistic, 1, hvae.FitOptions{Draws: -1}) })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := hvae.Fit(ctx, smallLogistic, 2, hvae.FitOptions{}); err != context.Canceled {
		t.Errorf("with a cancelled context, Fit returns the error %v", err)
	}
	_, err := hvae.Fit(t.Context(), density(ad.Log[float64]), 1, hvae.FitOptions{})
	if err == nil || !strings.Contains(err.Error(), "ad.log") {
		t.Errorf("for a target that is NaN, Fit returns the error %v", err)
	}
}
