package model

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
)

// randomPixels sets each pixel of column j to 0 or 1 at random.
func randomPixels(x linalg.Matrix[float32], j, image int, rng *rand.Rand) {
	for i := range x.Rows {
		x.Row(i)[j] = float32(rng.IntN(2))
	}
}

var free = Config{Kind: "hvae", K: 2, Tempering: "free", VaryEps: true, Latent: 3}

func TestInitialParametersHaveTheDocumentedDistribution(t *testing.T) {
	// sizes holds n_in + n_out for each layer. The variance of the weights must be 1/(n_in + n_out).
	sizes := map[string]int{
		"encoder.conv1": 784 + 3136, "encoder.conv2": 3136 + 1568, "encoder.conv3": 1568 + 512,
		"encoder.hidden": 512 + 450, "encoder.mean": 450 + 64, "encoder.std": 450 + 64,
		"decoder.hidden": 64 + 450, "decoder.expand": 450 + 512,
		"decoder.deconv1": 512 + 1568, "decoder.deconv2": 1568 + 3136, "decoder.deconv3": 3136 + 784,
	}
	for _, p := range New[float64](Config{Kind: "vae", Tempering: "none", Latent: 64}, -1.5, 7).Params() {
		dot := strings.LastIndexByte(p.Name, '.')
		layer, what := p.Name[:dot], p.Name[dot+1:]
		if what == "bias" {
			want := map[string]float64{"decoder.deconv3": -1.5}[layer] // 0 for the other layers
			if slices.Max(p.Value.Data) != want || slices.Min(p.Value.Data) != want {
				t.Errorf("%s starts at %v, want %v", p.Name, p.Value.Data, want)
			}
			continue
		}
		sum, squares := 0.0, 0.0
		for _, v := range p.Value.Data {
			sum, squares = sum+v, squares+v*v
		}
		n, variance := float64(len(p.Value.Data)), 1/float64(sizes[layer])
		mean, change := sum/math.Sqrt(n*variance), (squares/n/variance-1)/math.Sqrt(2/n)
		if !(math.Abs(mean) <= 4.5) || !(math.Abs(change) <= 4.5) {
			t.Errorf("%s: the mean (z = %.1f) or the variance (z = %.1f) is wrong", p.Name, mean, change)
		}
	}
}

func newTrainer(s Settings) *hvae.Trainer[float32] {
	n := New[float32](s.Config, -1, 1)
	trainer := NewTrainer(s, n, Bound(s, n, randomPixels))
	trainer.BlockSize = 16
	return trainer
}

// train takes two training steps with 20 images. It returns the weights.
func train(t *testing.T, s Settings) (weights []float32) {
	t.Helper()
	trainer := newTrainer(s)
	if trainer.Seed != s.Seed {
		t.Errorf("the trainer has the seed %d, want %d", trainer.Seed, s.Seed)
	}
	for range 2 {
		if _, err := trainer.Step(t.Context(), make([]int, 20)); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range trainer.State().Params {
		weights = append(weights, p.Value.Data...)
	}
	return weights
}

func TestRecomputeKeepsBitsAndNeedsMemoryForOneLeapfrogStep(t *testing.T) {
	for _, c := range []Config{
		{Kind: "hvae", K: 3, Tempering: "free", VaryEps: true, Latent: 5},
		{Kind: "hvae", K: 2, Tempering: "fixed", Latent: 5},
		{Kind: "hvae", K: 1, Tempering: "none", Latent: 5},
	} {
		s := Settings{Config: c, Rate: 1e-2, Seed: 1}
		weights := train(t, s)
		s.Recompute = true
		if !slices.Equal(train(t, s), weights) {
			t.Errorf("%v: the weights with and without Recompute differ", c)
		}
	}
	allocated := func(K int, recompute bool) float64 { // in the first step
		c := Config{Kind: "hvae", K: K, Tempering: "free", VaryEps: true, Latent: 5}
		trainer := newTrainer(Settings{Config: c, Rate: 1e-2, Seed: 1, Recompute: recompute})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := trainer.Step(t.Context(), make([]int, 16)); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		return float64(after.TotalAlloc - before.TotalAlloc)
	}
	if one, many := allocated(1, true), allocated(6, true); many > 1.1*one {
		t.Errorf("with Recompute, a step allocates %.3g bytes for K = 1 and %.3g for K = 6, want at most 10 %% more", one, many)
	}
	if one, many := allocated(1, false), allocated(6, false); many < 2*one {
		t.Errorf("without Recompute, a step allocates %.3g bytes for K = 1 and only %.3g for K = 6, so this test cannot fail", one, many)
	}
}

// For ℓ = 64, the numbers of multiply-adds in StepCost's comment are e = 1,146,256, d = 1,117,456 and c = 71,824.
func TestStepCostCountsEveryMultiplyAdd(t *testing.T) {
	for _, c := range []struct{ k, draws, cost int }{
		{0, 0, 6_719_312}, {1, 0, 16_776_416}, {5, 1, 43_595_360}, {20, 0, 144_166_400}, {0, 3, 13_424_048},
	} {
		if got := (Config{K: c.k, Latent: 64, Draws: c.draws}).StepCost(); got != c.cost {
			t.Errorf("K = %d, L = %d: a step takes %d multiply-adds per image, want %d", c.k, c.draws, got, c.cost)
		}
	}
}

// Each setting in this test replaces or adds to the default settings.
func TestCheckRefusesImpossibleSettings(t *testing.T) {
	for text, valid := range map[string]bool{
		`"model":"vae"`: true, `"model":"gan"`: false, `"tempering":"hot"`: false, `"K":1`: false, `"tempering":"free"`: false,
		`"model":"hvae"`: true, `"model":"hvae","K":-1`: false, `"model":"hvae","K":10001`: false,
		`"model":"hvae","vary-eps":true`: false, `"model":"hvae","tempering":"fixed"`: false,
		`"model":"hvae","K":1,"tempering":"fixed","vary-eps":true,"recompute":true`: true,
		`"model":"hvae","K":10000,"tempering":"free","eps":0.49,"alpha":0.99`:       true,
		`"latent":4096`: true, `"latent":0`: false, `"latent":4097`: false, `"recompute":true`: false,
		`"eps":0.5`: false, `"eps":-0.1`: false, `"alpha":1`: false, `"alpha":-0.1`: false,
		`"draws":1000,"importance":true`: true, `"importance":true`: false, `"draws":1001`: false, `"draws":-1`: false,
		`"lr":1e300`: true, `"lr":0`: false, `"lr":-1`: false, `"train":1000000`: true, `"train":-1`: false,
		`"train":1000001`: false, `"batch":0`: false, `"batch":1000001`: false, `"epochs":0`: false,
		`"epochs":1000001`: false, `"patience":0`: false, `"patience":1000001`: false,
	} {
		s := Defaults()
		err := json.Unmarshal([]byte("{"+text+"}"), &s)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Check(); (err == nil) != valid {
			t.Errorf("%s: Check returns the error %v; valid settings: %v", text, err, valid)
		}
	}
	for _, rate := range []float64{math.NaN(), math.Inf(1)} {
		s := Defaults()
		s.Rate = rate
		if s.Check() == nil {
			t.Errorf("Check accepts the learning rate %v", rate)
		}
	}
}

func TestBlocksOfImagesFitIntoTheCache(t *testing.T) {
	vae, hvae := Config{Kind: "vae"}, Config{Kind: "hvae", K: 1}
	for n := 1; n <= 2000; n++ {
		if size := vae.BlockSize(n); size < 4 || size > 64 || size%4 != 0 || hvae.BlockSize(n) != 16 {
			t.Errorf("a batch of %d images has blocks of %d images for a VAE and of %d for an HVAE, want a multiple of 4 up to 64, and 16", n, size, hvae.BlockSize(n))
		}
	}
}

// At first, ε must be 0.2, and s·Π α_k must be 1 for each kind of tempering, where s is the standard deviation of ρ₀.
// Free and untied tempering must start at α_k = 0.9, and fixed tempering at s = 1/√β₀ = √1.5. Then the test sets ε to
// other values in three steps and three dimensions.
func TestSummaryOfTheFlow(t *testing.T) {
	for tempering, alpha := range map[string]float64{"fixed": 1 / math.Sqrt(1.5), "free": 0.729, "untied": 0.729} {
		n := New[float32](Config{Kind: "hvae", K: 3, Tempering: tempering, VaryEps: true, Latent: 3}, 0, 1)
		summary := func() (numbers map[string]float64) { // as in metrics.jsonl
			b, _ := json.Marshal(Metrics{FlowSummary: n.FlowSummary()})
			json.Unmarshal(b, &numbers)
			return numbers
		}
		f := summary()
		for i, eps := range []float64{0.3, 0.1, 0.25, 0.15, 0.45, 0.2, 0.4, 0.05, 0.35} {
			n.params[2*layers].Value.Data[i] = float32(hvae.Unconstrain(eps, 0, maxEps))
		}
		g := summary()
		got := []float64{f["eps"], f["eps_max"], f["alpha"], f["alpha"] * f["momentum_sd"], g["eps"], g["eps_max"]}
		for i, want := range []float64{0.2, 0.2, alpha, 1, 0.25, 0.45} {
			if !(math.Abs(got[i]-want) < 1e-6) {
				t.Errorf("%s tempering starts at %v and changes to %v; number %d must be %v", tempering, f, g, i, want)
			}
		}
	}
}

// For one pixel x, s = (1 − 2x)·a and σ = sigmoid, log p(x|a) is −softplus(s) and its derivatives with respect to a are
// (2x − 1)·σ(s) and −σ(s)·σ(−s). In the last case, half of 784 pixels are 1, and the logits ±10 fit them, except for a
// logit of 0. In float32, sums have a relative error of at most 784·2⁻²⁴, and σ(−s) = 1 − σ(s) an error of 2⁻²⁴.
func TestLogBernoulliIsAccurateForExtremeLogits(t *testing.T) {
	x, logits := make([]float32, pixels), make([]float32, pixels)
	for i := range pixels {
		x[i] = float32(i % 2)
		logits[i] = 20*x[i] - 10
	}
	logits[99] = 0
	const sigma = 2.0611536e-9 // σ(−20), and also softplus(−20)
	for _, c := range []struct {
		x, a []float32
		want [3]float64 // log p(x|a), and both derivatives with respect to the first logit
	}{
		{[]float32{1}, []float32{20}, [3]float64{-sigma, sigma, -sigma}},
		{[]float32{0}, []float32{20}, [3]float64{-20, -1, -sigma}},
		{x, logits, [3]float64{-783*4.5398899e-5 - math.Ln2, -4.5397869e-5, -4.5395808e-5}},
	} {
		var tape ad.Tape[float32]
		a := tape.Leaf(linalg.Column(c.a...))
		log := LogBernoulli(tape.Const(linalg.Column(c.x...)), a)
		gradient := ad.Grad(log, a)
		got := []float32{log.Scalar(), gradient.Value.Data[0], ad.Grad(ad.Sum(gradient), a).Value.Data[0]}
		for i, want := range c.want {
			if !(math.Abs(float64(got[i])-want) <= 0x1p-24*(pixels*math.Abs(want)+float64(i/2))) {
				t.Errorf("x = %v, a = %v …: log p(x|a) and its derivatives are %v, want %v", c.x[0], c.a[0], got, c.want)
			}
		}
	}
}

func TestTrainingEndsPatienceEpochsAfterTheFirstBest(t *testing.T) {
	for _, c := range []struct {
		elbos []float64 // of the validation images after each epoch
		best  int
		why   string // part of the reason; empty if training has not ended
	}{
		{nil, 0, ""}, {[]float64{-9}, 1, ""}, {[]float64{-9, -8, -20}, 2, ""},
		{[]float64{-8, -8}, 1, ""}, {[]float64{-8, -8, -20}, 1, "-patience"}, {[]float64{-9, -8, -20, -8}, 2, "-patience"},
		{[]float64{-9, -8, -7, -6, -5}, 5, "-epochs"},
	} {
		var all []Metrics
		for i, elbo := range c.elbos {
			all = append(all, Metrics{Epoch: i + 1, ValELBO: elbo})
		}
		why := Ended(all, 5, 2)
		if (why == "") != (c.why == "") || !strings.Contains(why, c.why) || all != nil && Best(all).Epoch != c.best {
			t.Errorf("after epochs with ELBOs %v, training has ended %q; want %q and the best epoch %d", c.elbos, why, c.why, c.best)
		}
	}
}
