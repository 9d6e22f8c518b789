package hvae

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"hvae/ad"
	"hvae/linalg"
)

// climb returns the parameters theta and a function that updates them by one step of o.
func climb[T linalg.Float](o Optimiser[T], theta ...T) (ascend func(gradient ...T), moved []T) {
	var averages [][]T
	for _, start := range o.Start() {
		averages = append(averages, slices.Repeat([]T{start}, len(theta)))
	}
	step := 0
	return func(gradient ...T) {
		step++
		o.Ascend(step, theta, gradient, averages)
	}, theta
}

func TestAdamaxStepsDoNotDependOnScale(t *testing.T) {
	// With a constant gradient of any size, each step moves a parameter by the rate.
	for _, g := range []float64{1e-6, 1, 1e6} {
		o := NewAdamax(0.01)
		o.Epsilon = 0
		ascend, p := climb(o, 0)
		for range 10 {
			ascend(g)
		}
		if !(math.Abs(p[0]-0.1) <= 1e-12) {
			t.Errorf("gradient %v: ten steps with rate 0.01 led from 0 to %v, want 0.1", g, p[0])
		}
	}
}

func TestAdamaxStepIsHalvedForGradientEpsilon(t *testing.T) {
	ascend, p := climb(NewAdamax(0.01), 0)
	ascend(1e-8) // ε, as in TensorFlow: g/(|g| + ε) = ½
	if !(math.Abs(p[0]-0.005) <= 1e-15) {
		t.Errorf("the step is %v, want 0.005", p[0])
	}
}

func TestAdamaxKeepsParametersWithZeroGradients(t *testing.T) {
	ascend, p := climb(NewAdamax[float32](0.1), 1, 2, 3)
	for range 3 {
		ascend(0, 1, 0)
	}
	if p[0] != 1 || p[1] <= 2 || p[2] != 3 {
		t.Errorf("the parameters changed from [1 2 3] to %v, but the gradient was [0 1 0]", p)
	}
}

func TestAdamaxFindsMaximum(t *testing.T) {
	// f(x) = −(x₁ − 1)² − 10(x₂ + 2)² from the origin.
	ascend, x := climb(NewAdamax(0.05), 0, 0)
	for range 2000 {
		ascend(-2*(x[0]-1), -20*(x[1]+2))
	}
	if !(math.Abs(x[0]-1) <= 0.02) || !(math.Abs(x[1]+2) <= 0.02) {
		t.Errorf("the parameters end at %v, want (1, −2)", x)
	}
}

func TestTailShapeOfParetoWeights(t *testing.T) {
	// For uniform u, p̂ = u^−k has the tail P(p̂ > w) = w^(−1/k). A fit to n weights in the tail
	// has standard deviation (1 + k)/√n. The prior shrinks it towards ½ like 10 more weights.
	rng := rand.New(rand.NewPCG(2, 2))
	for _, c := range []struct {
		draws, repeats, n int
		bias              float64 // largest allowed bias of the fit for k = 1
	}{{10000, 20, 300, 0.01}, {100, 4000, 20, 0.07}} {
		for _, k := range []float64{0.2, 0.5, 0.7, 1, 2} {
			mean := 0.0
			for range c.repeats {
				logs := make([]float64, c.draws)
				for i := range logs {
					logs[i] = -700 - k*math.Log(1-rng.Float64())
				}
				mean += ImportanceEstimate(logs).TailShape / float64(c.repeats)
			}
			want := (k*float64(c.n) + 5) / float64(c.n+10)
			if !(math.Abs(mean-want) <= 4.5*(1+k)/math.Sqrt(float64(c.n*c.repeats))+c.bias*k) {
				t.Errorf("%d weights with tail shape %v: the mean of k̂ is %.3f, want %.3f", c.draws, k, mean, want)
			}
		}
	}
}

// free is a target with constant density, so its potential is zero.
type free struct{}

func (free) LogJoint(z *ad.Var[float64]) *ad.Var[float64] {
	return ad.Scale(ad.SumTo(z, 1, z.Cols()), 0)
}

// unsummed is a target that forgets to sum over dimensions.
type unsummed struct{}

func (unsummed) LogJoint(z *ad.Var[float64]) *ad.Var[float64] {
	return ad.Scale(ad.Square(z), -0.5)
}

// summed is a target that wrongly sums its gradient over dimensions.
type summed struct{ free }

func (summed) PotentialGradient(z *ad.Var[float64]) *ad.Var[float64] {
	return ad.SumTo(z, 1, z.Cols())
}

// flat is a variational prior that wrongly returns one density for all columns.
type flat struct{}

func (flat) Draw(epsilon *ad.Var[float64]) (z0, logDensity *ad.Var[float64]) {
	return epsilon, epsilon.Tape().Scalar(0)
}

func TestShapeMismatchPanicsWithBothShapes(t *testing.T) {
	var tp ad.Tape[float64]
	state := Phase[float64]{Z: tp.Fill(2, 3, 0), Rho: tp.Fill(2, 3, 0)}
	his := func(f *Flow[float64]) Sample[float64] {
		return HIS(f, StandardNormal[float64]{}, state.Z, state.Rho)
	}
	for want, f := range map[string]func(){
		"position [2×3] and momentum [3×2]": func() {
			(&Flow[float64]{}).Forward(Phase[float64]{Z: tp.Fill(2, 3, 0), Rho: tp.Fill(3, 2, 0)})
		},
		"Flow.StepSize is [1×3] for z [2×3]; it must be [1×2], or [1×2] with one row per step": func() {
			(&Flow[float64]{Target: free{}, K: 1, StepSize: tp.Fill(1, 3, 0.1)}).Forward(state)
		},
		"Flow.StepSize is [2×2] for z [2×3]; it must be [1×2], or [3×2] with one row per step": func() {
			(&Flow[float64]{Target: free{}, K: 3, StepSize: tp.Fill(2, 2, 0.1)}).Forward(state)
		},
		"Flow.StepSize is nil for K = 3 steps; it must be [1×2]": func() {
			(&Flow[float64]{Target: free{}, K: 3}).Forward(state)
		},
		"FreeTempering: α is [4×1] for a flow of K = 3 steps; it must be [3×1]": func() {
			(&Flow[float64]{Target: free{}, K: 3, StepSize: tp.Fill(1, 2, 0.1), Tempering: FreeTempering(tp.Fill(4, 1, 0.9))}).Forward(state)
		},
		"1/√β₀ is [2×1]; it must be [1×1]":                 func() { FixedTempering(tp.Fill(2, 1, 1.5)) },
		"Unconstrain: 0.6 is not in the interval (0, 0.5)": func() { Unconstrain(0.6, 0, 0.5) },
		"EntropyELBO: the variational prior hvae.StandardNormal[float64] has no method Entropy": func() {
			his(&Flow[float64]{Target: free{}}).EntropyELBO()
		},
		"log joint density is [2×3] for z [2×3]; it must be [1×3]": func() {
			his(&Flow[float64]{Target: unsummed{}}).LogEstimate()
		},
		"density is [2×3] for z [2×3]": func() {
			his(&Flow[float64]{Target: unsummed{}}).ELBO()
		},
		"the target's log joint density is [2×3]": func() {
			(&Flow[float64]{Target: unsummed{}, K: 1, StepSize: tp.Fill(1, 2, 0.1)}).Forward(state)
		},
		"potential gradient is [1×3] for z [2×3]; it must be [2×3]": func() {
			(&Flow[float64]{Target: summed{}, K: 1, StepSize: tp.Fill(1, 2, 0.1)}).Forward(state)
		},
		"log q⁰(z₀) of the variational prior is [1×1] for z [2×3]; it must be [1×3]": func() {
			HIS(&Flow[float64]{Target: free{}}, flat{}, state.Z, state.Rho)
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
