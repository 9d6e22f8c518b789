package hvaetest_test

import (
	"fmt"
	"strings"
	"testing"

	"hvae/ad"
	"hvae/hvae"
	"hvae/hvae/hvaetest"
	"hvae/linalg"
)

// studentT is a Student t target with 3 degrees of freedom and the given scale in each dimension.
type studentT struct{ scale *ad.Var[float64] }

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
		calls = 0
		err := hvaetest.TestFlow(func(t *ad.Tape[float64]) *hvae.Flow[float64] {
			f := &hvae.Flow[float64]{Target: hvaetest.Bimodal, K: 5, StepSize: t.Fill(1, 2, 0.3)}
			f.Tempering = hvae.FixedTempering(5, t.Scalar(1.4))
			change(t, f)
			calls++
			return f
		}, 2)
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("TestFlow returns the error %v, want %q", err, want)
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

// A drawn is a prior whose method Draw is the function itself.
type drawn func(epsilon *ad.Var[float64]) (z0, logDensity *ad.Var[float64])

func (d drawn) Draw(epsilon *ad.Var[float64]) (z0, logDensity *ad.Var[float64]) { return d(epsilon) }

// A shifted is a prior whose LogDensity ignores the mean.
type shifted struct{ hvae.DiagonalNormal[float64] }

func (s shifted) LogDensity(z *ad.Var[float64]) *ad.Var[float64] {
	return s.DiagonalNormal.LogDensity(ad.Add(z, s.Mean))
}

func TestTestPriorAcceptsCorrectPriors(t *testing.T) {
	for name, bind := range map[string]func(t *ad.Tape[float64]) hvae.Prior[float64]{
		"N(0, I)": func(*ad.Tape[float64]) hvae.Prior[float64] { return hvae.StandardNormal[float64]{} },
		"narrow": func(t *ad.Tape[float64]) hvae.Prior[float64] {
			return hvae.DiagonalNormal[float64]{Mean: t.Fill(3, 1, 5), SD: t.Const(linalg.Column(0.01, 2, 0.1))}
		},
		"correlation 0.999": func(t *ad.Tape[float64]) hvae.Prior[float64] {
			c := linalg.Of(3, 3, []float64{1, 0, 0, 0.999, 0.0447, 0, 0.5, -3, 0.2})
			return hvae.Normal[float64]{Mean: t.Fill(3, 1, 1), Factor: t.Const(c)}
		},
		"two modes": func(t *ad.Tape[float64]) hvae.Prior[float64] { return drawn(twoModes) },
	} {
		if err := hvaetest.TestPrior(bind, 3); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// twoModes returns z₀ = ε + 2 tanh ε, whose density has two modes per dimension.
func twoModes(epsilon *ad.Var[float64]) (z0, logDensity *ad.Var[float64]) {
	tanh := ad.Tanh(epsilon)
	slope := ad.AddConst(ad.Scale(ad.Square(tanh), -2), 3) // 1 + 2(1 − tanh²)
	logDet := ad.SumTo(ad.Log(slope), 1, epsilon.Cols())
	return ad.Add(epsilon, ad.Scale(tanh, 2)), ad.Sub(hvae.LogNormal(epsilon), logDet)
}

func TestTestPriorRejectsWrongPriors(t *testing.T) {
	for want, draw := range map[string]drawn{
		"the mean of h(z₀)/q⁰(z₀) is": func(epsilon *ad.Var[float64]) (z0, logDensity *ad.Var[float64]) { // no Jacobian
			return ad.Scale(epsilon, 0.98), hvae.LogNormal(epsilon)
		},
		"log q⁰(z₀) is [3×20000]": func(epsilon *ad.Var[float64]) (z0, logDensity *ad.Var[float64]) {
			return epsilon, ad.Square(epsilon)
		},
	} {
		err := hvaetest.TestPrior(func(*ad.Tape[float64]) hvae.Prior[float64] { return draw }, 3)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v; it must contain %q", err, want)
		}
	}
	err := hvaetest.TestPrior(func(t *ad.Tape[float64]) hvae.Prior[float64] {
		return shifted{hvae.DiagonalNormal[float64]{Mean: t.Fill(3, 1, 1), SD: t.Fill(3, 1, 1)}}
	}, 3)
	if err == nil || !strings.Contains(err.Error(), "LogDensity") {
		t.Errorf("LogDensity ignores the mean: the error is %v", err)
	}
}
