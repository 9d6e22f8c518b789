package hvae

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"hvae/ad"
	"hvae/linalg"
)

func TestAdamaxStepsAtItsRateWhateverTheScale(t *testing.T) {
	// Its property: a constant gradient, of any size, moves a parameter by the rate.
	for _, g := range []float64{1e-6, 1, 1e6} {
		o := NewAdamax(0.01)
		o.Epsilon = 0
		p := linalg.Column(0.0)
		for range 10 {
			o.Ascend([]linalg.Matrix[float64]{p}, []linalg.Matrix[float64]{linalg.Column(g)})
		}
		if !(math.Abs(p.Data[0]-0.1) <= 1e-12) {
			t.Errorf("gradient %v: ten steps of 0.01 led to %v", g, p.Data[0])
		}
	}
}

func TestAGradientOfAdamaxsEpsilonMovesHalfARate(t *testing.T) {
	p := linalg.Column(0.0)
	NewAdamax(0.01).Ascend([]linalg.Matrix[float64]{p}, []linalg.Matrix[float64]{linalg.Column(1e-8)}) // TensorFlow's ε
	if !(math.Abs(p.Data[0]-0.005) <= 1e-15) {
		t.Errorf("the step is %v, want 0.005", p.Data[0])
	}
}

func TestAskingForTheStateBeforeTheFirstStepChangesNothing(t *testing.T) {
	gradient := []linalg.Matrix[float64]{linalg.Column(2.0, -3)}
	run := func(ask bool) []float64 {
		o := NewAdamax(0.01)
		o.Start = 0.5
		p := []linalg.Matrix[float64]{linalg.Column(0.0, 0)}
		if ask {
			if step, mean, norm := o.State(p); step != 0 || !slices.Equal(mean[0], []float64{0, 0}) || !slices.Equal(norm[0], []float64{0.5, 0.5}) {
				t.Errorf("after no steps the state is %v, %v, %v", step, mean, norm)
			}
		}
		o.Ascend(p, gradient)
		return p[0].Data
	}
	if with, without := run(true), run(false); !slices.Equal(with, without) {
		t.Errorf("the first step leads to %v, without asking to %v", with, without)
	}
}

func TestOptimisersLeaveParametersWithoutGradientAlone(t *testing.T) {
	for _, o := range []Optimiser[float32]{NewRMSProp[float32](0.1), NewAdamax[float32](0.1)} {
		p := []linalg.Matrix[float32]{linalg.Column[float32](1, 2), linalg.Column[float32](3)}
		g := []linalg.Matrix[float32]{linalg.Column[float32](0, 1), linalg.Column[float32](0)}
		for range 3 {
			o.Ascend(p, g)
		}
		if p[0].Data[0] != 1 || p[0].Data[1] <= 2 || p[1].Data[0] != 3 {
			t.Errorf("%T: parameters became %v and %v", o, p[0].Data, p[1].Data)
		}
	}
}

func TestOptimisersClimb(t *testing.T) {
	// f(x) = −(x₁ − 1)² − 10(x₂ + 2)² from the origin.
	for _, o := range []Optimiser[float64]{NewRMSProp(0.01), NewAdamax(0.05)} {
		x := linalg.Column(0.0, 0)
		for range 2000 {
			g := linalg.Column(-2*(x.Data[0]-1), -20*(x.Data[1]+2))
			o.Ascend([]linalg.Matrix[float64]{x}, []linalg.Matrix[float64]{g})
		}
		if !(math.Abs(x.Data[0]-1) <= 0.02) || !(math.Abs(x.Data[1]+2) <= 0.02) {
			t.Errorf("%T ends at %v, want (1, −2)", o, x.Data)
		}
	}
}

func TestStreamsAreKeyed(t *testing.T) {
	draw := func(seed uint64, purpose string, index ...int) uint64 {
		return Stream(seed, purpose, index...).Uint64()
	}
	if a, b := draw(1, "noise", 2, 3), draw(1, "noise", 2, 3); a != b {
		t.Error("one key gives two streams")
	}
	seen := map[uint64]string{}
	for name, v := range map[string]uint64{
		"1 noise 2 3": draw(1, "noise", 2, 3), "2 noise 2 3": draw(2, "noise", 2, 3), "1 data 2 3": draw(1, "data", 2, 3),
		"1 noise 3 2": draw(1, "noise", 3, 2), "1 noise 2": draw(1, "noise", 2), "1 noise": draw(1, "noise"),
		"1 noise 2 3 0": draw(1, "noise", 2, 3, 0), "1 noise 2 3 1": draw(1, "noise", 2, 3, 1),
		"1 noise 2 3 4 5 6": draw(1, "noise", 2, 3, 4, 5, 6), "1 noise 2 3 4 5 7": draw(1, "noise", 2, 3, 4, 5, 7),
		// All of a seed, an index and a purpose counts.
		"1 + 2³² noise 2 3": draw(1+1<<32, "noise", 2, 3), "1 noise 2 3+2⁸": draw(1, "noise", 2, 3+1<<8), "1 noise 2+2¹⁶ 3": draw(1, "noise", 2+1<<16, 3),
		"1 a long purpose 1": draw(1, "a long purpose, the first of two"), "1 a long purpose 2": draw(1, "a long purpose, the first of twins"),
	} {
		if other, ok := seen[v]; ok {
			t.Errorf("%s and %s are one stream", name, other)
		}
		seen[v] = name
	}
}

func TestFillNormalIsStandardNormal(t *testing.T) {
	const n = 200000
	m := linalg.New[float64](2, n/2)
	FillNormal(Stream(1, "normal"), m)
	moment := func(k float64, want, variance float64) {
		sum := 0.0
		for _, v := range m.Data {
			sum += math.Pow(v, k)
		}
		if z := (sum/n - want) / math.Sqrt(variance/n); !(math.Abs(z) <= 4.5) {
			t.Errorf("E[x^%v] = %v, want %v (z = %.1f)", k, sum/n, want, z)
		}
	}
	moment(1, 0, 1)
	moment(2, 1, 2)
	moment(3, 0, 15)
	moment(4, 3, 96)
}

// free is a target without potential.
type free struct{}

func (free) LogJoint(z *ad.Var[float64]) *ad.Var[float64] {
	return ad.Scale(ad.SumTo(z, 1, z.Cols()), 0)
}

// unsummed is a target that forgets to sum over dimensions.
type unsummed struct{}

func (unsummed) LogJoint(z *ad.Var[float64]) *ad.Var[float64] {
	return ad.Scale(ad.Square(z), -0.5)
}

// summed is a target whose gradient is summed over dimensions.
type summed struct{ free }

func (summed) PotentialGradient(z *ad.Var[float64]) *ad.Var[float64] {
	return ad.SumTo(z, 1, z.Cols())
}

func TestMisfitsPanicAndNameTheShapes(t *testing.T) {
	var tp ad.Tape[float64]
	state := Phase[float64]{Z: tp.Fill(2, 3, 0), Rho: tp.Fill(2, 3, 0)}
	column := func(v ...float64) []linalg.Matrix[float64] { return []linalg.Matrix[float64]{linalg.Column(v...)} }
	for want, f := range map[string]func(){
		"position [2×3] and momentum [3×2]": func() {
			(&Flow[float64]{}).Forward(Phase[float64]{Z: tp.Fill(2, 3, 0), Rho: tp.Fill(3, 2, 0)})
		},
		"step sizes [1×3] do not fit 1 steps of [2×3]": func() {
			(&Flow[float64]{Target: free{}, K: 1, StepSize: tp.Fill(1, 3, 0.1)}).Forward(state)
		},
		"step sizes [2×2] do not fit 3 steps": func() {
			(&Flow[float64]{Target: free{}, K: 3, StepSize: tp.Fill(2, 2, 0.1)}).Inverse(state)
		},
		"schedule [4×1] for a flow of 3 steps": func() {
			(&Flow[float64]{Target: free{}, K: 3, StepSize: tp.Fill(1, 2, 0.1), Tempering: FixedTempering(tp.Scalar(2), 4)}).Forward(state)
		},
		"log joint density is [2×3] for z [2×3], which needs [1×3]": func() {
			HIS(&Flow[float64]{Target: unsummed{}}, state.Z, tp.Fill(1, 3, 0), state.Rho).LogEstimate()
		},
		"density is [2×3] for z [2×3]": func() {
			HIS(&Flow[float64]{Target: unsummed{}}, state.Z, tp.Fill(1, 3, 0), state.Rho).ELBO()
		},
		"the target's log joint density is [2×3]": func() {
			(&Flow[float64]{Target: unsummed{}, K: 1, StepSize: tp.Fill(1, 2, 0.1)}).Forward(state)
		},
		"potential gradient is [1×3] for z [2×3], which needs [2×3]": func() {
			(&Flow[float64]{Target: summed{}, K: 1, StepSize: tp.Fill(1, 2, 0.1)}).Forward(state)
		},
		"log q⁰(z₀) is [1×1] for z [2×3], which needs [1×3]": func() {
			HIS(&Flow[float64]{Target: free{}}, state.Z, tp.Scalar(0), state.Rho)
		},
		"1 parameters, 0 gradients": func() { NewRMSProp(0.1).Ascend(column(1), nil) },
		"is [2×1], its gradient [1×1]": func() {
			NewAdamax(0.1).Ascend(column(1, 2), column(1))
		},
	} {
		func() {
			defer func() {
				if msg := fmt.Sprint(recover()); !strings.Contains(msg, want) {
					t.Errorf("panic %q does not contain %q", msg, want)
				}
			}()
			f()
		}()
	}
}
