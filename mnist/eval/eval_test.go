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
	"hvae/hvae"
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

func stream(i int) *rand.Rand { return random.Stream(1, "image", i) }

// Step sizes must not be tuned on the evaluated images, because this would bias the bounds. In this test, validation
// images are white and test images are black.
func TestStepSizesAreTunedOnValidationImages(t *testing.T) {
	set := data.Set{
		Name:  "test",
		Train: data.Images{Pixels: bytes.Repeat([]byte{255}, 120*data.Side*data.Side)},
		Test:  data.Images{Pixels: make([]byte, 120*data.Side*data.Side)},
	}
	e := estimator{Options: Options{Set: &set, N: 2, Seed: 1}, model: model.Checkpoint{Seed: 1}}
	x := e.tuningImages()
	if x.Cols != 16 || slices.Min(x.Data) != 1 {
		t.Errorf("there are %d images for tuning, want 16 white images", x.Cols)
	}
}

// The lower bound must be log (1/n Σ p̂), and the upper bound must be −log (1/n Σ 1/p̂), where both sums are over n = 50
// chains. The values of p̂ come from calls of bound for one chain. A tape holds 48 chains, so there are two tapes.
func TestBoundsCombineAllChainsOfAnImage(t *testing.T) {
	x, z := Simulate(checkpoint(vae), 1, stream)
	const chains = 50
	for sign, z := range map[float64]matrix{1: {}, -1: z} {
		bound := func(chains, first int) (bound, rate float64) {
			e := &estimator{model: checkpoint(vae), Options: Options{Steps: 2, Chains: chains}, stepSizes: []float64{0.6}}
			bound, rate, err := e.bound(t.Context(), x, z, func(chain int) *rand.Rand { return stream(first + chain) })
			if err != nil {
				t.Fatal(err)
			}
			return bound, rate
		}
		var logs []float64 // log p̂ or −log p̂
		rates := 0.0
		for chain := range chains {
			one, r := bound(1, chain)
			logs = append(logs, sign*one)
			rates += r / float64(chains)
		}
		got, rate := bound(chains, 0)
		if want := sign * (linalg.LogSumExp(logs) - math.Log(float64(chains))); !(math.Abs(got-want) <= 1e-3) {
			t.Errorf("sign %v: the bound is %.4f, want %.4f", sign, got, want)
		}
		if !(math.Abs(rate-rates) <= 1e-3) || !(rate > 0.1 && rate < 0.98) {
			t.Errorf("sign %v: the acceptance rate is %.4f, want %.4f, between 0.1 and 0.98", sign, rate, rates)
		}
	}
}

// Without a flow, p̂ is p(x, z)/q(z|x) at the exact draw z, for all momenta.
func TestReversePathsEndAtTheExactDraw(t *testing.T) {
	x, z := Simulate(checkpoint(vae), 1, stream)
	e := &estimator{model: checkpoint(vae), Options: Options{Samples: 50}}
	var tape ad.Tape[float32]
	logs, err := e.importance(t.Context(), &tape, x, z, stream(1))
	if err != nil || len(logs) != 50 {
		t.Fatalf("there are %d values, want 50 (error %v)", len(logs), err)
	}
	mean, std := e.encode(x)
	q := hvae.DiagonalNormal[float32]{Mean: tape.Const(mean), SD: tape.Const(std)}
	logJoint := e.model.Const(&tape).Flow(tape.Const(x)).Target.LogJoint(tape.Const(z))
	want := float64(ad.Sub(logJoint, q.LogDensity(tape.Const(z))).Scalar())
	for _, got := range logs {
		if !(math.Abs(got-want) <= 1e-5*math.Abs(want)) {
			t.Errorf("log p̂ is %v, want %v", got, want)
		}
	}
}

func TestStandardErrorsAreOverImages(t *testing.T) {
	of := func(lower, upper float64) estimate { return estimate{lower: lower, upper: upper} }
	b := newBounds(Options{}, [][]estimate{{of(-9, -8), of(-10, -9), of(-11, -10)}, {of(-18, -17), of(-20, -18), of(-22, -19)}})
	for name, v := range map[string][2]Number{"lower": {b.LowerSE, 5}, "gap": {b.GapSE, 0.5}} {
		if !(math.Abs(float64(v[0]-v[1])) <= 1e-12) {
			t.Errorf("the standard error of %s is %v, want %v", name, v[0], v[1])
		}
	}
}

// evaluate evaluates an HVAE on one simulated image.
func evaluate(ctx context.Context, samples, steps int) error {
	c := checkpoint(model.Config{Kind: "hvae", K: 2, Tempering: "free", VaryEps: true, Latent: 3})
	_, err := Evaluate(ctx, c, Options{N: 1, Seed: 1, Samples: samples, Runs: 1, Steps: steps, Chains: 8}, io.Discard)
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

// Without cancellation, each evaluation would take hours.
func TestCancellationInterruptsTheEvaluationOfAnImage(t *testing.T) {
	for _, n := range [][2]int{{1 << 22, 1}, {1, 1 << 22}} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		err := evaluate(ctx, n[0], n[1])
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Evaluate returns the error %v, want context.DeadlineExceeded", err)
		}
	}
}

func TestUndefinedStatisticsAreNull(t *testing.T) {
	if mean, sd := MeanSD([]float64{1, 2, 3, 6}); mean != 3 || !(math.Abs(float64(sd*sd)-14.0/3) <= 1e-14) {
		t.Errorf("1, 2, 3 and 6 have the mean %v and the variance %v, want 3 and 14/3", mean, sd*sd)
	}
	mean, sd := MeanSD([]float64{0.1})
	b, _ := json.Marshal([]Number{mean, sd})
	again := make([]Number, 2)
	err := json.Unmarshal(b, &again)
	if string(b) != "[0.1,null]" || err != nil || again[0] != 0.1 || again[1] == again[1] {
		t.Errorf("the mean and the standard deviation of a single 0.1 are %s in JSON, and %v when read again (error %v), want [0.1,null]", b, again, err)
	}
}
