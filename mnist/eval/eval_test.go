package eval

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"hvae/ad"
	"hvae/linalg"
	"hvae/linalg/random"
	"hvae/mnist/data"
	"hvae/mnist/model"
)

// checkpoint returns a model with large weights, so that its results depend strongly on x and z.
func checkpoint(config model.Config) model.Checkpoint {
	c := model.Checkpoint{Network: model.New[float32](config, -1, 1)}
	for _, p := range c.Params() {
		linalg.Scale(p.Value, 2, p.Value)
	}
	return c
}

var vae = model.Config{Kind: "vae", Tempering: "none", Latent: 3}

func streams(purpose string) func(index ...int) *rand.Rand {
	return func(index ...int) *rand.Rand { return random.Stream(1, purpose, index...) }
}

// Step sizes must not be tuned on the evaluated images, because this would bias the bounds. In this test, validation
// images are white and test images are black.
func TestStepSizesAreTunedOnValidationImages(t *testing.T) {
	set := data.Set{
		Name:  "test",
		Train: data.Images{Pixels: bytes.Repeat([]byte{255}, 120*data.Side*data.Side)},
		Test:  data.Images{Pixels: make([]byte, 120*data.Side*data.Side)},
	}
	m := Images{Set: &set, N: 2, Seed: 1}
	tuning := m.drawForTuning(t.Context(), model.Checkpoint{Seed: 1})
	evaluated, _ := m.draw(t.Context(), model.Checkpoint{}, 0)
	if tuning.Cols != 16 || slices.Min(tuning.Data) != 1 || evaluated.Cols != 2 || slices.Max(evaluated.Data) != 0 {
		t.Errorf("%d images for tuning and %d for the evaluation, want 16 white and 2 black images", tuning.Cols, evaluated.Cols)
	}
}

// For simulated pixels x with probabilities p, s = Σ (x − p)(p − ½) must have mean 0 and variance Σ p(1 − p)(p − ½)².
func TestSimulatedPixelsHaveTheDecodersProbabilities(t *testing.T) {
	c := checkpoint(vae)
	x, z := Simulate(t.Context(), c, 40, streams("image"))
	var tape ad.Tape[float32]
	network := c.Const(&tape)
	sum, variance := 0.0, 0.0
	for i, p := range ad.Sigmoid(network.Decode(tape.Const(z))).Value.Data {
		p, pixel := float64(p), float64(x.Data[i])
		if pixel != 0 && pixel != 1 {
			t.Fatalf("a pixel is %v, want 0 or 1", pixel)
		}
		sum += (pixel - p) * (p - 0.5)
		variance += p * (1 - p) * (p - 0.5) * (p - 0.5)
	}
	if score := sum / math.Sqrt(variance); !(math.Abs(score) <= 4.5) || variance < 50 {
		t.Errorf("s is %.1f standard deviations away from 0, and its variance is %.0f; want at most 4.5 deviations and a variance of at least 50", score, variance)
	}
}

// The lower bound of an image must be log (1/n Σ p̂), and its upper bound must be −log (1/n Σ 1/p̂), where both sums
// are over its n chains. The values of p̂ come from calls to Bound for one image and one chain. A tape holds 48 chains,
// so all chains of an image are on one tape for n = 16, but not always for n = 20.
func TestBoundsCombineAllChainsOfAnImage(t *testing.T) {
	c, stepSizes := checkpoint(vae), []float64{0.6}
	x, z := Simulate(t.Context(), c, 7, streams("image"))
	for chains, images := range map[int]int{16: 7, 20: 3} {
		for sign, z := range map[float64]linalg.Matrix[float32]{1: {}, -1: z} {
			bound := func(chains, lo, hi, chain int) ([]float64, float64) {
				columns := func(m linalg.Matrix[float32]) linalg.Matrix[float32] {
					if m.Cols == 0 {
						return m
					}
					s := linalg.New[float32](m.Rows, hi-lo)
					for i := range s.Data {
						s.Data[i] = m.At(i/s.Cols, lo+i%s.Cols)
					}
					return s
				}
				stream := func(i ...int) *rand.Rand { return random.Stream(2, "chain", i[0]+lo, i[1]+chain) }
				return Options{Steps: 2, Chains: chains}.Bound(t.Context(), c, stepSizes, columns(x), columns(z), stream, func(int) {})
			}
			bounds, rate := bound(chains, 0, images, 0)
			rates := 0.0
			for i, got := range bounds {
				var logs []float64 // log p̂ or −log p̂
				for chain := range chains {
					one, r := bound(1, i, i+1, chain)
					logs = append(logs, sign*one[0])
					rates += r / float64(images*chains)
				}
				if want := sign * (linalg.LogSumExp(logs) - math.Log(float64(chains))); !(math.Abs(got-want) <= 1e-3) {
					t.Errorf("%d chains, sign %v: the bound of image %d is %.4f, want %.4f", chains, sign, i, got, want)
				}
			}
			if !(math.Abs(rate-rates) <= 1e-3) || !(rate > 0.1 && rate < 0.98) {
				t.Errorf("%d chains, sign %v: the acceptance rate is %.4f, want %.4f, between 0.1 and 0.98", chains, sign, rate, rates)
			}
		}
	}
}

func TestBoundsAreMeansOverImagesAndRuns(t *testing.T) {
	c := newBounds(Options{Steps: 2}, [][]estimate{
		{{logEvidence: -11, lower: -9, upper: -8}, {logEvidence: -22, lower: -18, upper: -17}},
		{{logEvidence: -11, lower: -10, upper: -9}, {logEvidence: -22, lower: -20, upper: -18}},
		{{logEvidence: -11, lower: -11, upper: -10}, {logEvidence: -22, lower: -22, upper: -19}},
	}, 0.5)
	for name, v := range map[string][2]Number{
		"lower": {c.Lower, -15}, "upper": {c.Upper, -13.5}, "gap": {c.Gap, 1.5}, "missed": {c.Missed, 1.5}, "acceptance": {c.Acceptance, 0.5},
		"lower_se": {c.LowerSE, 5}, "gap_se": {c.GapSE, 0.5},
	} {
		if !(math.Abs(float64(v[0]-v[1])) <= 1e-12) {
			t.Errorf("%s is %v, want %v", name, v[0], v[1])
		}
	}
}

// evaluate evaluates an HVAE on one simulated image.
func evaluate(ctx context.Context, samples, steps int) error {
	c := checkpoint(model.Config{Kind: "hvae", K: 2, Tempering: "free", VaryEps: true, Latent: 3})
	_, err := Evaluate(ctx, c, Images{N: 1, Seed: 1}, Options{Samples: samples, Runs: 1, Steps: steps, Chains: 8}, io.Discard)
	return err
}

func TestMemoryDoesNotDependOnSamplesOrSteps(t *testing.T) {
	allocated := func(samples, steps int) float64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := evaluate(t.Context(), samples, steps); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		return float64(after.TotalAlloc - before.TotalAlloc)
	}
	few := allocated(96, 4)
	for _, n := range [][2]int{{960, 4}, {96, 40}} {
		if many := allocated(n[0], n[1]); many > 1.5*few {
			t.Errorf("an evaluation with 96 samples and 4 steps allocates %.3g bytes, and %.3g with %d samples and %d steps, want at most 50 %% more", few, many, n[0], n[1])
		}
	}
}

// Cancellation must end the evaluations within a minute. Without cancellation, each would take hours.
func TestCancellationInterruptsTheEvaluationOfAnImage(t *testing.T) {
	for _, n := range [][2]int{{1 << 22, 1}, {1, 1 << 22}} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		ended := make(chan error, 1)
		go func() { ended <- evaluate(ctx, n[0], n[1]) }()
		select {
		case err := <-ended:
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Evaluate returns the error %v, want context.DeadlineExceeded", err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("a minute after cancellation, the evaluation with %d samples and %d steps has not ended", n[0], n[1])
		}
		cancel()
	}
}

func TestUndefinedStatisticsAreNull(t *testing.T) {
	if mean, sd := MeanSD([]float64{1, 2, 3, 6}); mean != 3 || !(math.Abs(float64(sd*sd)-14.0/3) <= 1e-14) {
		t.Errorf("1, 2, 3 and 6 have the mean %v and the variance %v, want 3 and 14/3", mean, sd*sd)
	}
	mean, sd := MeanSD([]float64{0.1})
	b, err := json.Marshal([]Number{mean, sd})
	var again []Number
	if err == nil {
		err = json.Unmarshal(b, &again)
	}
	if string(b) != "[0.1,null]" || err != nil || again[0] != 0.1 || again[1] == again[1] {
		t.Errorf("the mean and the standard deviation of a single 0.1 are %s in JSON, and %v when read again (error %v), want [0.1,null]", b, again, err)
	}
}
