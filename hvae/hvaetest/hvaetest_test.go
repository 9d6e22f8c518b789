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

func newStudentT(scale float64) func(t *ad.Tape[float64]) hvae.Target[float64] {
	return func(t *ad.Tape[float64]) hvae.Target[float64] { return studentT{t.Scalar(scale)} }
}

func (t studentT) LogJoint(z *ad.Var[float64]) *ad.Var[float64] {
	return ad.Scale(ad.SumTo(ad.Log(ad.AddConst(ad.Square(ad.Div(z, t.scale)), 3)), 1, z.Cols()), -2)
}

// TestTarget checks a new target, and TestFlow checks a flow for it, including the flow's Jacobian determinant.
func ExampleTestTarget() {
	fmt.Println(hvaetest.TestTarget(newStudentT(1), 2))
	fmt.Println(hvaetest.TestFlow(func(t *ad.Tape[float64]) *hvae.Flow[float64] {
		tempering := hvae.FixedTempering(3, t.Scalar(1.4))
		return &hvae.Flow[float64]{Target: newStudentT(1)(t), K: 3, StepSize: t.Fill(1, 2, 0.3), Tempering: tempering}
	}, 2))
	// Output:
	// <nil>
	// <nil>
}

// A customTarget is a target built from two functions.
type customTarget struct {
	logJoint, gradU func(z *ad.Var[float64]) *ad.Var[float64]
}

func (c customTarget) LogJoint(z *ad.Var[float64]) *ad.Var[float64]          { return c.logJoint(z) }
func (c customTarget) PotentialGradient(z *ad.Var[float64]) *ad.Var[float64] { return c.gradU(z) }

// always returns a function that returns the given target for every tape.
func always(target hvae.Target[float64]) func(*ad.Tape[float64]) hvae.Target[float64] {
	return func(*ad.Tape[float64]) hvae.Target[float64] { return target }
}

func TestTestTargetAcceptsRightAndReportsWrongTargets(t *testing.T) {
	quartic := func(z *ad.Var[float64]) *ad.Var[float64] { // −Σ z⁴/4
		return ad.Scale(ad.SumTo(ad.Square(ad.Square(z)), 1, z.Cols()), -0.25)
	}
	mixed := func(z *ad.Var[float64]) *ad.Var[float64] { return ad.Add(quartic(z), ad.Sum(z)) }
	cube := func(z *ad.Var[float64]) *ad.Var[float64] { return ad.Mul(ad.Square(z), z) }
	negative := func(z *ad.Var[float64]) *ad.Var[float64] { return ad.Neg(cube(z)) }
	constant := func(z *ad.Var[float64]) *ad.Var[float64] { return z.Tape().Const(cube(z).Value) }
	for _, c := range []struct {
		bind   func(*ad.Tape[float64]) hvae.Target[float64]
		want   string
		points [][]float64
	}{
		{always(customTarget{quartic, cube}), "<nil>", nil},
		{always(hvaetest.Quadratic{Omega: 1000}), "<nil>", nil},
		{newStudentT(0.01), "<nil>", [][]float64{{0.003, 0.01}}},
		{newStudentT(1e-5), "cannot check", [][]float64{{1e-5, 1e-5}}},
		{always(customTarget{ad.Sum[float64], cube}), "log p(x, z) is [1×1], not [1×3]", nil},
		{always(customTarget{mixed, cube}), "among other columns", nil},
		{always(customTarget{quartic, negative}), "of the gradient of U", nil},
		{always(customTarget{quartic, constant}), "of the gradient of vᵀ∇U", nil},
		{always(customTarget{quartic, negative}), "<nil>", [][]float64{{0, 0}}}, // the derivatives of z⁴/4 at z = 0 are zero
	} {
		if got := fmt.Sprint(hvaetest.TestTarget(c.bind, 2, c.points...)); !strings.Contains(got, c.want) {
			t.Errorf("TestTarget returns %q, want %q", got, c.want)
		}
	}
}

func TestTestFlowReportsWrongFlows(t *testing.T) {
	for want, change := range map[string]func(call int, tape *ad.Tape[float64], f *hvae.Flow[float64]){
		"<nil>": func(int, *ad.Tape[float64], *hvae.Flow[float64]) {},
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
		calls := 0
		err := hvaetest.TestFlow(func(t *ad.Tape[float64]) *hvae.Flow[float64] {
			f := &hvae.Flow[float64]{Target: hvaetest.Bimodal, K: 5, StepSize: t.Fill(5, 2, 0.3)}
			f.Tempering = hvae.FreeTempering(t.Const(linalg.Of(5, 2, []float64{0.9, 0.8, 0.7, 1, 0.8, 0.6, 1, 0.9, 0.5, 0.7})))
			change(calls, t, f)
			calls++
			return f
		}, 2)
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("TestFlow returns the error %v, want %q", err, want)
		}
	}
}

func TestMisuseOfChecksPanics(t *testing.T) {
	target := always(hvaetest.Quadratic{Omega: 1})
	flow := func(*ad.Tape[float64]) *hvae.Flow[float64] {
		return &hvae.Flow[float64]{Target: hvaetest.Quadratic{Omega: 1}}
	}
	prior := func(*ad.Tape[float64]) hvae.Prior[float64] { return hvae.StandardNormal[float64]{} }
	for want, f := range map[string]func(){
		"a point must have 3 elements, and at least 1; the points are [[1 2]]": func() { hvaetest.TestTarget(target, 3, []float64{1, 2}) },
		"a point must have 4 elements":                                         func() { hvaetest.TestFlow(flow, 2, []float64{1, 2, 3}) },
		"a point must have 0 elements, and at least 1; the points are []":      func() { hvaetest.TestPrior(prior, 0) },
	} {
		func() {
			defer func() {
				if message := fmt.Sprint(recover()); !strings.Contains(message, want) {
					t.Errorf("the panic %q does not contain %q", message, want)
				}
			}()
			f()
		}()
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

// A drawFunc is a function that implements Prior.
type drawFunc func(epsilon *ad.Var[float64]) (z0, logDensity *ad.Var[float64])

func (d drawFunc) Draw(epsilon *ad.Var[float64]) (z0, logDensity *ad.Var[float64]) { return d(epsilon) }

// shifted is a faulty prior. Its LogDensity ignores the mean, so it is not the density of the draws.
type shifted struct{ hvae.DiagonalNormal[float64] }

func (s shifted) LogDensity(z *ad.Var[float64]) *ad.Var[float64] {
	return s.DiagonalNormal.LogDensity(ad.Add(z, s.Mean))
}

func TestTestPriorAcceptsRightAndReportsWrongPriors(t *testing.T) {
	type tape = *ad.Tape[float64]
	rng := random.Stream(1, "noise of its own")
	always := func(d drawFunc) func(tape) hvae.Prior[float64] { return func(tape) hvae.Prior[float64] { return d } }
	for _, c := range []struct {
		want string
		bind func(t tape) hvae.Prior[float64]
	}{
		{"<nil>", func(tape) hvae.Prior[float64] { return hvae.StandardNormal[float64]{} }},
		{"<nil>", func(t tape) hvae.Prior[float64] {
			return hvae.DiagonalNormal[float64]{Mean: t.Fill(3, 1, 5), SD: t.Const(linalg.Column(0.01, 2, 0.1))}
		}},
		{"<nil>", func(t tape) hvae.Prior[float64] { // a mean and a standard deviation for each column
			return hvae.DiagonalNormal[float64]{Mean: t.Fill(3, 50, 5), SD: t.Fill(3, 50, 0.3)}
		}},
		{"<nil>", func(t tape) hvae.Prior[float64] { // the correlation is 0.999; elements above the diagonal have no effect
			below := t.Const(linalg.Of(3, 3, []float64{4, 7, -8, 0.999, 5, 9, 0.5, -3, 6}))
			return hvae.Normal[float64]{Mean: t.Fill(3, 1, 1), SD: t.Const(linalg.Column(1, 0.045, 0.2)), Below: below}
		}},
		{"<nil>", always(func(epsilon *ad.Var[float64]) (z0, logDensity *ad.Var[float64]) { // curved: z₂ = z₁² + 0.38 ε₂
			first, rest := ad.AddConst(ad.Scale(ad.RowRange(epsilon, 0, 1), 3.8), 1), ad.RowRange(epsilon, 1, 3)
			z0 = ad.Stack(first, ad.Add(ad.Square(first), ad.Scale(rest, 0.38)))
			return z0, ad.AddConst(hvae.LogNormal(epsilon), -math.Log(3.8*0.38*0.38))
		})},
		{"element 1 of log q⁰(z₀) at", always(func(epsilon *ad.Var[float64]) (z0, logDensity *ad.Var[float64]) {
			return ad.Scale(epsilon, 0.98), hvae.LogNormal(epsilon) // without the Jacobian
		})},
		{"z₀ must be a one-to-one function of ε", always(func(epsilon *ad.Var[float64]) (z0, logDensity *ad.Var[float64]) {
			logSlopes := ad.SumTo(ad.Log(ad.Scale(ad.Square(epsilon), 4)), 1, epsilon.Cols()) // 2 log |2ε|, summed
			return ad.Square(epsilon), ad.Sub(hvae.LogNormal(epsilon), ad.Scale(logSlopes, 0.5))
		})},
		{"they must depend on no other", always(func(epsilon *ad.Var[float64]) (z0, logDensity *ad.Var[float64]) {
			noise := linalg.New[float64](3, epsilon.Cols())
			random.FillNormal(rng, noise)
			return ad.Add(epsilon, ad.Scale(epsilon.Tape().Const(noise), 1e-3)), hvae.LogNormal(epsilon)
		})},
		{"they must depend on no other", always(func(epsilon *ad.Var[float64]) (z0, logDensity *ad.Var[float64]) {
			return ad.Add(epsilon, ad.Scale(ad.Sum(epsilon), 1e-3)), hvae.LogNormal(epsilon)
		})},
		{"log q⁰(z₀) is [3×50]", always(func(epsilon *ad.Var[float64]) (z0, logDensity *ad.Var[float64]) {
			return epsilon, ad.Square(epsilon)
		})},
		{"for 3 dimensions, z₀ is [1×50]", always(func(epsilon *ad.Var[float64]) (z0, logDensity *ad.Var[float64]) {
			return ad.RowRange(epsilon, 0, 1), hvae.LogNormal(epsilon)
		})},
		{"LogDensity", func(t tape) hvae.Prior[float64] {
			return shifted{hvae.DiagonalNormal[float64]{Mean: t.Fill(3, 1, 1), SD: t.Fill(3, 1, 1)}}
		}},
	} {
		if got := fmt.Sprint(hvaetest.TestPrior(c.bind, 3)); !strings.Contains(got, c.want) {
			t.Errorf("for %T, TestPrior returns %q, want %q", c.bind(new(ad.Tape[float64])), got, c.want)
		}
	}
}
