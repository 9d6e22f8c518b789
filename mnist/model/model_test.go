package model

import (
	"bytes"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hvae/hvae"
	"hvae/linalg"
	"hvae/mnist/safetensors"
)

// binary sets each pixel of column j to 0 or 1 at random.
func binary(x linalg.Matrix[float32], j, image int, rng *rand.Rand) {
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
			want := 0.0
			if layer == "decoder.deconv3" {
				want = -1.5
			}
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
	trainer := NewTrainer(s, n, Bound(s, n, binary))
	trainer.BlockSize = 16
	return trainer
}

// train takes three training steps with 20 images. It returns the ELBO of each step, the ELBO after the last step, and
// all weights.
func train(t *testing.T, s Settings) (elbos []float64, weights []float32) {
	t.Helper()
	trainer, batch := newTrainer(s), hvae.Columns(make([]int, 20))
	for range 3 {
		elbo, err := trainer.Step(t.Context(), batch)
		if err != nil {
			t.Fatal(err)
		}
		elbos = append(elbos, elbo)
	}
	elbo, _, err := trainer.Evaluate(t.Context(), batch, 1, trainer.Bound)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range trainer.State().Params {
		weights = append(weights, p.Value.Data...)
	}
	return append(elbos, elbo), weights
}

func TestRecomputeKeepsBitsAndNeedsMemoryForOneLeapfrogStep(t *testing.T) {
	for _, c := range []Config{
		{Kind: "hvae", K: 3, Tempering: "free", VaryEps: true, Latent: 5},
		{Kind: "hvae", K: 2, Tempering: "fixed", Latent: 5},
		{Kind: "hvae", K: 1, Tempering: "none", Latent: 5},
	} {
		s := Settings{Config: c, Rate: 1e-2, Seed: 1}
		elbos, weights := train(t, s)
		s.Recompute = true
		e, w := train(t, s)
		if !slices.Equal(e, elbos) || !slices.Equal(w, weights) {
			t.Errorf("%v: the results with and without Recompute differ", c)
		}
	}
	allocated := func(K int, recompute bool) float64 { // in the first step
		c := Config{Kind: "hvae", K: K, Tempering: "free", VaryEps: true, Latent: 5}
		trainer := newTrainer(Settings{Config: c, Rate: 1e-2, Seed: 1, Recompute: recompute})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := trainer.Step(t.Context(), hvae.Columns(make([]int, 16))); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		return float64(after.TotalAlloc - before.TotalAlloc)
	}
	if one, many := allocated(1, true), allocated(12, true); many > 1.1*one {
		t.Errorf("with Recompute, a step allocates %.3g bytes for K = 1 and %.3g for K = 12, want at most 10 %% more", one, many)
	}
	if one, many := allocated(1, false), allocated(12, false); many < 2*one {
		t.Errorf("without Recompute, a step allocates %.3g bytes for K = 1 and only %.3g for K = 12, so this test cannot fail", one, many)
	}
}

// For ℓ = 64, a forward pass of one image takes e = 1,146,256 multiply-adds in the encoder and d = 1,117,456 in the
// decoder. The first convolution takes c = 71,824 of the encoder's multiply-adds. A training step takes 3e − c + 3d for
// a VAE and 3e − c + 6(K + 1)d for an HVAE.
func TestStepCostCountsEveryMultiplyAdd(t *testing.T) {
	for _, c := range []struct{ k, cost int }{{0, 6_719_312}, {1, 16_776_416}, {5, 43_595_360}, {20, 144_166_400}} {
		if got := (Config{K: c.k, Latent: 64}).StepCost(); got != c.cost {
			t.Errorf("K = %d: a step takes %d multiply-adds per image, want %d", c.k, got, c.cost)
		}
	}
}

func TestCheckRefusesImpossibleConfigurations(t *testing.T) {
	for c, valid := range map[Config]bool{
		{Kind: "vae", Tempering: "none", Latent: 4096}:                     true,
		{Kind: "vae", Tempering: "none"}:                                   false,
		{Kind: "vae", Tempering: "none", Latent: 4097}:                     false,
		{Kind: "vae", K: 1, Tempering: "none", Latent: 2}:                  false,
		{Kind: "vae", Tempering: "free", Latent: 2}:                        false,
		{Kind: "hvae", Tempering: "none", Latent: 2}:                       true,
		{Kind: "hvae", Tempering: "none", VaryEps: true, Latent: 2}:        false,
		{Kind: "hvae", Tempering: "fixed", Latent: 2}:                      false,
		{Kind: "hvae", K: 1, Tempering: "fixed", VaryEps: true, Latent: 2}: true,
		{Kind: "hvae", K: 10_000, Tempering: "free", Latent: 2}:            true,
		{Kind: "hvae", K: 10_001, Tempering: "free", Latent: 2}:            false,
		{Kind: "hvae", K: -1, Tempering: "none", Latent: 2}:                false,
	} {
		err := c.Check()
		if (err == nil) != valid {
			t.Errorf("%+v: Check returns the error %v; valid configuration: %v", c, err, valid)
		}
	}
}

func testCheckpoint() Checkpoint {
	return Checkpoint{Network: New[float32](free, -1, 5), Seed: 5, Epoch: 3, ELBO: -101.25, Data: "mnist", DataSHA256: "12"}
}

// The models in mnist/results were written by earlier versions of the program.
func TestCheckpointsAreUnchangedAfterReadingAndWriting(t *testing.T) {
	c := testCheckpoint()
	c.Config.Draws, c.Config.Importance = 5, true
	files := [][]byte{c.Encode()}
	for _, name := range []string{"../results/vae.safetensors", "../results/hvae150.safetensors"} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, b)
	}
	for i, want := range files {
		c, err := DecodeCheckpoint(want)
		if err != nil || !bytes.Equal(c.Encode(), want) {
			t.Errorf("reading and writing changes file %d (error %v)", i, err)
		}
	}
	f, err := safetensors.Decode(files[0])
	delete(f.Metadata, safetensors.DigestKey)
	diff := cmp.Diff(map[string]string{
		"format": "hvae-mnist/1", "model": "hvae", "K": "2", "tempering": "free", "vary_eps": "true", "latent": "3", "max_eps": "0.5",
		"seed": "5", "epoch": "3", "val_elbo": "-101.25", "draws": "5", "importance": "true", "data": "mnist", "data_sha256": "12",
	}, f.Metadata)
	if err != nil || diff != "" {
		t.Errorf("the metadata differ (-want +got; error %v):\n%s", err, diff)
	}
	slices.Reverse(f.Tensors)
	got, err := DecodeCheckpoint(f.Encode())
	if err != nil || !bytes.Equal(got.Encode(), files[0]) {
		t.Errorf("a checkpoint with tensors in another order gives another model (error %v)", err)
	}
}

func TestInvalidCheckpointsAreRefused(t *testing.T) {
	set := func(key, value string) func(f *safetensors.File) {
		return func(f *safetensors.File) { f.Metadata[key] = value }
	}
	for want, change := range map[string]func(f *safetensors.File){
		`format is "hvae-mnist/2"`:        set("format", "hvae-mnist/2"),
		`max_eps = "0.9"`:                 set("max_eps", "0.9"),
		`K = "many"`:                      set("K", "many"),
		`epoch = "0"`:                     set("epoch", "0"),
		`val_elbo = "NaN"`:                set("val_elbo", "NaN"),
		`val_elbo = "null"`:               set("val_elbo", "null"),
		`unknown tempering "hot"`:         set("tempering", "hot"),
		`model "xxx`:                      set("model", strings.Repeat("x", 1<<15)),
		"5000 latent dimensions":          set("latent", "5000"),
		`importance = ""`:                 set("draws", "5"),
		`seed = ""`:                       func(f *safetensors.File) { delete(f.Metadata, "seed") },
		`"encoder.conv1.bias" is missing`: func(f *safetensors.File) { f.Tensors = slices.Delete(f.Tensors, 1, 2) },
		`its shape is not [2 3]`:          func(f *safetensors.File) { f.Tensors[len(f.Tensors)-2].Shape = []int{3, 2} },
		`25 tensors, but this model has`: func(f *safetensors.File) {
			f.Tensors = append(f.Tensors, safetensors.Tensor{Name: "extra", Shape: []int{0}})
		},
		`"encoder.conv1.weight" is not finite`: func(f *safetensors.File) { f.Tensors[0].Data[7] = float32(math.NaN()) },
		`"encoder.conv1.bias" is not finite`:   func(f *safetensors.File) { f.Tensors[1].Data[3] = float32(math.Inf(1)) },
	} {
		f, _ := safetensors.Decode(testCheckpoint().Encode())
		change(&f)
		if _, err := DecodeCheckpoint(f.Encode()); err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 300 {
			t.Errorf("error %.1000v, want an error of at most 300 bytes with %q", err, want)
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

// FuzzCheckpoint changes two values of a checkpoint's metadata and one tensor. DecodeCheckpoint must reject invalid
// configurations, and before that, it must not allocate much more memory than safetensors.Decode.
func FuzzCheckpoint(f *testing.F) {
	base, _ := safetensors.Decode(testCheckpoint().Encode())
	f.Add("K", "2", "latent", "3", 1, 16)
	f.Add("K", "9999", "vary_eps", "true", 24, 1)
	f.Add("latent", "4096", "model", "vae", 0, 0)
	f.Fuzz(func(t *testing.T, key1, value1, key2, value2 string, tensor, size int) {
		file := safetensors.File{Metadata: maps.Clone(base.Metadata), Tensors: slices.Clone(base.Tensors)}
		file.Metadata[key1], file.Metadata[key2] = value1, value2
		if tensor >= 0 && tensor < len(file.Tensors) && size >= 0 && size <= 1<<12 {
			file.Tensors[tensor].Shape = []int{size}
			file.Tensors[tensor].Data = make([]float32, size)
		}
		b := file.Encode()
		var start, before, after runtime.MemStats
		runtime.ReadMemStats(&start)
		safetensors.Decode(b)
		runtime.ReadMemStats(&before)
		c, err := DecodeCheckpoint(b)
		runtime.ReadMemStats(&after)
		if err == nil && c.Config.Check() != nil {
			t.Errorf("%q = %q, %q = %q: DecodeCheckpoint accepts the invalid configuration %+v", key1, value1, key2, value2, c.Config)
		}
		if n := int(after.TotalAlloc+start.TotalAlloc) - 2*int(before.TotalAlloc); err != nil && n > 1<<17 {
			t.Errorf("%q = %q, %q = %q, tensor %d with %d elements: DecodeCheckpoint allocates %d bytes before it rejects the checkpoint", key1, value1, key2, value2, tensor, size, n)
		}
	})
}

// Initially, s·Π α_k must be 1 for each kind of tempering. Free and untied tempering must start at α_k = 0.9, and fixed
// tempering must start at 1/√β₀ = √1.5.
func TestTemperingStartsTied(t *testing.T) {
	for tempering, alpha := range map[string]float64{"fixed": 1 / math.Sqrt(1.5), "free": 0.729, "untied": 0.729} {
		f := FlowOf(New[float32](Config{Kind: "hvae", K: 3, Tempering: tempering, Latent: 2}, 0, 1))
		if !(math.Abs(f.Eps-0.2) < 1e-6 && math.Abs(f.Alpha-alpha) < 1e-6 && math.Abs(f.Alpha*f.MomentumSD-1) < 1e-6) {
			t.Errorf("%s tempering starts at %+v, want ε = 0.2, Π α_k = %.3f and s·Π α_k = 1", tempering, f, alpha)
		}
	}
}

// The validation ELBO increases until the best epoch, stays the same for one epoch, and then drops.
func TestTrainingEndsPatienceEpochsAfterTheFirstBest(t *testing.T) {
	const patience = 2
	for best := 1; best <= 3; best++ {
		var all []Metrics
		for epoch := 1; epoch <= best+patience; epoch++ {
			m := Metrics{Epoch: epoch, ValELBO: -10 + float64(min(epoch, best))}
			if epoch > best+1 {
				m.ValELBO = -20
			}
			all = append(all, m)
			why := Ended(all, 100, patience)
			if got := Best(all).Epoch; got != min(best, epoch) || (why != "") != (epoch == best+patience) {
				t.Errorf("after epoch %d, the best epoch is %d and training has ended %q; want the best epoch %d", epoch, got, why, min(best, epoch))
			}
		}
		if why := Ended(all, len(all), 100); !strings.Contains(why, "-epochs") {
			t.Errorf("after the last epoch, training has ended %q", why)
		}
	}
	if why := Ended(nil, 1, 1); why != "" {
		t.Errorf("before the first epoch, training has ended %q", why)
	}
}
