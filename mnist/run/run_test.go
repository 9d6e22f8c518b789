package run

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hvae/bench/progress"
	"hvae/mnist/data"
	"hvae/mnist/model"
)

var update = flag.Bool("update", false, "replace checked-in figures")

// tinySettings returns the settings of a run with two batches in an epoch.
func tinySettings() Settings {
	s := Defaults()
	s.Latent, s.Train, s.Batch, s.Epochs, s.Data = 1, 20, 10, 1, data.Synthetic
	return s
}

func synthetic(t *testing.T) data.Set {
	t.Helper()
	set, err := data.Load(t.Context(), data.Synthetic, nil)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// The progress line must contain the mean ELBO of the epoch so far. Its batches have 20, 20 and 10 images.
func TestProgressOfARun(t *testing.T) {
	for _, c := range []struct {
		epochs, images int
		status         string
		done           float64
	}{
		{0, 20, "epoch 1, image 20 of 50, ELBO -250.00", 0.04},
		{3, 50, "epoch 4, image 50 of 50, ELBO -100.00", 0.4},
		{9, 40, "epoch 10, image 40 of 50, ELBO -125.00", 0.98},
	} {
		r := &Run{State: State{Settings: Settings{Epochs: 10}, Metrics: make([]Metrics, c.epochs)}, training: make([]int, 50), images: c.images, sum: -5000}
		if got := r.status(); got != c.status || !(math.Abs(r.done()-c.done) <= 1e-6) {
			t.Errorf("status %q, done %v; want %q, %v", got, r.done(), c.status, c.done)
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

// The mean 10²⁰ of z makes log p(z) = −∞ in float32.
func TestAnInfiniteValidationELBOIsAnError(t *testing.T) {
	r, err := New(tinySettings(), synthetic(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.training = nil
	for _, p := range r.trainer.Params {
		if p.Name == "encoder.mean.bias" {
			p.Value.Fill(1e20)
		}
	}
	_, err = r.trainEpoch(t.Context(), progress.New(io.Discard, 0, func(time.Duration) string { return "" }))
	if err == nil || !strings.Contains(err.Error(), "validation: the ELBO is -Inf") {
		t.Errorf("the error is %v, want an error that names the ELBO -Inf", err)
	}
}

// The training curve in mnist/README.md must be the curve of its run.
func TestTheCurveMatchesTheCheckedInFigure(t *testing.T) {
	root, err := os.OpenRoot("../results/2000/vae-85547")
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	all, err := ReadMetrics(root)
	metrics, errMetrics := root.ReadFile(MetricsFile)
	want, errCurve := os.ReadFile("../pictures/curve.svg")
	if err := errors.Join(err, errMetrics, errCurve); err != nil {
		t.Fatal(err)
	}
	r := &Run{State: State{Settings: Defaults(), Data: "mnist", Metrics: all}}
	if got := r.curve(); !bytes.Equal(got, want) {
		t.Errorf("the curve differs from ../pictures/curve.svg; go test -update draws it again")
		if *update {
			os.WriteFile("../pictures/curve.svg", got, 0o644)
		}
	}
	if again := encodeMetrics(all); !bytes.Equal(again, metrics) {
		t.Error("the metrics differ from the file after reading and writing")
	}
}

// trained returns the state of a tiny run after one epoch, and the contents of its file.
func trained(t *testing.T) (*State, []byte, data.Set) {
	t.Helper()
	set := synthetic(t)
	r, err := New(tinySettings(), set, nil)
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	folder, err := Lock(root)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Unlock()
	if err := r.Train(t.Context(), folder, io.Discard, io.Discard, ""); err != nil {
		t.Fatal(err)
	}
	s, err := folder.ReadState()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(root.Name(), StateFile))
	if err != nil {
		t.Fatal(err)
	}
	return s, b, set
}

// encodeWith returns the contents of a state file that contains text instead of the progress of r. The
// SHA-256 is correct.
func encodeWith(r *Run, text string, best []model.Param[float32]) []byte {
	return r.trainer.State(text, best).Encode()
}

// Changes of a state that keep its SHA-256 correct must lead to an error instead of a panic.
func TestImpossibleStatesAreRefused(t *testing.T) {
	s, b, set := trained(t)
	r, err := New(s.Settings, set, s)
	if err != nil {
		t.Fatal(err)
	}
	original := s.weights.Progress
	if again := encodeWith(r, original, r.Best); !bytes.Equal(again, b) {
		t.Fatal("the state differs after reading and writing")
	}
	null := func(from, to string) string {
		t.Helper()
		if !strings.Contains(original, from) {
			t.Fatalf("the state lacks %s: %s", from, original)
		}
		return strings.Replace(original, from, to, 1)
	}
	_, metrics, _ := strings.Cut(original, `"metrics":`)
	metrics = strings.TrimSuffix(metrics, "}")
	for name, text := range map[string]string{
		"no progress":     "",
		"not JSON":        "{",
		"metrics null":    null(metrics, "null"),
		"metrics empty":   null(metrics, "[]"),
		"epoch 0":         null(`"epoch":1`, `"epoch":0`),
		"epoch -1":        null(`"epoch":1`, `"epoch":-1`),
		"val_elbo null":   null(`"val_elbo":-`, `"val_elbo":null,"x":-`),
		"unknown field":   null(`"settings":`, `"more":1,"settings":`),
		"batch 0":         null(`"batch":10`, `"batch":0`),
		"batch too large": null(`"batch":10`, `"batch":1000000000000`),
		"learning rate 0": null(`"lr":0.001`, `"lr":0`),
		"patience 0":      null(`"patience":100`, `"patience":0`),
		"huge model":      null(`"latent":1`, `"latent":1000000000`),
		"other model":     null(`"latent":1`, `"latent":2`),
		"unknown kind":    null(`"model":"vae"`, `"model":"gan"`),
		"too many images": null(`"train":20`, `"train":900000`),
		"other images":    null(`"data_sha256":"`, `"data_sha256":"0`),
		"negative seed":   null(`"seed":1`, `"seed":-1`),
		"VAE with steps":  null(`"K":0`, `"K":3`),
	} {
		changed := &State{weights: s.weights}
		err := changed.parse(text)
		if err == nil {
			_, err = New(changed.Settings, set, changed)
		}
		if err == nil || strings.Count(err.Error(), "\n") > 0 {
			t.Errorf("%s: the error is %v, want one line", name, err)
		}
	}
	s, err = decodeState(encodeWith(r, original, nil)) // no best weights
	if err == nil {
		_, err = New(s.Settings, set, s)
	}
	if err == nil {
		t.Error("a state without the best weights is accepted")
	}
	unhashed := bytes.Replace(b, []byte(`"sha256":`), []byte(`"sha-256":`), 1)
	unhashed = bytes.Replace(unhashed, []byte(`}},"`), []byte(`}},"`), 1)
	if _, err := decodeState(unhashed); err == nil {
		t.Error("a state without SHA-256 is accepted")
	}
}

func TestAStateOfManyEpochsCanBeRead(t *testing.T) {
	s, _, set := trained(t)
	r, err := New(s.Settings, set, s)
	if err != nil {
		t.Fatal(err)
	}
	r.Data = strings.Repeat("x", 20<<20) // longer than the metrics of 150,000 epochs
	text, err := json.Marshal(r.State)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := decodeState(encodeWith(r, string(text), r.Best)); err != nil || s.Data != r.Data {
		t.Errorf("a state with a long header cannot be read: %v", err)
	}
}

// A state that parse accepts must be safe to resume.
func FuzzState(f *testing.F) {
	valid, _ := json.Marshal(State{Settings: Defaults(), Data: "mnist", Metrics: []Metrics{{Epoch: 1, TrainELBO: -2, ValELBO: -3}}})
	f.Add(string(valid))
	f.Add(strings.Replace(string(valid), `"epoch":1`, `"epoch":0`, 1))
	f.Add(strings.Replace(string(valid), `"val_elbo":-3`, `"val_elbo":null`, 1))
	f.Add(strings.Replace(string(valid), `"batch":100`, `"batch":-1`, 1))
	f.Fuzz(func(t *testing.T, text string) {
		var s State
		if s.parse(text) != nil {
			return
		}
		c := s.Settings
		if c.Config.Check() != nil || c.Batch < 1 || c.Epochs < 1 || c.Patience < 1 || c.Train < 0 || !(c.Rate > 0) {
			t.Errorf("%q is accepted and gives %+v", text, c)
		}
		for i, m := range s.Metrics {
			if m.Epoch != i+1 || math.IsNaN(m.ValELBO) || math.IsInf(m.ValELBO, 0) {
				t.Errorf("%q is accepted and gives %+v", text, s.Metrics)
			}
		}
	})
}
