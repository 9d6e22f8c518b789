package run

import (
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"hvae/bench/progress"
	"hvae/mnist/data"
	"hvae/mnist/model"
)

// The progress line must contain the mean ELBO of the epoch so far. Its batches have 20, 20 and 10 images.
func TestProgressOfARun(t *testing.T) {
	r := &Run{settings: &Settings{BatchSize: 20, Protocol: Protocol{MaxEpochs: 10}}, training: make([]int, 50), batches: 3}
	for _, c := range []struct {
		at     position
		status string
		done   float64
	}{
		{position{Epoch: 1, Batch: 1, Sum: -5000}, "epoch 1, batch 1 of 3, ELBO -250.00", 1. / 30},
		{position{Epoch: 4, Batch: 3, Sum: -5000}, "epoch 4, batch 3 of 3, ELBO -100.00", 0.4},
		{position{Epoch: 10, Batch: 2, Sum: -5000}, "epoch 10, batch 2 of 3, ELBO -125.00", 0.9 + 2./30},
	} {
		r.position = c.at
		if got := r.status(); got != c.status || !(math.Abs(r.done()-c.done) <= 1e-6) {
			t.Errorf("status %q, done %v; want %q, %v", got, r.done(), c.status, c.done)
		}
	}
}

// The mean 10²⁰ of z makes log p(z) = −∞ in float32.
func TestAnInfiniteValidationELBOEndsTheRun(t *testing.T) {
	set, err := data.Load(t.Context(), data.Synthetic, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := model.Config{Kind: "vae", Tempering: "none", Latent: 1}
	r := &Run{settings: &Settings{Out: "DIR"}, set: set, validation: []int{0}}
	r.trainer = model.NewTrainer(c, model.NewParams[float32](c, 0, 1), 1e-3, 1)
	for _, p := range r.trainer.Params {
		if p.Name == "encoder.mean.bias" {
			p.Value.Fill(1e20)
		}
	}
	err = r.trainEpoch(t.Context(), progress.New(io.Discard, 0, func(time.Duration) string { return "" }))
	if err == nil || !strings.Contains(err.Error(), "validation: the ELBO is -Inf; the last saved state is in DIR") {
		t.Errorf("the error is %v, want an error that names the ELBO -Inf", err)
	}
}

func FuzzTrainFlags(f *testing.F) {
	f.Add("-K", "3", "-model", "hvae")
	f.Add("-lr", "1e-3", "-batch", "10")
	f.Add("-tempering", "free", "-vary-eps", "-resume")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		s := NewSettings()
		if s.Flags.Parse([]string{"-out", "x", a, b, c, d}) != nil || s.Check() != nil {
			return
		}
		if s.Config.Check() != nil || s.BatchSize < 1 || s.MaxEpochs < 1 || s.Patience < 1 || s.Train < 0 || !(s.Rate > 0) || s.Out == "" {
			t.Errorf("the flags %q %q %q %q are accepted and give %+v", a, b, c, d, s)
		}
	})
}
