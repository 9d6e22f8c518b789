package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"hvae/bench/atomicfile"
	"hvae/bench/filelock"
	"hvae/bench/plot"
	"hvae/linalg"
	"hvae/mnist/data"
	"hvae/mnist/model"
	"hvae/mnist/sheet"
)

// saveEvery is the time between two saves of the state within an epoch, which a kill can
// cost. A save takes about 40 ms.
var saveEvery = 2 * time.Minute

// metrics is what is known about an epoch.
type metrics struct {
	Epoch     int     `json:"epoch"`
	TrainELBO float64 `json:"train_elbo"`
	ValELBO   float64 `json:"val_elbo"`
	Seconds   float64 `json:"seconds"`
	Rate      float64 `json:"lr,omitempty"` // once it is not the one that the run began with
}

// A position is how far a run is. The state's metadata has it as JSON, so that floats
// come back as the same bits.
type position struct {
	Epoch, Batch  int       // the next to train; after the last batch the validation is next
	Sum, Seconds  float64   // of the part of the epoch that is done: ELBO and time
	Validated     int       // images of the validation that are done
	ValidationSum float64   // their ELBO
	Best          float64   // validation ELBO
	BestEpoch     int       // 0 before the first
	Metrics       []metrics // of the epochs that are done
	Rates         []newRate // that a resume asked for
}

// A newRate is a learning rate with the first batch, counted from 0, that it holds for.
type newRate struct {
	Epoch, Batch int
	Rate         float64
}

// A run is a folder with the files of a training run, and how far it is. Every file is
// replaced as a whole, and the state last: whenever the program is killed, the state
// that is there repeats what came after it, to the same bits.
type run struct {
	settings
	position
	trainer *model.Trainer[float32]
	best    []model.Param[float32] // nil before the first epoch
	name    string                 // of the data that it is trained on
	digest  string                 // theirs
	lock    *filelock.Lock         // of the folder
	saved   time.Time              // when the state was written last

	images, validationImages int // to train and to validate on
}

// batches returns how many an epoch has.
func (r *run) batches() int { return (r.images + r.batch - 1) / r.batch }

// begin saves the start of a new run.
func (r *run) begin() error {
	r.Epoch = 1
	if err := r.tidy(); err != nil {
		return err
	}
	if err := r.saveState(); err != nil {
		return fmt.Errorf("%w; give another folder with -out", err)
	}
	return nil
}

// restore goes to where a state says that the run is, and makes the other files agree
// with it.
func (r *run) restore(state model.State) (err error) {
	if r.best, err = r.trainer.Restore(state); err != nil {
		return err
	}
	if r.position, err = parsePosition(state.Progress, r.batches(), r.validationImages); err != nil {
		return err
	}
	if steps := (r.Epoch-1)*r.batches() + r.Batch; state.Steps != steps {
		return fmt.Errorf("its metadata contradicts itself: the optimiser has taken %d steps, the run %d", state.Steps, steps)
	}
	if r.best == nil && r.BestEpoch > 0 {
		if err := r.readBest(); err != nil {
			return err
		}
	}
	if state.Digest == "" {
		if err := r.compareBest(); err != nil {
			return err
		}
	}
	if was := storedSettings(state)["lr"]; was != r.stored["lr"] {
		if n := len(r.Rates); n > 0 && r.Rates[n-1].Epoch == r.Epoch && r.Rates[n-1].Batch == r.Batch {
			r.Rates = r.Rates[:n-1] // which held for nothing
		}
		r.Rates = append(r.Rates, newRate{r.Epoch, r.Batch, r.rate})
	}
	if err := r.tidy(); err != nil {
		return err
	}
	if err := r.writeMetrics(); err != nil {
		return err
	}
	if r.best != nil {
		if err := r.writeBest(); err != nil {
			return err
		}
	}
	if maps.Equal(state.Settings, r.kept()) {
		r.saved = time.Now()
		return nil
	}
	return r.saveState()
}

// saveState writes the state file.
func (r *run) saveState() error {
	p, err := json.Marshal(r.position)
	if err != nil {
		return fmt.Errorf("cannot save the state: %w", err)
	}
	if err := r.write(stateFile, r.trainer.State(r.kept(), string(p), r.best).Encode()); err != nil {
		return fmt.Errorf("cannot save the state: %w", err)
	}
	r.saved = time.Now()
	return nil
}

// kept returns the settings that the state keeps, with the data's name and digest and the
// kernels.
func (r *run) kept() map[string]string {
	all := maps.Clone(r.stored)
	all["dataset"], all["dataset_sha256"], all["kernels"] = r.name, r.digest, kernels()
	return all
}

// kernels returns plain or vector, the kernels in use. All vector kernels give the same bits.
func kernels() string {
	if name, _ := linalg.Vectors(); name == "none" {
		return "plain"
	}
	return "vector"
}

// storedSettings returns the settings in a state by their flags, and the data's name
// under dataset.
func storedSettings(state model.State) map[string]string {
	s := state.Settings
	if _, ok := s["dataset"]; !ok { // the first format had the name only
		s = maps.Clone(s)
		s["dataset"] = s["data"]
		if s["data"] != data.Synthetic {
			delete(s, "data")
		}
	}
	return s
}

// finishEpoch writes all files after an epoch, says whether it was the best, and goes
// on to the next.
func (r *run) finishEpoch(m metrics) (better bool, err error) {
	if len(r.Rates) > 0 {
		m.Rate = r.rate
	}
	r.Metrics = append(r.Metrics, m)
	if better = r.BestEpoch == 0 || m.ValELBO > r.Best || m.Epoch == r.BestEpoch; better {
		r.Best, r.BestEpoch, r.best = m.ValELBO, m.Epoch, model.CloneParams(r.trainer.Params)
		if err := r.writeBest(); err != nil {
			return better, err
		}
	}
	if err := r.writeMetrics(); err != nil {
		return better, err
	}
	r.Epoch++
	r.Batch, r.Sum, r.Seconds, r.Validated, r.ValidationSum = 0, 0, 0, 0, 0
	return better, r.saveState()
}

// writeBest writes the model of the best epoch and digits that it generates.
func (r *run) writeBest() error {
	c := model.Checkpoint{Config: r.config, Params: r.best, Seed: r.seed, Epoch: r.BestEpoch, ELBO: r.Best, Data: r.name, DataSHA256: r.digest}
	b := c.File().Encode()
	if old, err := atomicfile.Read(r.path(modelFile), int64(len(b))); err != nil || !bytes.Equal(old, b) {
		if err := r.write(modelFile, b); err != nil {
			return fmt.Errorf("cannot save the model: %w", err)
		}
	}
	digits := model.Generate(r.config, r.best, 64, r.seed)
	if err := r.write(samplesFile, sheet.Draw(digits, nil, 8)); err != nil {
		return fmt.Errorf("cannot write the samples: %w", err)
	}
	return nil
}

func (r *run) writeMetrics() error {
	if len(r.Metrics) == 0 {
		return nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	train, validation := plot.Series{Label: "training"}, plot.Series{Label: "validation"}
	for _, m := range r.Metrics {
		if err := enc.Encode(m); err != nil {
			return fmt.Errorf("cannot describe epoch %d: %w", m.Epoch, err)
		}
		train.X, train.Y = append(train.X, float64(m.Epoch)), append(train.Y, m.TrainELBO)
		validation.X, validation.Y = append(validation.X, float64(m.Epoch)), append(validation.Y, m.ValELBO)
	}
	if err := r.write(metricsFile, b.Bytes()); err != nil {
		return fmt.Errorf("cannot write the metrics: %w", err)
	}
	var ticks []float64
	last := r.Metrics[len(r.Metrics)-1].Epoch
	for power := 1; power <= last; power *= 10 {
		for _, epoch := range []int{power, 2 * power, 5 * power} {
			if epoch <= last {
				ticks = append(ticks, float64(epoch))
			}
		}
	}
	best := plot.Series{Label: fmt.Sprintf("best epoch, %d", r.BestEpoch), X: []float64{float64(r.BestEpoch)}, Y: []float64{r.Best}, Style: plot.Points}
	curve := plot.Chart{
		Title: fmt.Sprintf("Training: %v, on %s", r.config, r.name), XLabel: "epoch", YLabel: "ELBO (nats)",
		LogX: true, XTicks: ticks, Series: []plot.Series{train, validation, best},
	}
	if err := r.write(curveFile, curve.SVG()); err != nil {
		return fmt.Errorf("cannot write the curve: %w", err)
	}
	return nil
}
