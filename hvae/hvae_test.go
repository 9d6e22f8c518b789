package hvae_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"hvae/ad"
	"hvae/hvae"
	"hvae/hvae/hvaetest"
	"hvae/linalg"
	"hvae/linalg/random"
)

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

// climb returns a function that updates theta by one step of the optimiser o. It also returns theta.
func climb[T linalg.Float](o hvae.Optimiser[T], theta ...T) (ascend func(gradient ...T), moved []T) {
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

func TestAdamaxMatchesItsFormula(t *testing.T) {
	const rate = 0.01
	ascend, p := climb(hvae.NewAdamax(rate), 1)
	theta, m, u := 1.0, 0.0, 0.0
	for i, g := range []float64{1e-8, 3, -1, 0.5, 0, -7} { // the first gradient equals ε, as in g/(|g| + ε) = ½
		ascend(g)
		m, u = 0.9*m+0.1*g, math.Max(0.999*u, math.Abs(g))
		theta += rate / (1 - math.Pow(0.9, float64(i+1))) * m / (u + 1e-8)
		if !(math.Abs(p[0]-theta) <= 1e-14) {
			t.Errorf("θ is %v after gradient %d, want %v", p[0], i+1, theta)
		}
	}
}

func TestAdamaxKeepsParametersWithZeroGradients(t *testing.T) {
	ascend, p := climb(hvae.NewAdamax[float32](0.1), 1, 2, 3)
	for range 3 {
		ascend(0, 1, 0)
	}
	if p[0] != 1 || p[1] <= 2 || p[2] != 3 {
		t.Errorf("with the gradient [0 1 0], the parameters changed from [1 2 3] to %v; only the second may increase", p)
	}
}

// The expected k̂ comes from a separate program. It uses the formulas of the function gpdfit in loo, the
// R package by the authors of Pareto smoothed importance sampling.
func TestTailShapeAgreesWithAnotherImplementation(t *testing.T) {
	logs := make([]float64, 200)
	for i := range logs {
		logs[i] = -0.7*math.Log((float64(i)+0.5)/200) + 0.3*math.Sin(float64(i))
	}
	if got, want := hvae.ImportanceEstimate(logs).TailShape, 0.6563716089575686; !(math.Abs(got-want) <= 1e-9) {
		t.Errorf("k̂ = %v, want %v", got, want)
	}
}

func TestTailShapeMatchesParetoDistribution(t *testing.T) {
	// If u is uniform on (0, 1), the weight p̂ = u^−k has the tail P(p̂ > w) = w^(−1/k). The fit k̂ to n
	// weights in the tail has standard deviation (1 + k)/√n. Its mean must be (k·n + ½·10)/(n + 10),
	// because the weak prior of tailShape shifts the mean from k towards ½.
	rng := rand.New(rand.NewPCG(2, 2))
	for _, c := range []struct {
		draws, repeats, n int
		bias              float64 // largest allowed bias of the fit, divided by k
	}{{10000, 20, 300, 0.01}, {100, 4000, 20, 0.07}} {
		for _, k := range []float64{0.2, 0.5, 0.7, 1, 2} {
			mean := 0.0
			for range c.repeats {
				logs := make([]float64, c.draws)
				for i := range logs {
					logs[i] = -700 - k*math.Log(1-rng.Float64())
				}
				mean += hvae.ImportanceEstimate(logs).TailShape / float64(c.repeats)
			}
			want := (k*float64(c.n) + 5) / float64(c.n+10)
			if !(math.Abs(mean-want) <= 4.5*(1+k)/math.Sqrt(float64(c.n*c.repeats))+c.bias*k) {
				t.Errorf("%d weights with tail shape %v: the mean of k̂ is %.3f, want %.3f", c.draws, k, mean, want)
			}
		}
	}
}

// free is the target with log p(x, z) = 0 for all z.
type free struct{}

func (free) LogJoint(z *ad.Var[float64]) *ad.Var[float64] {
	return ad.Scale(ad.SumTo(z, 1, z.Cols()), 0)
}

// unsummed is an invalid target. Its LogJoint returns a matrix [ℓ×B] instead of [1×B].
type unsummed struct{}

func (unsummed) LogJoint(z *ad.Var[float64]) *ad.Var[float64] {
	return ad.Scale(ad.Square(z), -0.5)
}

// summed is an invalid target. Its PotentialGradient returns a matrix [1×B] instead of [ℓ×B].
type summed struct{ free }

func (summed) PotentialGradient(z *ad.Var[float64]) *ad.Var[float64] {
	return ad.SumTo(z, 1, z.Cols())
}

// flat is an invalid variational prior. Its Draw returns a log density [1×1] instead of [1×B].
type flat struct{}

func (flat) Draw(epsilon *ad.Var[float64]) (z0, logDensity *ad.Var[float64]) {
	return epsilon, epsilon.Tape().Scalar(0)
}

func TestShapeMismatchPanicsWithBothShapes(t *testing.T) {
	var tp ad.Tape[float64]
	state := hvae.Phase[float64]{Z: tp.Fill(2, 3, 0), Rho: tp.Fill(2, 3, 0)}
	his := func(f *hvae.Flow[float64]) hvae.Sample[float64] {
		return hvae.HIS(f, hvae.StandardNormal[float64]{}, state.Z, state.Rho)
	}
	for want, f := range map[string]func(){
		"position [2×3] and momentum [3×2]": func() {
			(&hvae.Flow[float64]{}).Forward(hvae.Phase[float64]{Z: tp.Fill(2, 3, 0), Rho: tp.Fill(3, 2, 0)})
		},
		"Flow.StepSize is [1×3] for z [2×3]; it must be [1×2], or [1×2] with one row per step": func() {
			(&hvae.Flow[float64]{Target: free{}, K: 1, StepSize: tp.Fill(1, 3, 0.1)}).Forward(state)
		},
		"Flow.StepSize is [2×2] for z [2×3]; it must be [1×2], or [3×2] with one row per step": func() {
			(&hvae.Flow[float64]{Target: free{}, K: 3, StepSize: tp.Fill(2, 2, 0.1)}).Forward(state)
		},
		"Flow.StepSize is nil for K = 3 steps; it must be [1×2]": func() {
			(&hvae.Flow[float64]{Target: free{}, K: 3}).Forward(state)
		},
		"FreeTempering: α is [4×1] for a flow of K = 3 steps; it must be [3×1]": func() {
			(&hvae.Flow[float64]{Target: free{}, K: 3, StepSize: tp.Fill(1, 2, 0.1), Tempering: hvae.FreeTempering(tp.Fill(4, 1, 0.9))}).Forward(state)
		},
		"1/√β₀ is [2×1]; it must be [1×1]":                 func() { hvae.FixedTempering(tp.Fill(2, 1, 1.5)) },
		"Unconstrain: 0.6 is not in the interval (0, 0.5)": func() { hvae.Unconstrain(0.6, 0, 0.5) },
		"EntropyELBO: the variational prior hvae.StandardNormal[float64] has no method Entropy": func() {
			his(&hvae.Flow[float64]{Target: free{}}).EntropyELBO()
		},
		"log joint density is [2×3] for z [2×3]; it must be [1×3]": func() {
			his(&hvae.Flow[float64]{Target: unsummed{}}).LogEstimate()
		},
		"density is [2×3] for z [2×3]": func() {
			his(&hvae.Flow[float64]{Target: unsummed{}}).ELBO()
		},
		"the target's log joint density is [2×3]": func() {
			(&hvae.Flow[float64]{Target: unsummed{}, K: 1, StepSize: tp.Fill(1, 2, 0.1)}).Forward(state)
		},
		"potential gradient is [1×3] for z [2×3]; it must be [2×3]": func() {
			(&hvae.Flow[float64]{Target: summed{}, K: 1, StepSize: tp.Fill(1, 2, 0.1)}).Forward(state)
		},
		"log q⁰(z₀) of the variational prior is [1×1] for z [2×3]; it must be [1×3]": func() {
			hvae.HIS(&hvae.Flow[float64]{Target: free{}}, flat{}, state.Z, state.Rho)
		},
	} {
		mustPanic(t, want, f)
	}
}

// Path must start at its argument and end at the result of Forward. The Energy of each phase must be
// H(z, ρ) = ½ρᵀρ − log p(x, z).
func TestPathEndsAtResultOfForward(t *testing.T) {
	var tape ad.Tape[float64]
	const K = 3
	target := hvaetest.Bimodal{Dims: 2}
	f := hvae.Flow[float64]{
		Target: target, K: K, Tempering: hvae.FreeTempering(tape.Const(linalg.Column(0.9, 0.7, 0.8))),
		StepSize: tape.Const(linalg.Of(K, 2, []float64{0.1, 0.2, 0.3, 0.15, 0.25, 0.05})),
	}
	rng := random.Stream(1, "path")
	start := hvae.Phase[float64]{Z: hvae.Noise(&tape, rng, 2, 5), Rho: hvae.Noise(&tape, rng, 2, 5)}
	path, end := f.Path(start), f.Forward(start)
	if len(path) != K+1 || path[0].Z != start.Z || !slices.Equal(path[K].Z.Value.Data, end.Z.Value.Data) || !slices.Equal(path[K].Rho.Value.Data, end.Rho.Value.Data) {
		t.Errorf("Path returns %d phases and ends at z = %v, but Forward returns z = %v", len(path), path[len(path)-1].Z.Value, end.Z.Value)
	}
	for k, s := range path {
		logJoint, H := target.LogJoint(s.Z).Value, s.Energy(target).Value
		for i := range 5 {
			x, y := s.Rho.Value.At(0, i), s.Rho.Value.At(1, i)
			if want := (x*x+y*y)/2 - logJoint.At(0, i); !(math.Abs(H.At(0, i)-want) <= 1e-12) {
				t.Errorf("H(z_%d, ρ_%d) of column %d is %v, want %v", k, k, i, H.At(0, i), want)
			}
		}
	}
}
