package model

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/linalg/random"
	"hvae/mnist/safetensors"
)

// binary sets each pixel of column j to 0 or 1 at random.
func binary[T linalg.Float](x linalg.Matrix[T], j, image int, rng *rand.Rand) {
	for i := range x.Rows {
		x.Row(i)[j] = T(rng.IntN(2))
	}
}

// first returns the image indices 0 … n−1.
func first(n int) (indices []int) {
	for i := range n {
		indices = append(indices, i)
	}
	return indices
}

var free = Config{Kind: "hvae", K: 2, Tempering: "free", VaryEps: true, Latent: 3}

func TestParametersHaveTheNamesAndShapesOfTheFormat(t *testing.T) {
	want := `encoder.conv1.weight [16 1 5 5]
encoder.conv1.bias [16]
encoder.conv2.weight [32 16 5 5]
encoder.conv2.bias [32]
encoder.conv3.weight [32 32 5 5]
encoder.conv3.bias [32]
encoder.hidden.weight [450 512]
encoder.hidden.bias [450]
encoder.mean.weight [64 450]
encoder.mean.bias [64]
encoder.std.weight [64 450]
encoder.std.bias [64]
decoder.hidden.weight [450 64]
decoder.hidden.bias [450]
decoder.expand.weight [512 450]
decoder.expand.bias [512]
decoder.deconv1.weight [32 32 5 5]
decoder.deconv1.bias [32]
decoder.deconv2.weight [32 16 5 5]
decoder.deconv2.bias [16]
decoder.deconv3.weight [16 1 5 5]
decoder.deconv3.bias [1]
`
	for _, c := range []struct {
		config Config
		flow   string
	}{
		{Config{Kind: "vae", Tempering: "none", Latent: 64}, ""},
		{Config{Kind: "hvae", K: 5, Tempering: "none", Latent: 64}, "flow.step_size_logit [1 64]\n"},
		{Config{Kind: "hvae", K: 5, Tempering: "free", VaryEps: true, Latent: 64}, "flow.step_size_logit [5 64]\nflow.alpha_logit [5]\n"},
		{Config{Kind: "hvae", K: 5, Tempering: "fixed", Latent: 64}, "flow.step_size_logit [1 64]\nflow.log_temperature [1]\n"},
	} {
		var got strings.Builder
		for _, p := range NewParams[float32](c.config, 0, 1) {
			fmt.Fprintln(&got, p.Name, p.Shape)
		}
		if diff := cmp.Diff(want+c.flow, got.String()); diff != "" {
			t.Errorf("%v: %s", c.config, diff)
		}
	}
}

func TestInitialParametersHaveTheDocumentedDistribution(t *testing.T) {
	// sizes holds n_in + n_out for each layer. The variance of the weights must be 1/(n_in + n_out).
	sizes := map[string]int{
		"encoder.conv1": 784 + 3136, "encoder.conv2": 3136 + 1568, "encoder.conv3": 1568 + 512,
		"encoder.hidden": 512 + 450, "encoder.mean": 450 + 64, "encoder.std": 450 + 64,
		"decoder.hidden": 64 + 450, "decoder.expand": 450 + 512,
		"decoder.deconv1": 512 + 1568, "decoder.deconv2": 1568 + 3136, "decoder.deconv3": 3136 + 784,
	}
	for _, p := range NewParams[float64](Config{Kind: "hvae", K: 3, Tempering: "free", Latent: 64}, -1.5, 7) {
		dot := strings.LastIndexByte(p.Name, '.')
		layer, what := p.Name[:dot], p.Name[dot+1:]
		switch {
		case what == "weight":
			sum, squares := 0.0, 0.0
			for _, v := range p.Value.Data {
				sum, squares = sum+v, squares+v*v
			}
			n, variance := float64(len(p.Value.Data)), 1/float64(sizes[layer])
			if z := sum / math.Sqrt(n*variance); !(math.Abs(z) <= 4.5) {
				t.Errorf("%s: the mean of the weights differs from 0 (z = %.1f)", p.Name, z)
			}
			if z := (squares/n/variance - 1) / math.Sqrt(2/n); !(math.Abs(z) <= 4.5) {
				t.Errorf("%s: the variance of the weights is %.3g, want %.3g (z = %.1f)", p.Name, squares/n, variance, z)
			}
		case p.Name == "decoder.deconv3.bias":
			if p.Value.Data[0] != -1.5 {
				t.Errorf("the last bias is %v, want -1.5", p.Value.Data[0])
			}
		case what == "bias":
			if slices.Max(p.Value.Data) != 0 || slices.Min(p.Value.Data) != 0 {
				t.Errorf("%s starts at %v, want zeros", p.Name, p.Value.Data)
			}
		case what == "step_size_logit":
			if e := 0.5 / (1 + math.Exp(-p.Value.Data[0])); !(math.Abs(e-0.2) <= 1e-12) {
				t.Errorf("ε starts at %v, want 0.2", e)
			}
		case what == "alpha_logit":
			if a := 1 / (1 + math.Exp(-p.Value.Data[2])); !(math.Abs(a-0.9) <= 1e-12) {
				t.Errorf("α starts at %v, want 0.9", a)
			}
		}
	}
	for _, p := range NewParams[float64](Config{Kind: "hvae", K: 3, Tempering: "fixed", Latent: 2}, 0, 7) {
		if p.Name == "flow.log_temperature" {
			if root := 1 + math.Exp(p.Value.Data[0]); !(math.Abs(root*root-1.5) <= 1e-12) {
				t.Errorf("1/β₀ starts at %v, want 1.5", root*root)
			}
		}
	}
}

func newTrainer[T linalg.Float](s Settings, params []Param[T]) *hvae.Trainer[T] {
	return NewTrainer(s, params, Bound(s, params, binary[T]))
}

func TestStepsDoNotDependOnGOMAXPROCS(t *testing.T) {
	for _, c := range []struct {
		Config
		images int
	}{
		{free, 60}, // three blocks of 16 images and one of 12
		{Config{Kind: "vae", Tempering: "none", Latent: 5}, 100}, // two blocks
	} {
		run := func(procs int) (elbos []float64, weights []float32) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
			trainer := newTrainer(Settings{Config: c.Config, Rate: 1e-3, Seed: 1}, NewParams[float32](c.Config, -1, 1))
			trainer.BlockSize = c.BlockSize(c.images)
			for range 2 {
				e, err := trainer.Step(t.Context(), hvae.Columns(first(c.images)))
				if err != nil {
					t.Fatal(err)
				}
				elbos = append(elbos, e)
			}
			elbos = append(elbos, elboOf(t, trainer, first(c.images/2)))
			for _, p := range trainer.State().Params {
				weights = append(weights, p.Value.Data...)
			}
			return elbos, weights
		}
		elbos, weights := run(1)
		for _, procs := range []int{2, 5} {
			if e, w := run(procs); !slices.Equal(e, elbos) || !slices.Equal(w, weights) {
				t.Errorf("%v: the results for GOMAXPROCS = %d differ from the results for GOMAXPROCS = 1", c.Config, procs)
			}
		}
	}
}

func TestRecomputeKeepsBitsAndNeedsMemoryForOneLeapfrogStep(t *testing.T) {
	for _, c := range []Config{
		{Kind: "hvae", K: 3, Tempering: "free", VaryEps: true, Latent: 5},
		{Kind: "hvae", K: 2, Tempering: "fixed", Latent: 5},
		{Kind: "hvae", K: 1, Tempering: "none", Latent: 5},
	} {
		run := func(recompute bool) (elbos []float64, weights []float32) {
			trainer := newTrainer(Settings{Config: c, Rate: 1e-2, Seed: 1, Recompute: recompute}, NewParams[float32](c, -1, 1))
			for range 3 {
				e, err := trainer.Step(t.Context(), hvae.Columns(first(20)))
				if err != nil {
					t.Fatal(err)
				}
				elbos = append(elbos, e)
			}
			for _, p := range trainer.State().Params {
				weights = append(weights, p.Value.Data...)
			}
			return append(elbos, elboOf(t, trainer, first(20))), weights
		}
		elbos, weights := run(false)
		if e, w := run(true); !slices.Equal(e, elbos) || !slices.Equal(w, weights) {
			t.Errorf("%v: the results with and without Recompute differ", c)
		}
	}
	allocated := func(K int, recompute bool) float64 {
		c := Config{Kind: "hvae", K: K, Tempering: "free", VaryEps: true, Latent: 5}
		trainer := newTrainer(Settings{Config: c, Rate: 1e-2, Seed: 1, Recompute: recompute}, NewParams[float32](c, -1, 1))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := trainer.Step(t.Context(), hvae.Columns(first(16))); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		return float64(after.TotalAlloc - before.TotalAlloc)
	}
	if one, many := allocated(1, true), allocated(12, true); many > 1.1*one {
		t.Errorf("with Recompute, the first training step allocates %.3g bytes for K = 1 and %.3g for K = 12, want at most 10 %% more", one, many)
	}
	if one, many := allocated(1, false), allocated(12, false); many < 2*one {
		t.Errorf("without Recompute, the first training step allocates %.3g bytes for K = 1 and only %.3g for K = 12, so this test cannot detect a mistake", one, many)
	}
}

func TestStepUsesTheGradientOfTheMeanOverTheBatch(t *testing.T) {
	// Step splits the batch into blocks, but must use the gradient g for the whole batch. Here, g is computed on one
	// tape. After the first step, Adamax's first average is (1 − β₁)g with β₁ = 0.9.
	for _, c := range []Config{{Kind: "vae", Tempering: "none", Latent: 3}, free} {
		params := NewParams[float64](c, -1, 1)
		const n = 18
		var tape ad.Tape[float64]
		leaves := Vars(tape.Leaf, params)
		network := NewNetwork(c, leaves)
		x, epsilon, gamma0 := tape.Matrix(pixels, n), tape.Matrix(c.Latent, n), tape.Matrix(c.Latent, n)
		for j := range n {
			var pcg rand.PCG
			random.NewBatch(7, "algorithm 2 step", 0).Start(&pcg, j)
			rng := rand.New(&pcg)
			binary(x, j, j, rng)
			random.FillNormalColumn(rng, epsilon, j)
			random.FillNormalColumn(rng, gamma0, j)
		}
		elbo := ad.Mean(network.ELBO(tape.Const(x), tape.Const(epsilon), tape.Const(gamma0)))
		var want []float64
		for _, g := range ad.Backward(nil, elbo, leaves...) {
			want = append(want, g.Data...)
		}

		trainer := newTrainer(Settings{Config: c, Rate: 1e-2, Seed: 7}, params)
		trainer.BlockSize = c.BlockSize(n)
		got, err := trainer.Step(t.Context(), hvae.Columns(first(n)))
		if err != nil {
			t.Fatal(err)
		}
		if c.BlockSize(n) >= n {
			t.Fatal("the batch is a single block, want several")
		}
		if !(math.Abs(got-elbo.Scalar()) <= 1e-12*math.Abs(elbo.Scalar())) {
			t.Errorf("%v: Step returns the ELBO %v, want %v", c, got, elbo.Scalar())
		}
		var mean []float64
		for _, p := range trainer.State().Params {
			mean = append(mean, p.Averages.Row(0)...)
		}
		difference, size := 0.0, 0.0
		for i, g := range want {
			difference = math.Hypot(difference, mean[i]/(1-0.9)-g)
			size = math.Hypot(size, g)
		}
		if !(difference <= 1e-12*size) || size == 0 {
			t.Errorf("%v: the norm of the gradient is %v, and the norm of its error is %v; want a relative error of at most 1e-12", c, size, difference)
		}
	}
}

func elboOf[T linalg.Float](t *testing.T, trainer *hvae.Trainer[T], indices []int) float64 {
	t.Helper()
	elbo, _, err := trainer.Evaluate(t.Context(), hvae.Columns(indices), 1, trainer.Bound)
	if err != nil {
		t.Fatal(err)
	}
	return elbo
}

func TestFloat32AgreesWithFloat64(t *testing.T) {
	s := Settings{Config: free, Rate: 1e-3, Seed: 1}
	single, double := newTrainer(s, NewParams[float32](free, -1, 1)), newTrainer(s, NewParams[float64](free, -1, 1))
	for i := range 3 {
		a, err := single.Step(t.Context(), hvae.Columns(first(4)))
		if err != nil {
			t.Fatal(err)
		}
		b, err := double.Step(t.Context(), hvae.Columns(first(4)))
		if err != nil {
			t.Fatal(err)
		}
		if !(math.Abs(a-b) <= 1e-5*math.Abs(b)) {
			t.Errorf("step %d: the ELBO is %v in float32 and %v in float64, want a relative difference of at most 1e-5", i+1, a, b)
		}
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
	for _, c := range []struct {
		Config
		ok bool
	}{
		{Config{Kind: "vae", Tempering: "none", Latent: 1}, true},
		{Config{Kind: "vae", Tempering: "none", Latent: 4096}, true},
		{Config{Kind: "vae", Tempering: "none", Latent: 0}, false},
		{Config{Kind: "vae", Tempering: "none", Latent: 4097}, false},
		{Config{Kind: "vae", K: 1, Tempering: "none", Latent: 2}, false},
		{Config{Kind: "vae", Tempering: "free", Latent: 2}, false},
		{Config{Kind: "hvae", Tempering: "none", Latent: 2}, true},
		{Config{Kind: "hvae", Tempering: "none", VaryEps: true, Latent: 2}, false},
		{Config{Kind: "hvae", Tempering: "fixed", Latent: 2}, false},
		{Config{Kind: "hvae", K: 1, Tempering: "fixed", VaryEps: true, Latent: 2}, true},
		{Config{Kind: "hvae", K: 10_000, Tempering: "free", Latent: 2}, true},
		{Config{Kind: "hvae", K: 10_001, Tempering: "free", Latent: 2}, false},
		{Config{Kind: "hvae", K: -1, Tempering: "none", Latent: 2}, false},
	} {
		if err := c.Check(); (err == nil) != c.ok {
			t.Errorf("%+v: Check returns the error %v; valid configuration: %v", c.Config, err, c.ok)
		}
	}
}

func testCheckpoint() Checkpoint {
	return Checkpoint{Config: free, Params: NewParams[float32](free, -1, 5), Seed: 5, Epoch: 3, ELBO: -101.25, Data: "mnist", DataSHA256: "12"}
}

// If a checkpoint is read from a file and encoded again, the bytes must be the same. This includes the models in
// mnist/results, which earlier versions of the program wrote.
func TestCheckpointsAreUnchangedAfterReadingAndWriting(t *testing.T) {
	name, c := filepath.Join(t.TempDir(), "model"), testCheckpoint()
	c.Config.Draws, c.Config.Importance = 5, true
	want := c.File()
	if err := os.WriteFile(name, want.Encode(), 0o644); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{
		"format": "hvae-mnist/1", "model": "hvae", "K": "2", "tempering": "free", "vary_eps": "true", "latent": "3", "max_eps": "0.5",
		"seed": "5", "epoch": "3", "val_elbo": "-101.25", "draws": "5", "importance": "true", "data": "mnist", "data_sha256": "12",
	}, want.Metadata); diff != "" {
		t.Errorf("the metadata differ (-want +got):\n%s", diff)
	}
	for _, name := range []string{name, "../results/vae.safetensors", "../results/hvae150.safetensors"} {
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		c, err := ReadCheckpoint(name)
		if err != nil || !bytes.Equal(c.File().Encode(), want) {
			t.Errorf("reading and writing changes %s (error %v)", name, err)
		}
	}
	slices.Reverse(want.Tensors)
	if got, err := DecodeCheckpoint(want.Encode()); err != nil || !bytes.Equal(got.File().Encode(), c.File().Encode()) {
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
		f := testCheckpoint().File()
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
// configurations. Before it rejects a checkpoint, it must not allocate much more memory than safetensors.Decode, even if
// the metadata describe a huge model.
func FuzzCheckpoint(f *testing.F) {
	base := testCheckpoint().File()
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

func TestSampleDoesNotChangeAfterAnotherDraw(t *testing.T) {
	for _, kind := range []string{"vae", "hvae"} {
		c := Config{Kind: kind, K: map[string]int{"hvae": 1}[kind], Tempering: "none", Latent: 2}
		var tape ad.Tape[float64]
		network := NewNetwork(c, Vars(tape.Const, NewParams[float64](c, -1, 1)))
		draw := func(mean float64) hvae.Sample[float64] {
			noise := tape.Fill(c.Latent, 1, 0.5)
			return network.Draw(tape.Fill(pixels, 1, 1), tape.Fill(c.Latent, 1, mean), tape.Fill(c.Latent, 1, 1), noise, noise)
		}
		sample := draw(0)
		before := sample.LogEstimate().Scalar()
		draw(3)
		if after := sample.LogEstimate().Scalar(); after != before {
			t.Errorf("%s: the estimate of a sample changed from %v to %v after another Draw", kind, before, after)
		}
	}
}

// Initially, s·Π α_k must be 1 for each kind of tempering. Free and untied tempering must start at α_k = 0.9, and fixed
// tempering must start at 1/√β₀ = √1.5.
func TestTemperingStartsTied(t *testing.T) {
	for tempering, alpha := range map[string]float64{"fixed": 1 / math.Sqrt(1.5), "free": 0.729, "untied": 0.729} {
		f := FlowOf(NewParams[float32](Config{Kind: "hvae", K: 3, Tempering: tempering, Latent: 2}, 0, 1))
		if !(math.Abs(f.Eps-0.2) < 1e-6 && math.Abs(f.Alpha-alpha) < 1e-6 && math.Abs(f.Alpha*f.MomentumSD-1) < 1e-6) {
			t.Errorf("%s tempering starts at %+v, want ε = 0.2, Π α_k = %.3f and s·Π α_k = 1", tempering, f, alpha)
		}
	}
}

// The validation ELBO increases until the best epoch, stays the same for one epoch, and then drops. The epoch
// after the best must not become the best, although it has the same ELBO.
func TestTrainingEndsPatienceEpochsAfterTheFirstBest(t *testing.T) {
	const patience = 2
	for best := 1; best <= 5; best++ {
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
