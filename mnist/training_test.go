package main

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"hvae/mnist/data"
	"hvae/mnist/model"
)

// A training run must match the oracle (oracle_test.go). The learning rate is so large that the third epoch
// is worse than the second. With -patience 1, the run therefore ends after the third epoch.
// model.safetensors contains the weights after the second epoch, and a resumed run continues with the
// weights after the third.
func TestTrainMatchesTheOracle(t *testing.T) {
	images := digits(t).Train
	for _, c := range []struct {
		flags    string
		config   model.Config
		n, batch int // numbers of training images; the last batch is smaller
		rate     float64
		seed     uint64
	}{
		{"-latent 3 -train 50 -batch 20 -lr 0.0085 -seed 10", model.Config{Kind: "vae", Tempering: "none", Latent: 3}, 50, 20, 0.0085, 10},
		{"-model hvae -K 2 -tempering fixed -vary-eps -latent 2 -train 44 -batch 24 -lr 0.008 -seed 9 -recompute",
			model.Config{Kind: "hvae", K: 2, Tempering: "fixed", VaryEps: true, Latent: 2}, 44, 24, 0.008, 9},
	} {
		t.Run(c.flags, func(t *testing.T) {
			dir, began := t.TempDir(), time.Now()
			train := func(more ...string) (stdout string) {
				t.Helper()
				stdout, _ = mustRun(t, slices.Concat([]string{"train", "-data", "synthetic", "-out", dir}, strings.Fields(c.flags), more)...)
				return stdout
			}
			stdout := train("-epochs", "9", "-patience", "1")

			run := newCourse(images, c.config, c.n, c.batch, c.rate, c.seed)
			var training, validation []float64
			var weights []map[string][]float32
			best := 0
			for epoch := range 4 {
				e, v := run.next(t)
				training, validation, weights = append(training, e), append(validation, v), append(weights, run.weights())
				if v > validation[best] {
					best = epoch
				}
			}
			if !(validation[0] < validation[1] && validation[2] < validation[1]) {
				t.Fatalf("validation %v: the third epoch should be worse than the second", validation)
			}

			check := func(epochs, best int) {
				t.Helper()
				got := metricsOf(t, dir)
				if len(got) != epochs {
					t.Fatalf("metrics of %d epochs, want %d", len(got), epochs)
				}
				seconds := 0.0
				for i, m := range got {
					if len(m) < 4 || m["epoch"] != float64(i+1) || !near(m["train_elbo"], training[i]) || !near(m["val_elbo"], validation[i]) || !(m["seconds"] > 0) {
						t.Errorf("metrics %v, want epoch %d, training %v, validation %v", m, i+1, training[i], validation[i])
					}
					seconds += m["seconds"]
				}
				if most := time.Since(began).Seconds(); seconds > most {
					t.Errorf("the metrics add up to %v s, but the test has taken only %v s", seconds, most)
				}
				saved, meta := tensors(t, dir, modelFile)
				if !sameTensors(weights[best], saved) {
					t.Errorf("the weights in the model are not the weights after epoch %d", best+1)
				}
				for key, want := range map[string]string{
					"format": "hvae-mnist/1", "model": c.config.Kind, "K": strconv.Itoa(c.config.K), "tempering": c.config.Tempering,
					"vary_eps": fmt.Sprint(c.config.VaryEps), "latent": strconv.Itoa(c.config.Latent), "max_eps": "0.5",
					"seed": strconv.FormatUint(c.seed, 10), "epoch": strconv.Itoa(best + 1), "val_elbo": strconv.FormatFloat(got[best]["val_elbo"], 'g', -1, 64),
					"data": "synthetic", "data_sha256": syntheticDigest,
				} {
					if meta[key] != want {
						t.Errorf("the metadata of the model has %s = %q, want %q", key, meta[key], want)
					}
				}
				state, _ := tensors(t, dir, stateFile)
				for name, want := range weights[epochs-1] {
					if !slices.Equal(state[name], want) {
						t.Errorf("%s in the state is not the value after epoch %d", name, epochs)
					}
				}
				drawn := filepath.Join(t.TempDir(), "drawn.png")
				mustRun(t, "sample", "-checkpoint", filepath.Join(dir, modelFile), "-seed", meta["seed"], "-o", drawn)
				if !slices.Equal(read(t, drawn), read(t, dir, samplesFile)) {
					t.Error("samples.png differs from the picture that the sample command draws")
				}
			}
			check(3, 1)
			for i, m := range metricsOf(t, dir) {
				note := ""
				if i < 2 {
					note = "  best so far"
				}
				if line := fmt.Sprintf("epoch %d  train %.2f  validation %.2f  %.1f s%s\n", i+1, m["train_elbo"], m["val_elbo"], m["seconds"], note); !strings.Contains(stdout, line) {
					t.Errorf("stdout %q lacks the line %q", stdout, line)
				}
			}
			train("-epochs", "3", "-resume") // changes nothing
			check(3, 1)
			train("-epochs", "4", "-patience", "2", "-resume")
			check(4, best)
		})
	}
}

// One epoch of each kind of model must match the oracle. The first case uses only defaults. In the last
// case, the last batch of validation images is smaller than the others.
func TestEachModelMatchesTheOracle(t *testing.T) {
	few := func(n int) ([]string, data.Set) {
		folder := ownImages(t, n, 1)
		set, err := data.Load(t.Context(), folder, nil)
		if err != nil {
			t.Fatal(err)
		}
		return append([]string{"-data", folder}, "-latent", "2", "-train", "26", "-batch", "10"), set
	}
	small, smallSet := few(31)
	large, largeSet := few(6*1100 + 5)
	for _, c := range []struct {
		model    string
		data     []string
		set      data.Set
		config   model.Config
		n, batch int
	}{
		{"", []string{"-data", "synthetic"}, digits(t), model.Config{Kind: "vae", Tempering: "none", Latent: 64}, 2000, 100},
		{"-model hvae -K 1", small, smallSet, model.Config{Kind: "hvae", K: 1, Tempering: "none", Latent: 2}, 26, 10},
		{"-model hvae -K 3 -tempering free", small, smallSet, model.Config{Kind: "hvae", K: 3, Tempering: "free", Latent: 2}, 26, 10},
		{"-model hvae -K 2 -tempering fixed", small, smallSet, model.Config{Kind: "hvae", K: 2, Tempering: "fixed", Latent: 2}, 26, 10},
		{"-model hvae -K 2 -vary-eps", small, smallSet, model.Config{Kind: "hvae", K: 2, Tempering: "none", VaryEps: true, Latent: 2}, 26, 10},
		{"-model vae", large, largeSet, model.Config{Kind: "vae", Tempering: "none", Latent: 2}, 26, 10},
	} {
		t.Run(c.model, func(t *testing.T) {
			dir := t.TempDir()
			mustRun(t, slices.Concat([]string{"train", "-epochs", "1", "-out", dir}, strings.Fields(c.model), c.data)...)
			run := newCourse(c.set.Train, c.config, c.n, c.batch, 1e-3, 1)
			training, validation := run.next(t)
			m := metricsOf(t, dir)[0]
			if !near(m["train_elbo"], training) || !near(m["val_elbo"], validation) {
				t.Errorf("metrics %v, want training %v, validation %v", m, training, validation)
			}
			if weights, _ := tensors(t, dir, modelFile); !sameTensors(weights, run.weights()) {
				t.Error("the weights differ from the oracle's weights")
			}
		})
	}
}

// The results do not depend on -recompute, so only the allocated memory shows that the flag has an effect.
func TestRecomputeUsesLessMemory(t *testing.T) {
	folder := ownImages(t, 31, 1)
	allocated := func(flags ...string) float64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		mustRun(t, slices.Concat(strings.Fields("train -model hvae -K 40 -latent 2 -train 16 -batch 16 -epochs 1 -out "+t.TempDir()), []string{"-data", folder}, flags)...)
		runtime.ReadMemStats(&after)
		return float64(after.TotalAlloc - before.TotalAlloc)
	}
	if with, without := allocated("-recompute"), allocated(); !(with < 0.85*without) {
		t.Errorf("a run allocates %.3g bytes with -recompute and %.3g without", with, without)
	}
}
