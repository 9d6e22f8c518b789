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

	"github.com/google/go-cmp/cmp"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/linalg/numeric"
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

// Step sizes must be tuned on validation images, not on the evaluated images.
func TestStepSizesAreTunedOnValidationImages(t *testing.T) {
	tuned := func(validation, others byte) []float64 {
		images := func(n int) data.Images { return data.Images{Pixels: bytes.Repeat([]byte{others}, n*data.Pixels)} }
		set := &data.Set{Train: images(12), Test: images(2)}
		e := &estimator{model: checkpoint(vae), Options: Options{Set: set, Steps: 2}}
		e.model.Seed = 5
		_, indices := data.Split(set.Train, e.model.Seed)
		for _, i := range indices {
			copy(set.Train.Image(i), bytes.Repeat([]byte{validation}, data.Pixels))
		}
		if err := e.tune(t.Context()); err != nil {
			t.Fatal(err)
		}
		return e.stepSizes
	}
	white := tuned(255, 0)
	if other := tuned(255, 255); !slices.Equal(white, other) {
		t.Errorf("the step sizes are %v, and %v for other test and training images", white, other)
	}
	if black := tuned(0, 0); slices.Equal(white, black) {
		t.Errorf("the step sizes for white and black validation images are %v", white)
	}
}

// The bounds must be log (1/n Σ p̂) over n forward chains and −log (1/n Σ 1/p̂) over n reverse chains.
func TestBoundsCombineAllChainsOfAnImage(t *testing.T) {
	const chains = 8
	o := Options{Samples: 1, Steps: 2, Chains: chains}
	e := &estimator{model: checkpoint(vae), Options: o, stepSizes: []float64{0.6}}
	var tape ad.Tape[float32]
	got, err := e.estimate(t.Context(), &tape, 3, 4)
	if err != nil {
		t.Fatal(err)
	}
	x, z := Simulate(e.model, random.Stream(0, "mnist eval simulated", 3, 4))
	streams := func(purpose string) (all []*rand.Rand) {
		for chain := range chains {
			all = append(all, random.Stream(0, purpose, 3, 4, chain))
		}
		return all
	}
	mean := func(logs []float64) float64 { return numeric.LogSumExp(logs) - math.Log(chains) }
	ais := e.sampler(ad.Repeat(tape.Const(x), chains).Value)
	end, forward, _ := ais.Forward(t.Context(), streams("mnist ais forward"))
	_, backward, _ := ais.Reverse(t.Context(), ad.Repeat(tape.Const(z), chains).Value, streams("mnist ais reverse"))
	for i, l := range backward {
		backward[i] = -l
	}
	lower, upper := mean(forward), -mean(backward)
	if !(math.Abs(got.lower-lower) <= 1e-9 && math.Abs(got.upper-upper) <= 1e-9) || got.acceptance != end.Acceptance {
		t.Errorf("the estimate is %+v, want the bounds %v and %v and the acceptance %v", got, lower, upper, end.Acceptance)
	}
}

// All reverse paths must end at z, an exact draw from the posterior. This VAE has no flow, so each path is a single
// point, which must be z, and each path must have p̂ = p(x, z)/q(z|x).
func TestReversePathsEndAtTheExactDraw(t *testing.T) {
	x, z := Simulate(checkpoint(vae), random.Stream(1, "image"))
	e := &estimator{model: checkpoint(vae), Options: Options{Samples: 50}}
	var tape ad.Tape[float32]
	got, err := e.importance(t.Context(), &tape, x, z, random.Stream(1, "noise"))
	mean, std := e.encode(x)
	q := hvae.DiagonalNormal[float32]{Mean: tape.Const(mean), SD: tape.Const(std)}
	logJoint := e.model.Const(&tape).Flow(tape.Const(x)).Target.LogJoint(tape.Const(z))
	want := float64(ad.Sub(logJoint, q.LogDensity(tape.Const(z))).Scalar())
	if err != nil || got.Draws != 1 || !(math.Abs(got.Log-want) <= 1e-5*math.Abs(want)) {
		t.Errorf("the estimate from reverse paths is %+v (error %v), want %v from one exact draw", got, err, want)
	}
}

// This test has two simulated images in two runs. Standard deviations must be computed from the mean of each run, and
// standard errors from the mean of each image. An estimate has a heavy tail if k̂ > 1 − 1/log₁₀ 100 = 0.5.
func TestStatisticsAreOverRunsAndImages(t *testing.T) {
	of := func(elbo, log, shape, reverse, lower, upper, acceptance float64) estimate {
		forward := hvae.Evidence{ELBO: elbo, Log: log, TailShape: shape, Draws: 100, Diverged: 2}
		return estimate{forward, hvae.Evidence{Log: reverse, Diverged: 1}, lower, upper, acceptance}
	}
	got, err := summarise(Options{N: 2, Runs: 2, Samples: 100, Steps: 5, Chains: 3}, []estimate{
		of(-84, -80, 0.5, -79, -81, -78, 0.5), of(-95, -90, 0.625, -88, -89, -87, 0.75),
		of(-86, -82, 0.375, -80, -81, -80, 0.5), of(-99, -96, 1, -93, -93, -92, 0.75),
	})
	want := Evaluation{
		ELBO: -91, ELBOSD: 3 / math.Sqrt2, NLL: 87, NLLSD: 4 / math.Sqrt2, Images: 2, Samples: 100, Runs: 2,
		Data: "simulated", TailShape: 0.625, HeavyTails: 0.5, Diverged: 12,
		ReverseUpper: -85, ReverseUpperSE: 5.5, ReverseGap: 2, ReverseGapSE: 0.5,
		Method: "ais", Steps: 5, Chains: 3, Lower: -86, LowerSE: 5, Upper: -84.25,
		UpperSE: 5.25, Gap: 1.75, GapSE: 0.25, Missed: 1, MissedSE: 1, Acceptance: 0.625,
		ImageELBO: []float64{-85, -97}, ImageNLL: []float64{81, 93}, ImageLower: []float64{-81, -91},
	}
	equal := cmp.Comparer(func(a, b Number) bool { return math.Abs(float64(a-b)) <= 1e-12 })
	if diff := cmp.Diff(want, got, equal); diff != "" || err != nil {
		t.Errorf("error %v, the evaluation (-want +got):\n%s", err, diff)
	}
}

// untuned returns an estimator of an HVAE on simulated images, whose step sizes are not tuned.
func untuned(samples, steps int) *estimator {
	c := checkpoint(model.Config{Kind: "hvae", K: 2, Tempering: "free", VaryEps: true, Latent: 3})
	o := Options{N: 1, Runs: 1, Samples: samples, Steps: steps, Chains: 8}
	return &estimator{model: c, Options: o, stepSizes: slices.Repeat([]float64{0.6}, steps-1)}
}

func TestMemoryDoesNotDependOnSamplesOrSteps(t *testing.T) {
	allocated := func(samples, steps int) float64 {
		e := untuned(samples, steps)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := e.estimate(t.Context(), new(ad.Tape[float32]), 0, 0)
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Fatal(err)
		}
		return float64(after.TotalAlloc - before.TotalAlloc)
	}
	few := allocated(48, 2)
	for _, n := range [][2]int{{480, 2}, {48, 20}} {
		if many := allocated(n[0], n[1]); many > 1.1*few {
			t.Errorf("an estimate from 48 samples and 2 steps allocates %.3g bytes, and from %d and %d %.3g", few, n[0], n[1], many)
		}
	}
}

// Without cancellation, each case would take hours: importance samples, annealing, and the tuning of the step sizes.
func TestCancellationInterruptsTheEvaluationOfAnImage(t *testing.T) {
	many, long := untuned(1<<22, 1), untuned(1, 1<<22)
	for i, run := range []func(ctx context.Context) error{
		func(ctx context.Context) error { return second(many.estimate(ctx, new(ad.Tape[float32]), 0, 0)) },
		func(ctx context.Context) error { return second(long.estimate(ctx, new(ad.Tape[float32]), 0, 0)) },
		func(ctx context.Context) error { return second(Evaluate(ctx, long.model, long.Options, io.Discard)) },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		err := run(ctx)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("case %d returns the error %v, want context.DeadlineExceeded", i, err)
		}
	}
}

// second returns the error of a call with two results.
func second[T any](_ T, err error) error { return err }

func TestUndefinedStatisticsAreNull(t *testing.T) {
	if text := Number(83.315).String(); text != "83.32" { // in float64, this number is less than 83.315
		t.Errorf("83.315 is rounded to %s, want 83.32", text)
	}
	mean, sd := MeanSD([]float64{0.1})
	b, _ := json.Marshal([]Number{mean, sd})
	again := make([]Number, 2)
	err := json.Unmarshal(b, &again)
	if string(b) != "[0.1,null]" || err != nil || again[0] != 0.1 || again[1] == again[1] {
		t.Errorf("the mean and the standard deviation of a single 0.1 are %s in JSON, and %v when read again (error %v), want [0.1,null]", b, again, err)
	}
}

// For one of two images, three samples have diverged and the tail of p̂ is extremely heavy.
func TestSummaryOfDivergedSamples(t *testing.T) {
	good := hvae.Evidence{Log: -80, ELBO: -84, TailShape: 0.5, Draws: 1000}
	bad := hvae.Evidence{Log: -90, ELBO: math.NaN(), TailShape: math.Inf(1), Draws: 1000, Diverged: 3}
	o := Options{N: 2, Runs: 1, Samples: 1000, Set: &data.Set{}}
	got, err := summarise(o, []estimate{{forward: good}, {forward: bad}})
	const want = `ELBO undefined
NLL  85.00
3 samples have diverged
tail shape of the importance weights +Inf, above 0.667 for 50 % of the images
`
	if got.String() != want || err != nil || got.ImageELBO != nil {
		t.Errorf("the summary is\n%v(error %v), want\n%s", got, err, want)
	}
}

// Only the ELBO may be NaN, and the upper bound from annealed importance sampling of images that are not simulated.
func TestResultsThatAreNotFiniteAreErrors(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		set   *data.Set
		x     estimate
		valid bool
	}{
		{new(data.Set), estimate{upper: nan}, true},
		{new(data.Set), estimate{forward: hvae.Evidence{ELBO: nan}}, true},
		{new(data.Set), estimate{forward: hvae.Evidence{ELBO: -inf}}, false},
		{new(data.Set), estimate{forward: hvae.Evidence{Log: nan}}, false},
		{new(data.Set), estimate{forward: hvae.Evidence{Log: -inf}}, false},
		{new(data.Set), estimate{lower: -inf, upper: nan}, false},
		{nil, estimate{}, true},
		{nil, estimate{upper: inf}, false},
		{nil, estimate{reverse: hvae.Evidence{Log: inf}}, false},
	} {
		_, err := summarise(Options{Set: c.set, N: 1, Runs: 1, Chains: 1}, []estimate{c.x})
		if (err == nil) != c.valid {
			t.Errorf("simulated: %v, results %+v: error %v; want an error: %v", c.set == nil, c.x, err, !c.valid)
		}
	}
}
