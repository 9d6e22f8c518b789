package hvaetest_test

import (
	"strings"
	"testing"

	"hvae/ad"
	"hvae/hvae"
	"hvae/hvae/hvaetest"
	"hvae/linalg"
)

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
