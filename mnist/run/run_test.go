package run

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// Epochs have 50 images in batches of 20, 20 and 10.
func TestProgressOfARun(t *testing.T) {
	r := &Run{settings: &Settings{BatchSize: 20, Protocol: Protocol{MaxEpochs: 10, Patience: 3}}, training: make([]int, 50), batches: 3}
	for _, c := range []struct {
		at                position
		status            string
		done, doneAtLeast float64
	}{
		{position{Epoch: 1, Batch: 1, Sum: -5000}, "epoch 1, batch 1 of 3, ELBO -250.00", 1. / 30, 0.3},
		{position{Epoch: 4, Batch: 3, Sum: -5000, Metrics: bestIn(2)}, "epoch 4, batch 3 of 3, ELBO -100.00", 0.4, 0.5},
		{position{Epoch: 10, Batch: 2, Sum: -5000, Metrics: bestIn(9)}, "epoch 10, batch 2 of 3, ELBO -125.00", 0.9 + 2./30, 1},
	} {
		r.position = c.at
		if got := r.status(); got != c.status || !near(r.done(), c.done) || !near(r.doneAtLeast(), c.doneAtLeast) {
			t.Errorf("status %q, done %v, doneAtLeast %v; want %q, %v, %v", got, r.done(), r.doneAtLeast(), c.status, c.done, c.doneAtLeast)
		}
	}
}

// bestIn returns metrics with the given best epoch.
func bestIn(epoch int) []Metrics {
	return []Metrics{{Epoch: 1, ValELBO: -3}, {Epoch: epoch, ValELBO: -1}, {Epoch: 9, ValELBO: -1}}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*math.Abs(b) }

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

func FuzzPosition(f *testing.F) {
	f.Add(`{"Epoch":2,"Batch":3,"Sum":-1.5,"Seconds":2,"Metrics":[{"epoch":1,"train_elbo":-1,"val_elbo":-2,"seconds":3}]}`, 5)
	f.Add(`{"Epoch":1,"Batch":1,"Validated":3,"RateChanged":true}`, 1)
	f.Add(`{"Epoch":1,"Batch":1,"Validated":11}`, 1)
	f.Add(`{"Epoch":9223372036854775807,"Metrics":null}`, 0)
	f.Fuzz(func(t *testing.T, s string, batches int) {
		const validation = 10
		p, err := parsePosition(s, batches, validation)
		if err != nil {
			return
		}
		if p.Epoch != len(p.Metrics)+1 || p.Batch < 0 || p.Batch > batches ||
			p.Validated < 0 || p.Validated > validation || p.Validated > 0 && p.Batch < batches {
			t.Errorf("parsePosition accepts %q as %+v", s, p)
		}
		again, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		q, err := parsePosition(string(again), batches, validation)
		if diff := cmp.Diff(p, q, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("%q is encoded as %q and decoded as another position: %v\n%s", s, again, err, diff)
		}
	})
}
