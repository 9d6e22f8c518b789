package hvae_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
)

// noError ends the test if err is not nil.
func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// mustPanic reports an error unless f panics with a message that contains want.
func mustPanic(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		if message := fmt.Sprint(recover()); !strings.Contains(message, want) {
			t.Errorf("the panic %q does not contain %q", message, want)
		}
	}()
	f()
}

// The second element of the parameter has zero gradients and must not change.
func TestAdamaxMatchesItsFormula(t *testing.T) {
	const rate = 0.01
	o := hvae.Adamax[float64]{Rate: rate}
	p, averages := []float64{1, 2}, linalg.New[float64](2, 2)
	theta, m, u := 1.0, 0.0, 0.0
	for i, g := range []float64{1e-8, 3, -1, 0.5, 0, -7} { // the first gradient equals ε, so the first step is rate/2
		o.Ascend(i+1, p, []float64{g, 0}, averages)
		m, u = 0.9*m+0.1*g, math.Max(0.999*u, math.Abs(g))
		theta += rate / (1 - math.Pow(0.9, float64(i+1))) * m / (u + 1e-8)
		if !(math.Abs(p[0]-theta) <= 1e-14) || p[1] != 2 {
			t.Errorf("after gradient %d, θ is %v, want %v and 2", i+1, p, theta)
		}
	}
}

// RMSProp must follow TensorFlow 1: v ← v + (1 − 0.9)(g² − v), θ ← θ + rate·g/√(v + 10⁻¹⁰), where v = 1 at the start.
func TestRMSPropMatchesItsFormula(t *testing.T) {
	o := hvae.RMSProp[float64]{Rate: 0.01}
	theta, averages, want, v := []float64{1}, linalg.New[float64](2, 1), 1.0, 1.0
	gradients := append([]float64{3, -1, 0, 100}, make([]float64, 9000)...) // the zeros reduce v below 10⁻¹⁰,
	for i, g := range append(gradients, 1e-5) {                             // so 10⁻¹⁰ matters in the last step
		o.Ascend(i+1, theta, []float64{g}, averages)
		v += (g*g - v) * (1 - 0.9)
		want += 0.01 * g / math.Sqrt(v+1e-10)
		if !(math.Abs(theta[0]-want) <= 1e-12) || averages.Data[0] < 0x1p-1022 {
			t.Fatalf("after step %d, θ is %v, want %v; the average %v must be normal", i+1, theta[0], want, averages.Data[0])
		}
	}
}

func TestImportanceBoundIsTheEstimateFromTheDrawsOfAColumn(t *testing.T) {
	inf := math.Inf(1)
	logs := []float64{-1, -2.5, 0.3, -1001, -1000, -1002, -inf, 0, -1, -inf, -inf, -inf, -1e39, -1e39, -1e39, 0, inf, 1,
		0, math.NaN(), 0} // for seven columns
	var tape ad.Tape[float64]
	l := tape.Const(linalg.Of(1, len(logs), logs))
	bounds := hvae.ImportanceBound(l, 3).Value
	for j, got := range bounds.Data {
		want := hvae.ImportanceEstimate(logs[3*j : 3*j+3]).Log
		if j == 6 {
			want = math.NaN() // the estimate counts a draw NaN as p̂ = 0, but the bound must not
		}
		if fmt.Sprintf("%.12v", got) != fmt.Sprintf("%.12v", want) {
			t.Errorf("the bound of column %d is %v, want %v", j, got, want)
		}
	}
}

func TestTailLimitGrowsWithTheNumberOfDraws(t *testing.T) {
	for draws, want := range map[int]float64{100: 0.5, 1000: 2. / 3, 10_000: 0.7} {
		if got := (hvae.Evidence{Draws: draws}).TailLimit(); !(math.Abs(got-want) <= 1e-15) {
			t.Errorf("for %d draws, the limit of k̂ is %v, want %v", draws, got, want)
		}
	}
}

// Draws with log p̂ = NaN count as p̂ = 0. In the first case, p̂/e⁵ is 1, 0, 3 and 0, so its mean is 1, its variance is
// 2, and (Σ p̂)²/Σ p̂² = 1.6. In the other cases, the estimate is 0 or ∞, so only Log and the counts are meaningful.
func TestEstimatesWithDivergedZeroOrInfiniteDraws(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct {
		logs []float64
		want hvae.Evidence // Log, StandardError, ELBO, TailShape, EffectiveDraws, Draws and Diverged
	}{
		{[]float64{5, nan, 5 + math.Log(3), -inf}, hvae.Evidence{5, math.Sqrt(0.5), nan, nan, 1.6, 4, 1}},
		{slices.Repeat([]float64{nan}, 100), hvae.Evidence{-inf, nan, nan, nan, 0, 100, 100}},
		{slices.Repeat([]float64{-inf}, 100), hvae.Evidence{-inf, nan, -inf, nan, 0, 100, 0}},
		{slices.Repeat([]float64{inf}, 100), hvae.Evidence{inf, nan, inf, nan, 0, 100, 0}},
	} {
		got := hvae.ImportanceEstimate(c.logs)
		if fmt.Sprintf("%.12v", got) != fmt.Sprintf("%.12v", c.want) {
			t.Errorf("for log p̂ = %v, the estimate is %+v, want %+v", c.logs, got, c.want)
		}
	}
}

// For |log p̂| ≥ 10¹⁶, adjacent numbers differ by at least 2, so log p̂ − Log has no correct digit.
func TestEffectiveDrawsNeverExceedTheDraws(t *testing.T) {
	for _, size := range []float64{1, -1e16, 3e16, -1e300} {
		for _, step := range []float64{0, 1e-9, 2} {
			logs := make([]float64, 1000)
			for i := range logs {
				logs[i] = size + step*float64(i%2)
			}
			e, ratio := hvae.ImportanceEstimate(logs), math.Exp(logs[0]-logs[1])
			want := 500 * (1 + ratio) * (1 + ratio) / (1 + ratio*ratio)
			if !(e.EffectiveDraws <= 1000 && math.Abs(e.EffectiveDraws-want) <= 1e-9*want) {
				t.Errorf("for log p̂ = %v and %v, there are %v effective draws, want %v", logs[0], logs[1], e.EffectiveDraws, want)
			}
		}
	}
}

func TestReverseEstimateAveragesOverMomentaFirst(t *testing.T) {
	// These are log p̂ for two paths from each of three z. The means of 1/p̂ are 4, 2 and 0, since NaN counts as 1/p̂ = 0.
	logs := []float64{-math.Log(3), -math.Log(5), -math.Log(4), math.Inf(1), math.NaN(), math.NaN()}
	e := hvae.ReverseEstimate(logs, 2)
	right := math.Abs(e.Log+math.Ln2) <= 1e-15 && math.Abs(e.StandardError-math.Sqrt(1./3)) <= 1e-15
	if !right || e.Draws != 3 || e.Diverged != 2 || !math.IsInf(e.ELBO, 1) {
		t.Errorf("the estimate is %+v, want −log 2 with the standard error √⅓, the ELBO ∞, three draws and two diverged", e)
	}
	mustPanic(t, "6 estimates do not fit 4 momenta", func() { hvae.ReverseEstimate(logs, 4) })
}

// rosenbrock is the target with the potential (1 − x)² + 100(y − x²)². With ε = 0.1, some paths diverge.
func rosenbrock(z *ad.Var[float64]) *ad.Var[float64] {
	x, y := ad.RowRange(z, 0, 1), ad.RowRange(z, 1, 2)
	valley := ad.Scale(ad.Square(ad.Sub(y, ad.Square(x))), 100)
	return ad.Neg(ad.Add(ad.Square(ad.AddConst(x, -1)), valley))
}

// Evidence must return an estimate even if some paths diverge. If p̂ = 0 in all draws, for example because a standard
// deviation is 0, it must return an error that names the first operation whose result is not finite.
func TestEvidenceSurvivesDivergedDraws(t *testing.T) {
	draw := func(epsilon, sd, alpha, s float64) hvae.Bound[float64] {
		return func(b *hvae.Block[float64]) *ad.Var[float64] {
			f := &hvae.Flow[float64]{Target: density(rosenbrock), K: 20, StepSize: b.Tape.Fill(1, 2, epsilon)}
			f.Tempering = hvae.UntiedTempering(b.Tape.Fill(20, 1, alpha), b.Tape.Scalar(s))
			prior := hvae.DiagonalNormal[float64]{Mean: b.Tape.Fill(2, 1, 0.5), SD: b.Tape.Fill(2, 1, sd)}
			return hvae.HIS(f, prior, b.Noise(2, 1), b.Noise(2, 1)).LogEstimate()
		}
	}
	var evaluator hvae.Evaluator[float64]
	e, err := evaluator.Evidence(t.Context(), 2000, 1, draw(0.1, 1, 1, 1))
	if err != nil || e.Diverged == 0 || e.Diverged == 2000 || math.IsInf(e.Log, 0) || math.IsNaN(e.Log) {
		t.Errorf("Evidence returns %+v and the error %v; want a finite estimate with some diverged draws", e, err)
	}
	combined := func(b *hvae.Block[float64]) *ad.Var[float64] { // one of eight draws of a column is often NaN
		return hvae.ImportanceBound(ad.Log(ad.AddConst(b.Noise(1, 8), 1.5)), 8)
	}
	evaluator.Evaluate(t.Context(), hvae.Draws(20), 1, combined) // must not affect the calls of Evidence below
	if _, err := evaluator.Evidence(t.Context(), 200, 1, combined); !strings.Contains(fmt.Sprint(err), "pass log p̂ itself, not Imp") {
		t.Errorf("for ImportanceBound with draws NaN, Evidence returns the error %v", err)
	}
	if e, err := evaluator.Evidence(t.Context(), 200, 1, func(b *hvae.Block[float64]) *ad.Var[float64] {
		return hvae.ImportanceBound(b.Noise(1, 8), 8)
	}); err != nil || math.IsNaN(e.Log) {
		t.Errorf("for ImportanceBound without draws NaN, Evidence returns %+v and the error %v", e, err)
	}
	for want, bound := range map[string]hvae.Bound[float64]{
		"first in the operation ad.log, [2×1]":  draw(0.01, 0, 1, 1),
		"first in the operation ad.log, [20×1]": draw(0.01, 1, 0, 1),
		"first in the operation ad.log, [1×1]":  draw(0.01, 1, 1, 0),
		"the estimate is +Inf":                  func(b *hvae.Block[float64]) *ad.Var[float64] { return b.Tape.Fill(1, b.Size, math.Inf(1)) },
		"draws: 200): the bound (NaN) is not":   draw(1e200, 1, 1, 1),
	} {
		_, err := evaluator.Evidence(t.Context(), 200, 1, bound)
		if text := fmt.Sprint(err); !strings.HasPrefix(text, "the estimate is ") || !strings.Contains(text, want) {
			t.Errorf("Evidence returns the error %q, want an error that contains %q", text, want)
		}
	}
}

// For intervals whose ends are tenths, lo + (hi − lo) may exceed hi by rounding. Constrain must not. Unconstrain must
// map the middle of the interval to 0.
func TestConstrainStaysInTheInterval(t *testing.T) {
	for i := range 200 {
		for j := i + 1; j <= 200; j++ {
			lo, hi := float64(i-100)/10, float64(j-100)/10
			check(t, float64(lo), float64(hi), 1e-15, lo, hi)
			check(t, float32(lo), float32(hi), 1e-6, lo, hi)
			if x := hvae.Unconstrain((lo+hi)/2, lo, hi); !(math.Abs(x) <= 1e-12) {
				t.Errorf("Unconstrain maps the middle of (%v, %v) to %v", lo, hi, x)
			}
		}
	}
}

// check reports an error unless Constrain maps −40, 0 and 40 to the ends and the middle of (lo, hi), within a
// tolerance, and to values from low to high, which are lo and hi, rounded to T.
func check[T linalg.Float](t *testing.T, low, high T, tolerance, lo, hi float64) {
	var tape ad.Tape[T]
	got := hvae.Constrain(tape.Const(linalg.Column[T](-40, 0, 40)), lo, hi).Value.Data
	for i, want := range []float64{lo, (lo + hi) / 2, hi} {
		inside := low <= got[i] && got[i] <= high
		if !inside || !(math.Abs(float64(got[i])-want) <= tolerance*max(1, math.Abs(lo)+math.Abs(hi))) {
			t.Errorf("for (%v, %v) in %T, Constrain(%d) is %v, want %v", lo, hi, low, 40*(i-1), got[i], want)
		}
	}
}

// closed is the target N(z | 0, I) with the closed form ∇U(z) = z.
type closed struct{ density }

func (closed) PotentialGradient(z *ad.Var[float64]) *ad.Var[float64] { return ad.Scale(z, 1) }

// With Recompute, a flow for a ClosedForm must still compute log p(x, z_K), and the estimates must be bit-identical.
func TestRecomputeWithAClosedFormGivesTheSameEstimates(t *testing.T) {
	estimates := func(recompute bool) []float64 {
		var tape ad.Tape[float64]
		f := &hvae.Flow[float64]{Target: closed{hvae.LogNormal[float64]}, K: 3, Recompute: recompute}
		f.StepSize = tape.Leaf(linalg.Of(1, 2, []float64{0.3, 0.4}))
		epsilon, gamma0 := linalg.Of(2, 2, []float64{0.5, -1, 2, 0.1}), linalg.Of(2, 2, []float64{1, 0.2, -0.7, 3})
		sample := hvae.HIS(f, hvae.StandardNormal[float64]{}, tape.Const(epsilon), tape.Const(gamma0))
		return slices.Concat(sample.LogEstimate().Value.Data, sample.End.Z.Value.Data)
	}
	if got, want := estimates(true), estimates(false); !slices.Equal(got, want) {
		t.Errorf("with Recompute, log p̂ and z_K are %v, want %v", got, want)
	}
}
