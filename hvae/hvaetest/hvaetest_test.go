package hvaetest_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"hvae/ad"
	"hvae/hvae"
	"hvae/hvae/hvaetest"
	"hvae/linalg"
	"hvae/linalg/random"
)

// studentT is a Student t target with 3 degrees of freedom and the given scale in each dimension.
type studentT struct{ scale *ad.Var[float64] }

// newStudentT returns a function that records the scale on a tape and returns the Student t target with this scale.
func newStudentT(scale float64) func(t *ad.Tape[float64]) hvae.Target[float64] {
	return func(t *ad.Tape[float64]) hvae.Target[float64] { return studentT{t.Scalar(scale)} }
}

func (t studentT) LogJoint(z *ad.Var[float64]) *ad.Var[float64] {
	return ad.Scale(ad.SumTo(ad.Log(ad.AddConst(ad.Square(ad.Div(z, t.scale)), 3)), 1, z.Cols()), -2)
}

// TestTarget checks a new target, and TestFlow checks a flow for this target, including the
// determinant of the flow's Jacobian.
func ExampleTestTarget() {
	fmt.Println(hvaetest.TestTarget(newStudentT(1), 2))
	fmt.Println(hvaetest.TestFlow(func(t *ad.Tape[float64]) *hvae.Flow[float64] {
		return &hvae.Flow[float64]{Target: newStudentT(1)(t), K: 3, StepSize: t.Fill(1, 2, 0.3), Tempering: hvae.FixedTempering(3, t.Scalar(1.4))}
	}, 2))
	// Output:
	// <nil>
	// <nil>
}

// wrong is the target with the potential Σ z⁴/4, except for a deliberate mistake.
type wrong struct{ mistake string }

func (w wrong) LogJoint(z *ad.Var[float64]) *ad.Var[float64] {
	u := ad.Scale(ad.SumTo(ad.Square(ad.Square(z)), 1, z.Cols()), -0.25)
	switch w.mistake {
	case "shape":
		return ad.Sum(z)
	case "columns":
		return ad.Add(u, ad.Sum(z))
	}
	return u
}

func (w wrong) PotentialGradient(z *ad.Var[float64]) *ad.Var[float64] {
	g := ad.Mul(ad.Square(z), z)
	switch w.mistake {
	case "sign":
		return ad.Neg(g)
	case "not on the tape":
		return z.Tape().Const(g.Value)
	}
	return g
}

// always returns a function that returns the given target for every tape.
func always(target hvae.Target[float64]) func(*ad.Tape[float64]) hvae.Target[float64] {
	return func(*ad.Tape[float64]) hvae.Target[float64] { return target }
}

func TestTestTargetAcceptsRightAndReportsWrongTargets(t *testing.T) {
	for _, c := range []struct {
		bind   func(*ad.Tape[float64]) hvae.Target[float64]
		want   string
		points [][]float64
	}{
		{always(wrong{"none"}), "<nil>", nil}, {always(hvaetest.Bimodal), "<nil>", nil}, {always(hvaetest.Quadratic{Omega: 1000}), "<nil>", nil},
		{newStudentT(0.01), "<nil>", [][]float64{{0.003, 0.01}}}, {newStudentT(1e-5), "cannot check", [][]float64{{1e-5, 1e-5}}},
		{always(wrong{"shape"}), "log p(x, z) is [1×1], not [1×3]", nil}, {always(wrong{"columns"}), "among other columns", nil},
		{always(wrong{"sign"}), "of the gradient of U", nil}, {always(wrong{"not on the tape"}), "of the gradient of vᵀ∇U", nil},
		{always(wrong{"sign"}), "<nil>", [][]float64{{0, 0}}}, // the derivatives of z⁴/4 at z = 0 are zero
	} {
		if got := fmt.Sprint(hvaetest.TestTarget(c.bind, 2, c.points...)); !strings.Contains(got, c.want) {
			t.Errorf("for %+v, TestTarget returns %q, want %q", c.bind(new(ad.Tape[float64])), got, c.want)
		}
	}
}

func TestTestFlowAcceptsRightAndReportsWrongFlows(t *testing.T) {
	check := func(s hvaetest.Scheme, change func(call int, tape *ad.Tape[float64], f *hvae.Flow[float64])) string {
		calls := 0
		return fmt.Sprint(hvaetest.TestFlow(func(t *ad.Tape[float64]) *hvae.Flow[float64] {
			f := s.Flow(t, hvaetest.Bimodal, 2)
			change(calls, t, f)
			calls++
			return f
		}, 2))
	}
	for _, s := range hvaetest.Schemes() {
		if got := check(s, func(int, *ad.Tape[float64], *hvae.Flow[float64]) {}); got != "<nil>" {
			t.Errorf("%v: TestFlow returns %v", s, got)
		}
	}
	s := hvaetest.Scheme{Tempering: "fixed", K: 5}
	for want, change := range map[string]func(call int, tape *ad.Tape[float64], f *hvae.Flow[float64]){
		"of H⁻¹(H(z, ρ)) at": func(call int, _ *ad.Tape[float64], f *hvae.Flow[float64]) { // the first call is for Forward
			if call > 0 {
				f.Target = hvaetest.Quadratic{Omega: 1}
			}
		},
		"of log |det ∇H| at": func(call int, tape *ad.Tape[float64], f *hvae.Flow[float64]) { // the fourth call is for LogDet
			if call == 3 {
				f.Tempering = hvae.FixedTempering(2, tape.Scalar(1.5))
			}
		},
		"cannot check": func(_ int, tape *ad.Tape[float64], f *hvae.Flow[float64]) { f.StepSize = tape.Fill(1, 2, 6) },
	} {
		if got := check(s, change); !strings.Contains(got, want) {
			t.Errorf("TestFlow returns %q, want %q", got, want)
		}
	}
}

// expectation returns ∫ f(z) p(x, z) dz for a target in one dimension.
func expectation(target hvae.Target[float64], f func(z float64) float64) float64 {
	var tape ad.Tape[float64]
	return hvaetest.Integrate(func(z float64) float64 {
		tape.Reset()
		return f(z) * math.Exp(target.LogJoint(tape.Scalar(z)).Scalar())
	}, -12, 12, 2000)
}

func TestEvidenceMatchesQuadrature(t *testing.T) {
	integral := func(target hvae.Target[float64]) float64 {
		return math.Log(expectation(target, func(float64) float64 { return 1 }))
	}
	if got := integral(hvaetest.Bimodal); !(math.Abs(got-hvaetest.Bimodal.LogEvidence) <= 1e-12) {
		t.Errorf("Bimodal: log p(x) = %v by quadrature, want %v", got, hvaetest.Bimodal.LogEvidence)
	}
	for _, omega := range []float64{0.8, 1, 3} {
		q := hvaetest.Quadratic{Omega: omega}
		if got, want := integral(q), q.LogEvidence(1); !(math.Abs(got-want) <= 1e-12) {
			t.Errorf("ω = %v: log p(x) is %v by quadrature, but LogEvidence(1) is %v", omega, got, want)
		}
		if got, want := q.LogEvidence(3), 3*q.LogEvidence(1); !(math.Abs(got-want) <= 1e-12) {
			t.Errorf("ω = %v: LogEvidence(3) is %v, want 3·LogEvidence(1) = %v", omega, got, want)
		}
	}
}

func TestPosteriorDrawsHaveMomentsOfTarget(t *testing.T) {
	z := linalg.New[float64](2, 50000)
	hvaetest.Bimodal.FillPosterior(random.Stream(1, "posterior"), z)
	moment := func(f func(x, y float64) float64) []float64 {
		m := make([]float64, z.Cols)
		for j := range m {
			m[j] = f(z.At(0, j), z.At(1, j))
		}
		return m
	}
	for name, f := range map[string]func(float64) float64{
		"z": func(z float64) float64 { return z }, "z²": func(z float64) float64 { return z * z }, "cos 3z": func(z float64) float64 { return math.Cos(3 * z) },
	} {
		want := expectation(hvaetest.Bimodal, f) / math.Exp(hvaetest.Bimodal.LogEvidence)
		if z := hvaetest.Z(moment(func(x, _ float64) float64 { return f(x) }), want); !(math.Abs(z) <= hvaetest.ZBound) {
			t.Errorf("the mean of %s differs from the integral by %.1f standard errors", name, z)
		}
	}
	// Both dimensions of a draw belong to the same mode, so E[xy] = 0.35·1² + 0.65·0.8².
	if z := hvaetest.Z(moment(func(x, y float64) float64 { return x * y }), 0.35+0.65*0.64); !(math.Abs(z) <= hvaetest.ZBound) {
		t.Errorf("the mean of xy differs from its expectation by %.1f standard errors", z)
	}
}

func TestDerivativesOfKnownFunctionsAreAccurate(t *testing.T) {
	x := []float64{0.7, -1.2}
	f := func(x []float64) []float64 {
		return []float64{math.Sin(x[0]) * x[1], math.Exp(x[1]), x[0] * x[0] * x[0]}
	}
	want := []float64{math.Cos(0.7) * -1.2, math.Sin(0.7), 0, math.Exp(-1.2), 3 * 0.49, 0}
	if J := hvaetest.Jacobian(f, x); J.Rows != 3 || J.Cols != 2 || !(hvaetest.Distance(J.Data, want) <= 1e-11) {
		t.Errorf("the Jacobian of a map from 2 to 3 dimensions is %v, want %v", J, want)
	}
	// For f(x) = x⁵, the error of the slope is −h⁴/4·f⁽⁵⁾/5! = −h⁴/4.
	if got := hvaetest.Slope(func(h float64) float64 { return math.Pow(h, 5) }, 0.1); !(math.Abs(got+1e-4/4) <= 1e-15) {
		t.Errorf("the slope of h⁵ at 0 is %v, want %v, the error of Richardson extrapolation", got, -1e-4/4)
	}
}

func TestDeterminantsOfKnownMatricesAreCorrect(t *testing.T) {
	for _, c := range []struct {
		m    linalg.Matrix[float64]
		want float64
	}{
		{linalg.Of(2, 2, []float64{1, 2, 3, 4}), -2},
		{linalg.Of(2, 2, []float64{0, 1, 1, 0}), -1}, // needs an exchange of rows
		{linalg.Of(3, 3, []float64{2, 0, 0, 5, 3, 0, 1, 1, -4}), -24},
		{linalg.Of(3, 3, []float64{0, 0, 2, 3, 0, 0, 0, 4, 0}), 24}, // needs two exchanges
		{linalg.Of(3, 3, []float64{0, 1, 2, 0, 3, 4, 0, 5, 6}), 0},
	} {
		before := c.m.Clone()
		if got := hvaetest.Determinant(c.m); !(math.Abs(got-c.want) <= 1e-13) {
			t.Errorf("det %v = %v, want %v", before.Data, got, c.want)
		}
		if hvaetest.Distance(before.Data, c.m.Data) != 0 {
			t.Errorf("Determinant changed its argument to %v", c.m.Data)
		}
	}
}

func TestGradientErrorDetectsMissingTerm(t *testing.T) {
	params := []linalg.Matrix[float64]{linalg.Column(0.4, -1.3), linalg.Column(2.0)}
	right := func(t *ad.Tape[float64], p []*ad.Var[float64]) *ad.Var[float64] { return ad.Mul(ad.Exp(p[0]), p[1]) }
	if e := hvaetest.GradientError(params, right); !(e <= 1e-10) {
		t.Errorf("for a correct gradient, GradientError is %.1e", e)
	}
	constant := func(t *ad.Tape[float64], p []*ad.Var[float64]) *ad.Var[float64] {
		return ad.Mul(ad.Exp(p[0]), t.Scalar(p[1].Scalar())) // omits the dependence on p[1]
	}
	if e := hvaetest.GradientError(params, constant); !(e >= 0.1) {
		t.Errorf("for a gradient that lacks a term, GradientError is only %.1e", e)
	}
	if params[0].Data[0] != 0.4 || params[0].Data[1] != -1.3 || params[1].Data[0] != 2 {
		t.Error("GradientError changed the parameters")
	}
}

func TestZOfAKnownSampleIsCorrect(t *testing.T) {
	x := []float64{1, 2, 3, 6} // mean 3, variance (4+1+0+9)/3
	if z, want := hvaetest.Z(x, 2), 2/math.Sqrt(14./3); !(math.Abs(z-want) <= 1e-15) {
		t.Errorf("z = %v, want %v", z, want)
	}
}

func TestSchemesAreDistinctAndDrawsVary(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range hvaetest.Schemes() {
		seen[s.String()] = true
		logs := hvaetest.Draws(s, always(hvaetest.Bimodal), 3, 1000, 1)
		if len(logs) != 1000 || logs[0] == logs[500] {
			t.Errorf("%v: Draws returns %d values of log p̂, want 1000, of which 1 and 501 differ", s, len(logs))
		}
	}
	if all := hvaetest.Schemes(); len(seen) != len(all) {
		t.Errorf("%d schemes have only %d names", len(all), len(seen))
	}
}
