package hvae_test

import (
	"fmt"
	"math"
	"testing"

	"hvae/ad"
	"hvae/hvae"
	"hvae/hvae/hvaetest"
	"hvae/linalg"
	"hvae/linalg/random"
)

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
