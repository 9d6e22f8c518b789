package main

import (
	"bytes"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"hvae/bench/progress"
	"hvae/mnist/data"
	"hvae/mnist/model"
	"hvae/mnist/safetensors"
)

// tinySettings returns the settings of a run with two batches in an epoch.
func tinySettings() model.Settings {
	s := model.Defaults()
	s.Latent, s.Train, s.Batch, s.Epochs, s.Data = 1, 20, 10, 1, data.Synthetic
	return s
}

// The progress line must contain the mean ELBO of the epoch so far. The batches of the epoch have 20, 20 and 10 images.
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
		r := &trainingRun{State: model.State{Settings: model.Settings{Epochs: 10}, Metrics: make([]model.Metrics, c.epochs)}, training: make([]int, 50), images: c.images, sum: -5000}
		if got := r.status(); got != c.status || !(math.Abs(r.done()-c.done) <= 1e-6) {
			t.Errorf("status %q, done %v; want %q, %v", got, r.done(), c.status, c.done)
		}
	}
}

// The encoder's mean of z is 10²⁰, so log p(z) is −∞ in float32. The run must then return an error.
func TestAnInfiniteValidationELBOIsAnError(t *testing.T) {
	r, err := newRun(tinySettings(), digits(t), nil)
	noError(t, err)
	r.training = nil
	for _, p := range r.Params {
		if p.Name == "encoder.mean.bias" {
			p.Value.Fill(1e20)
		}
	}
	_, err = r.trainEpoch(t.Context(), progress.New(io.Discard, 0, func(time.Duration) string { return "" }))
	if err == nil || !strings.Contains(err.Error(), "validation: the ELBO is -Inf") {
		t.Errorf("the error is %v, want an error that names the ELBO -Inf", err)
	}
}

// The training curve in README.md must match the metrics of its run.
func TestTheCurveMatchesTheCheckedInFigure(t *testing.T) {
	run := "results/2000/vae-85547"
	all, err := readMetrics(folderOf(t, run))
	noError(t, err)
	r := &trainingRun{State: model.State{Settings: model.Defaults(), Data: "mnist", Metrics: all}}
	if got := r.curve(); !bytes.Equal(got, read(t, "pictures", curveFile)) {
		t.Errorf("the curve differs from pictures/curve.svg; go test -update draws it again")
		if *update {
			write(t, got, "pictures", curveFile)
		}
	}
	if !bytes.Equal(encodeMetrics(all), read(t, run, metricsFile)) {
		t.Error("the metrics differ from the file after reading and writing")
	}
}

// tinyState returns the state of a tiny run after one epoch, and the contents of its file.
func tinyState(t *testing.T) (*model.State, []byte) {
	t.Helper()
	r, err := newRun(tinySettings(), digits(t), nil)
	noError(t, err)
	f, err := lockFolder(os.OpenRoot(t.TempDir()))
	noError(t, err)
	defer f.close()
	noError(t, r.train(t.Context(), f, io.Discard, io.Discard, ""))
	s, err := readState(f.Root)
	noError(t, err)
	return s, read(t, f.Name(), stateFile)
}

// changed returns the state file b after a change. The SHA-256 of the result is correct.
func changed(t *testing.T, b []byte, change func(f *safetensors.File)) []byte {
	t.Helper()
	f, err := safetensors.Decode(b)
	noError(t, err)
	change(&f)
	return f.Encode()
}

// A state with impossible values must lead to an error and not to a panic, even if its SHA-256 is correct.
func TestImpossibleStatesAreRefused(t *testing.T) {
	s, b := tinyState(t)
	r, err := newRun(s.Settings, digits(t), s)
	noError(t, err)
	if !bytes.Equal(r.Encode(), b) {
		t.Fatal("the state differs after reading and writing")
	}
	var original string
	changed(t, b, func(f *safetensors.File) { original = f.Metadata["progress"] })
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
		s, err := model.DecodeState(changed(t, b, func(f *safetensors.File) { f.Metadata["progress"] = text }))
		if err == nil {
			_, err = newRun(s.Settings, digits(t), s)
		}
		if err == nil || strings.Count(err.Error(), "\n") > 0 {
			t.Errorf("%s: the error is %v, want one line", name, err)
		}
	}
	without := func(f *safetensors.File) {
		f.Tensors = slices.DeleteFunc(f.Tensors, func(t safetensors.Tensor) bool { return strings.HasPrefix(t.Name, "best.") })
	}
	if _, err := model.DecodeState(changed(t, b, without)); err == nil {
		t.Error("a state without the best weights is accepted")
	}
	unhashed := bytes.Replace(b, []byte(`"sha256":`), []byte(`"sha-256":`), 1)
	unhashed = bytes.Replace(unhashed, []byte(`}},"`), []byte(`}},"`), 1)
	if _, err := model.DecodeState(unhashed); err == nil {
		t.Error("a state without SHA-256 is accepted")
	}
}

func TestAStateOfManyEpochsCanBeRead(t *testing.T) {
	s, _ := tinyState(t)
	r, err := newRun(s.Settings, digits(t), s)
	noError(t, err)
	r.Data = strings.Repeat("x", 20<<20) // longer than the metrics of 150,000 epochs
	if s, err := model.DecodeState(r.Encode()); err != nil || s.Data != r.Data {
		t.Errorf("a state with a long header cannot be read: %v", err)
	}
}
