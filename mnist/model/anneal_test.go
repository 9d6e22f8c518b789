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

// annealed returns the lower bounds of two images of a model, their upper bounds, and the acceptance.
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
		t.Fatalf("%d chains have ended, %v", chains.Load(), err)
	}
	return append(lower, upper...), acceptance
}

func fixedSteps(steps int) (sizes []float64) {
	for range steps - 1 {
		sizes = append(sizes, 0.6)
	}
	return sizes
}

func TestBoundsDependOnlyOnStreams(t *testing.T) {
	const steps = 4
	a := Annealing{Steps: steps, Chains: 40, StepSizes: fixedSteps(steps)} // the chains of an image take two tapes
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	want, rate := annealed(t, a)
	runtime.GOMAXPROCS(4)
	if got, r := annealed(t, a); !slices.Equal(got, want) || r != rate {
		t.Errorf("GOMAXPROCS changes %v, %v to %v, %v", want, rate, got, r)
	}
	if want[0] == want[1] || want[0] == want[2] {
		t.Errorf("bounds of two images from both sides are %v", want)
	}
}

// Compares chains in several blocks with the same chains one by one. An image's bound must be
// log 1/n Σ p̂ or −log 1/n Σ 1/p̂ over its chains, each with the image's pixels and z and a separate
// stream. With 16 chains, the default, three images fill a block, so that seven images take three
// blocks. With 20 chains, a block ends within an image.
func TestBoundsEqualThoseFromSingleChains(t *testing.T) {
	c := Config{Kind: "vae", Tempering: "none", Latent: 3}
	params := NewParams[float32](c, -1, 1)
	for _, p := range params { // so that images and their z matter
		linalg.Scale(p.Value, 2, p.Value)
	}
	x, z, err := Simulate(t.Context(), c, params, 7, func(image int) *rand.Rand { return random.Stream(1, "image", image) })
	if err != nil {
		t.Fatal(err)
	}
	columns := func(m linalg.Matrix[float32], lo, hi int) linalg.Matrix[float32] {
		some := linalg.New[float32](m.Rows, min(hi, m.Cols)-min(lo, m.Cols))
		for i := range some.Rows {
			copy(some.Row(i), m.Row(i)[min(lo, m.Cols):])
		}
		return some
	}
	for chains, images := range map[int]int{16: 7, 20: 3} {
		for direction, z := range map[float64]linalg.Matrix[float32]{1: {}, -1: z} {
			stream := func(image, chain int) *rand.Rand { return random.Stream(2, "chain", image, chain) }
			a := Annealing{Steps: 2, Chains: chains, StepSizes: fixedSteps(2)}
			bounds, rate, err := a.Bound(t.Context(), c, params, columns(x, 0, images), columns(z, 0, images), stream, func(int) {})
			if err != nil {
				t.Fatal(err)
			}
			a.Chains = 1
			rates := 0.0
			for i, got := range bounds {
				sum := 0.0
				var first float64
				for chain := range chains {
					one, r, err := a.Bound(t.Context(), c, params, columns(x, i, i+1), columns(z, i, i+1), func(int, int) *rand.Rand { return stream(i, chain) }, func(int) {})
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
					t.Errorf("%d chains, direction %v: the bound of image %d is %.4f, from single chains %.4f", chains, direction, i, got, want)
				}
			}
			if !(math.Abs(rate-rates) <= 1e-3) || !(rate > 0.1 && rate < 0.98) {
				t.Errorf("%d chains, direction %v: the acceptance is %.4f, from single chains %.4f", chains, direction, rate, rates)
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
	if many > few+few/10 {
		t.Errorf("2 steps took %d bytes, 20 steps %d bytes", few, many)
	}
}

func TestAnnealingEndsWithItsContext(t *testing.T) {
	c := Config{Kind: "vae", Tempering: "none", Latent: 3}
	params := NewParams[float32](c, -1, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	one := func(int) *rand.Rand { return random.Stream(1, "one") }
	a := Annealing{Steps: 2, Chains: 1}
	if _, _, err := Simulate(ctx, c, params, 1, one); err == nil {
		t.Error("Simulate does not end")
	}
	x := linalg.New[float32](pixels, 1)
	if err := a.Tune(ctx, c, params, x, one); err == nil {
		t.Error("Tune does not end")
	}
	a.StepSizes = fixedSteps(2)
	if _, _, err := a.Bound(ctx, c, params, x, linalg.Matrix[float32]{}, nil, nil); err == nil {
		t.Error("Bound does not end")
	}
}

func TestSimulatedPixelsHaveTheDecodersProbabilities(t *testing.T) {
	// The fraction p of the pixels with a probability near p must be 1.
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
	network, _ := NewNetwork(&tape, c, params, false)
	probability := ad.Sigmoid(network.Decode(tape.Const(z))).Value
	sum, variance := 0.0, 0.0
	for i, p := range probability.Data {
		if x.Data[i] != 0 && x.Data[i] != 1 {
			t.Fatalf("a pixel is %v", x.Data[i])
		}
		p := float64(p)
		sum += (float64(x.Data[i]) - p) * (p - 0.5)
		variance += p * (1 - p) * (p - 0.5) * (p - 0.5)
	}
	if score := sum / math.Sqrt(variance); !(score*score <= 4.5*4.5) || variance < 50 {
		t.Errorf("pixels differ from their probabilities by %.1f standard errors (variance %.0f)", score, variance)
	}
}
