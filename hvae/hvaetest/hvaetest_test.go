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
	calls := 0
	check := func(change func(tape *ad.Tape[float64], f *hvae.Flow[float64])) string {
		calls = 0
		return fmt.Sprint(hvaetest.TestFlow(func(t *ad.Tape[float64]) *hvae.Flow[float64] {
			f := &hvae.Flow[float64]{Target: hvaetest.Bimodal, K: 5, StepSize: t.Fill(1, 2, 0.3)}
			f.Tempering = hvae.FixedTempering(5, t.Scalar(1.4))
			change(t, f)
			calls++
			return f
		}, 2))
	}
	for want, change := range map[string]func(tape *ad.Tape[float64], f *hvae.Flow[float64]){
		"<nil>": func(tape *ad.Tape[float64], f *hvae.Flow[float64]) {
			f.StepSize, f.Tempering = tape.Fill(5, 2, 0.2), hvae.FreeTempering(tape.Fill(5, 1, 0.9))
		},
		"of H⁻¹(H(z, ρ)) at": func(_ *ad.Tape[float64], f *hvae.Flow[float64]) { // the first call is for Forward
			if calls > 0 {
				f.Target = hvaetest.Quadratic{Omega: 1}
			}
		},
		"of log |det ∇H| at": func(tape *ad.Tape[float64], f *hvae.Flow[float64]) { // the fourth call is for LogDet
			if calls == 3 {
				f.Tempering = hvae.FixedTempering(2, tape.Scalar(1.5))
			}
		},
		"cannot check": func(tape *ad.Tape[float64], f *hvae.Flow[float64]) { f.StepSize = tape.Fill(1, 2, 6) },
	} {
		if got := check(change); !strings.Contains(got, want) {
			t.Errorf("TestFlow returns %q, want %q", got, want)
		}
	}
}

// The evidence of a target is an integral over z. With FillPosterior, both dimensions of a draw belong to the same mode,
// so E[xy] = 0.35·1² + 0.65·0.8².
func TestTargetsHaveTheirEvidenceAndPosterior(t *testing.T) {
	for _, c := range []struct {
		target hvae.Target[float64]
		want   float64
	}{
		{hvaetest.Bimodal, hvaetest.Bimodal.LogEvidence},
		{hvaetest.Quadratic{Omega: 3}, hvaetest.Quadratic{Omega: 3}.LogEvidence(1)},
	} {
		const n, edge = 2000, 12.0
		var tape ad.Tape[float64]
		z := linalg.New[float64](1, n)
		for j := range z.Data {
			z.Data[j] = edge * (2*float64(j)/n - 1)
		}
		got := linalg.LogSumExp(c.target.LogJoint(tape.Const(z)).Value.Data) + math.Log(2*edge/n)
		if !(math.Abs(got-c.want) <= 1e-12) {
			t.Errorf("%v: log p(x) is %v by quadrature, want %v", c.target, got, c.want)
		}
	}
	z := linalg.New[float64](2, 100_000)
	hvaetest.Bimodal.FillPosterior(random.Stream(1, "posterior"), z)
	for name, v := range map[string]struct {
		f    func(x, y float64) float64
		want float64
	}{
		"x":  {func(x, _ float64) float64 { return x }, 0.35 - 0.65*0.8},
		"y²": {func(_, y float64) float64 { return y * y }, 0.35*(1+0.49) + 0.65*(0.64+0.25)},
		"xy": {func(x, y float64) float64 { return x * y }, 0.35 + 0.65*0.64},
	} {
		values := make([]float64, z.Cols)
		for j := range values {
			values[j] = v.f(z.At(0, j), z.At(1, j))
		}
		if mean, se := linalg.MeanSE(values); !(math.Abs(mean-v.want) <= 4.5*se) {
			t.Errorf("the mean of %s over posterior draws is %v ± %v, want %v", name, mean, se, v.want)
		}
	}
}

func TestDerivativesAndDeterminantsOfKnownFunctions(t *testing.T) {
	f := func(x []float64) []float64 {
		return []float64{math.Sin(x[0]) * x[1], math.Exp(x[1]), x[0] * x[0] * x[0]}
	}
	want := []float64{math.Cos(0.7) * -1.2, math.Sin(0.7), 0, math.Exp(-1.2), 3 * 0.49, 0}
	J := hvaetest.Jacobian(f, []float64{0.7, -1.2})
	if J.Rows != 3 || J.Cols != 2 || !(hvaetest.Distance(J.Data, want) <= 1e-11) {
		t.Errorf("the Jacobian of a map from 2 to 3 dimensions is %v, want %v", J, want)
	}
	for _, m := range [][10]float64{ // the elements of a matrix, and its determinant
		{2, 0, 0, 5, 3, 0, 1, 1, -4, -24}, {0, 0, 2, 3, 0, 0, 0, 4, 0, 24}, {0, 1, 2, 0, 3, 4, 0, 5, 6, 0},
	} {
		if got := hvaetest.Determinant(linalg.Of(3, 3, m[:9])); !(math.Abs(got-m[9]) <= 1e-13) {
			t.Errorf("the determinant of %v is %v, want %v", m[:9], got, m[9])
		}
	}
}

func TestGradientErrorDetectsMissingTerm(t *testing.T) {
	params := []linalg.Matrix[float64]{linalg.Column(0.4, -1.3), linalg.Column(2.0)}
	right := func(t *ad.Tape[float64], p []*ad.Var[float64]) *ad.Var[float64] { return ad.Mul(ad.Exp(p[0]), p[1]) }
	constant := func(t *ad.Tape[float64], p []*ad.Var[float64]) *ad.Var[float64] {
		return ad.Mul(ad.Exp(p[0]), t.Scalar(p[1].Scalar())) // omits the dependence on p[1]
	}
	e, wrong := hvaetest.GradientError(params, right), hvaetest.GradientError(params, constant)
	if !(e <= 1e-10 && wrong >= 0.1) {
		t.Errorf("GradientError is %.1e for a correct gradient and %.1e for one that lacks a term", e, wrong)
	}
}
