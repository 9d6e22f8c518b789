package hvae_test

import (
	"math"
	"testing"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
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

func TestUnconstrainInvertsConstrain(t *testing.T) {
	var tape ad.Tape[float64]
	for _, c := range []struct{ v, lo, hi float64 }{{0.2, 0, 0.5}, {0.9, 0, 1}, {5, 1, math.Inf(1)}, {-3, -4, 2}} {
		if got := hvae.Constrain(tape.Scalar(hvae.Unconstrain(c.v, c.lo, c.hi)), c.lo, c.hi).Scalar(); !(math.Abs(got-c.v) <= 1e-14) {
			t.Errorf("for the interval (%v, %v), Constrain(Unconstrain(v)) is %v, want v = %v", c.lo, c.hi, got, c.v)
		}
	}
}
