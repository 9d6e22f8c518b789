package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"hvae/mnist/data"
	"hvae/mnist/model"
)

// A training run must match the oracle (oracle_test.go). The first case uses the default settings. In the second and
// third cases, the learning rate is so large that the third epoch is worse than the second. The model must then contain
// the weights after the second epoch, and the state must contain the weights after the third. In the last case, the
// last batch of validation images is smaller than the other batches.
func TestTrainMatchesTheOracle(t *testing.T) {
	own, large := ownImages(t, 120, 1), ownImages(t, 6*1010+5, 1)
	for _, c := range []struct {
		set          data.Set
		flags        string
		config       model.Config
		n, batch     int // numbers of training images and of images in a batch; the last batch may be smaller
		rate         float64
		seed         uint64
		epochs, best int
	}{
		{ownImages(t, 144, 1), "-epochs 1", model.Config{Kind: "vae", Tempering: "none", Latent: 64}, 120, 100, 1e-3, 1, 1, 0},
		{own, "-epochs 9 -patience 1 -latent 3 -train 50 -batch 20 -lr 0.0085 -seed 2", model.Config{Kind: "vae", Tempering: "none", Latent: 3}, 50, 20, 0.0085, 2, 3, 1},
		{own, "-epochs 9 -patience 1 -model hvae -K 2 -tempering fixed -vary-eps -latent 2 -train 44 -batch 24 -lr 0.008 -seed 9 -recompute",
			model.Config{Kind: "hvae", K: 2, Tempering: "fixed", VaryEps: true, Latent: 2}, 44, 24, 0.008, 9, 3, 1},
		{own, "-epochs 1 -model hvae -K 2 -tempering untied -eps 0.1 -alpha 0.8 -latent 2 -train 26 -batch 10",
			model.Config{Kind: "hvae", K: 2, Tempering: "untied", Latent: 2, Eps: 0.1, Alpha: 0.8}, 26, 10, 1e-3, 1, 1, 0},
		{large, "-epochs 1 -latent 2 -train 26 -batch 10", model.Config{Kind: "vae", Tempering: "none", Latent: 2}, 26, 10, 1e-3, 1, 1, 0},
	} {
		t.Run(c.flags, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			stdout, _ := mustRun(t, append([]string{"train", "-out", dir, "-data", c.set.Folder}, strings.Fields(c.flags)...)...)
			course := newCourse(c.set.Train, c.config, c.n, c.batch, c.rate, c.seed)
			metrics := jsonLines[map[string]float64](t, string(read(t, dir, metricsFile)))
			if len(metrics) != c.epochs {
				t.Fatalf("metrics of %d epochs, want %d", len(metrics), c.epochs)
			}
			var want [][]byte // weights after each epoch
			for i, m := range metrics {
				training, validation := course.next(t)
				if m["epoch"] != float64(i+1) || !closeTo(m["train_elbo"], training) || !closeTo(m["val_elbo"], validation) || !(m["seconds"] > 0) || m["lr"] != c.rate {
					t.Errorf("metrics %v, want epoch %d, training %v, validation %v", m, i+1, training, validation)
				}
				if line := fmt.Sprintf("epoch %d  train %.2f  validation %.2f  ", i+1, training, validation); !strings.Contains(stdout, line) {
					t.Errorf("stdout %q lacks the line %q", stdout, line)
				}
				want = append(want, weights(course.network))
			}
			best, _, err := readCheckpoint(dir)
			noError(t, err)
			if !bytes.Equal(want[c.best], weights(best.Network)) || best.Epoch != c.best+1 || best.DataSHA256 != c.set.SHA256 {
				t.Errorf("the model is not the model after epoch %d", c.best+1)
			}
			last, _, err := readCheckpoint(filepath.Join(dir, stateFile))
			noError(t, err)
			if !bytes.Equal(want[c.epochs-1], weights(last.Network)) || last.Epoch != c.epochs {
				t.Errorf("the model in the state is not the model after epoch %d", c.epochs)
			}
		})
	}
}

// States of other versions and states with an impossible header must be refused before memory is allocated for them.
func TestInvalidStatesAreRefused(t *testing.T) {
	for want, damage := range map[string]func(s *state){
		`its format is "hvae-mnist-state/5", not`: func(s *state) { s.Format = "hvae-mnist-state/5" },
		"5000 latent dimensions":                  func(s *state) { s.Settings.Latent = 5000 },
		"numbers are missing":                     func(s *state) { s.Trainer.Params[1].Averages.Rows = 1 << 30 },
		"are missing":                             func(s *state) { s.Trainer.Params[0].Value.Rows = -1 },
		"cannot restore a state":                  func(s *state) { s.Trainer.Params[0].Name = "other" },
		`the optimiser "other"`:                   func(s *state) { s.Trainer.Optimiser = "other" },
	} {
		settings := model.Defaults()
		settings.Latent = 1
		trainer := model.NewTrainer(settings, model.New[float32](settings.Config, 0, 1), nil)
		s := state{Format: stateFormat, Settings: settings, Trainer: trainer.State()}
		damage(&s)
		name := filepath.Join(t.TempDir(), stateFile)
		write(t, s.encode(), name)
		if _, err := readModel(name); !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestFoldersWithoutHardLinksAreRefused(t *testing.T) {
	defer func(f func(from, to string) error) { link = f }(link)
	link = func(from, to string) error { return &os.LinkError{Op: "link", Old: from, New: to, Err: syscall.EPERM} }
	dir := t.TempDir()
	_, stderr, status := mnist(t.Context(), "train", "-data", "synthetic", "-latent", "1", "-out", dir)
	want := "the file system of " + dir + " has no hard links: choose another folder with -out"
	if status != 1 || !strings.Contains(stderr, want) {
		t.Errorf("status %d, stderr %q; want %q", status, stderr, want)
	}
}
