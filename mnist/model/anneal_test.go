package model

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"hvae/ad"
	"hvae/linalg"
	"hvae/linalg/random"
)

// annealed simulates two images. It returns their lower bounds followed by their upper bounds, and the
// acceptance rate.
func annealed(t *testing.T, a Annealing) (bounds []float64, acceptance float64) {
	t.Helper()
	c := Config{Kind: "vae", Tempering: "none", Latent: 3}
	params := NewParams[float32](c, -1, 1)
	stream := func(purpose string) func(image, chain int) *rand.Rand {
		return func(image, chain int) *rand.Rand { return random.Stream(1, purpose, image, chain) }
	}
	x, z, err := Simulate(t.Context(), c, params, 2, func(image int) *rand.Rand { return random.Stream(1, "image", image) })
	if err != nil {
		t.Fatal(err)
	}
	var chains atomic.Int64
	lower, acceptance, err := a.Bound(t.Context(), c, params, x, linalg.Matrix[float32]{}, stream("forward"), func(n int) { chains.Add(int64(n)) })
	if err != nil {
		t.Fatal(err)
	}
	upper, _, err := a.Bound(t.Context(), c, params, x, z, stream("reverse"), func(n int) { chains.Add(int64(n)) })
	if err != nil || chains.Load() != int64(4*a.Chains) {
		t.Fatalf("Bound reports %d finished chains and the error %v, want %d chains", chains.Load(), err, 4*a.Chains)
	}
	return append(lower, upper...), acceptance
}

func fixedSteps(steps int) []float64 { return slices.Repeat([]float64{0.6}, steps-1) }

func TestBoundsDependOnlyOnStreams(t *testing.T) {
	const steps = 4
	a := Annealing{Steps: steps, Chains: 40, StepSizes: fixedSteps(steps)} // the 80 chains take two tapes
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	want, rate := annealed(t, a)
	runtime.GOMAXPROCS(4)
	if got, r := annealed(t, a); !slices.Equal(got, want) || r != rate {
		t.Errorf("the bounds are %v for GOMAXPROCS = 1 and %v for 4, and the acceptance rates are %v and %v; want equal results", want, got, rate, r)
	}
	if want[0] == want[1] || want[0] == want[2] {
		t.Errorf("the lower and upper bounds of two images are %v, want different values", want)
	}
}

// The lower bound of an image must be log 1/n Σ p̂, and the upper bound −log 1/n Σ 1/p̂, where both sums are
// over its n chains. The expected values of p̂ come from calls to Bound for one image and one chain. A tape
// holds 48 chains, so the chains of an image share a tape for n = 16, but not always for n = 20.
func TestBoundsCombineAllChainsOfAnImage(t *testing.T) {
	c := Config{Kind: "vae", Tempering: "none", Latent: 3}
	params := NewParams[float32](c, -1, 1)
	for _, p := range params { // to make the results depend on x and z
		linalg.Scale(p.Value, 2, p.Value)
	}
	x, z, err := Simulate(t.Context(), c, params, 7, func(image int) *rand.Rand { return random.Stream(1, "image", image) })
	if err != nil {
		t.Fatal(err)
	}
	some := func(z linalg.Matrix[float32], lo, hi int) linalg.Matrix[float32] {
		if z.Cols == 0 {
			return z
		}
		return columns(z, lo, hi, 1)
	}
	for chains, images := range map[int]int{16: 7, 20: 3} {
		for direction, z := range map[float64]linalg.Matrix[float32]{1: {}, -1: z} {
			stream := func(image, chain int) *rand.Rand { return random.Stream(2, "chain", image, chain) }
			a := Annealing{Steps: 2, Chains: chains, StepSizes: fixedSteps(2)}
			bounds, rate, err := a.Bound(t.Context(), c, params, columns(x, 0, images, 1), some(z, 0, images), stream, func(int) {})
			if err != nil {
				t.Fatal(err)
			}
			a.Chains = 1
			rates := 0.0
			for i, got := range bounds {
				sum := 0.0
				var first float64
				for chain := range chains {
					one, r, err := a.Bound(t.Context(), c, params, columns(x, i, i+1, 1), some(z, i, i+1), func(int, int) *rand.Rand { return stream(i, chain) }, func(int) {})
					if err != nil {
						t.Fatal(err)
					}
					if chain == 0 {
						first = one[0]
					}
					sum += math.Exp(direction * (one[0] - first)) // p̂ or 1/p̂
					rates += r / float64(images*chains)
				}
				if want := first + direction*math.Log(sum/float64(chains)); !(math.Abs(got-want) <= 1e-3) {
					t.Errorf("%d chains, direction %v: the bound of image %d is %.4f, want %.4f", chains, direction, i, got, want)
				}
			}
			if !(math.Abs(rate-rates) <= 1e-3) || !(rate > 0.1 && rate < 0.98) {
				t.Errorf("%d chains, direction %v: the acceptance rate is %.4f, want %.4f, between 0.1 and 0.98", chains, direction, rate, rates)
			}
		}
	}
}

func TestMemoryOfBoundDoesNotDependOnSteps(t *testing.T) {
	allocated := func(steps int) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		annealed(t, Annealing{Steps: steps, Chains: 8, StepSizes: fixedSteps(steps)})
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	few, many := allocated(2), allocated(20)
	if many > few+few/2 { // each gradient allocates a network of about 15 kB; a tape that grows would need ten times as much
		t.Errorf("Bound allocates %d bytes for 2 steps and %d bytes for 20 steps, want at most 50 %% more", few, many)
	}
}

func TestAnnealingReturnsAnErrorAfterCancellation(t *testing.T) {
	c := Config{Kind: "vae", Tempering: "none", Latent: 3}
	params := NewParams[float32](c, -1, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	one := func(int) *rand.Rand { return random.Stream(1, "one") }
	a := Annealing{Steps: 2, Chains: 1}
	if _, _, err := Simulate(ctx, c, params, 1, one); err == nil {
		t.Error("after cancellation, Simulate returns no error")
	}
	x := linalg.New[float32](pixels, 1)
	if err := a.Tune(ctx, c, params, x, one); err == nil {
		t.Error("after cancellation, Tune returns no error")
	}
	a.StepSizes = fixedSteps(2)
	if _, _, err := a.Bound(ctx, c, params, x, linalg.Matrix[float32]{}, nil, nil); err == nil {
		t.Error("after cancellation, Bound returns no error")
	}
}

func TestSimulatedPixelsHaveTheDecodersProbabilities(t *testing.T) {
	// For pixels x with probabilities p, s = Σ (x − p)(p − ½) must have mean 0 and variance Σ p(1 − p)(p − ½)².
	c := Config{Kind: "vae", Tempering: "none", Latent: 3}
	params := NewParams[float32](c, 0, 1)
	for _, p := range params {
		linalg.Scale(p.Value, 4, p.Value)
	}
	const n = 40
	x, z, err := Simulate(t.Context(), c, params, n, func(image int) *rand.Rand { return random.Stream(2, "image", image) })
	if err != nil {
		t.Fatal(err)
	}
	var tape ad.Tape[float32]
	network := NewNetwork(c, Vars(tape.Const, params))
	probability := ad.Sigmoid(network.Decode(tape.Const(z))).Value
	sum, variance := 0.0, 0.0
	for i, p := range probability.Data {
		if x.Data[i] != 0 && x.Data[i] != 1 {
			t.Fatalf("a pixel is %v, want 0 or 1", x.Data[i])
		}
		p := float64(p)
		sum += (float64(x.Data[i]) - p) * (p - 0.5)
		variance += p * (1 - p) * (p - 0.5) * (p - 0.5)
	}
	if score := sum / math.Sqrt(variance); !(score*score <= 4.5*4.5) || variance < 50 {
		t.Errorf("s is %.1f standard deviations away from 0, and its variance is %.0f; want at most 4.5 deviations and a variance of at least 50", score, variance)
	}
}
