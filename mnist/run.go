package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"hvae/bench/atomicfile"
	"hvae/bench/plot"
	"hvae/mnist/model"
	"hvae/mnist/safetensors"
)

// The files of a run.
const (
	modelFile   = "model.safetensors" // the weights of the best epoch
	stateFile   = "state.safetensors" // everything that a resume needs
	metricsFile = "metrics.jsonl"     // an object for each epoch
	curveFile   = "curve.svg"         // the same as a picture
	samplesFile = "samples.png"       // digits that the best epoch generates
)

// metrics is what is known about an epoch.
type metrics struct {
	Epoch     int     `json:"epoch"`
	TrainELBO float64 `json:"train_elbo"`
	ValELBO   float64 `json:"val_elbo"`
	Seconds   float64 `json:"seconds"`
}

// A run is a folder with the files of a training run, and how far it is. Every file is
// replaced as a whole, and the state last: whenever the program is killed, the state
// that is there repeats what came after it, to the same bits.
type run struct {
	folder   string
	settings settings

	epoch, batch int       // the next to train
	sum, seconds float64   // of the part of the epoch that is done: ELBO and time
	best         float64   // validation ELBO
	bestEpoch    int       // 0 before the first
	metrics      []metrics // of the epochs that are done
}

// openRun makes the folder of a new run, or reads the state of one to resume.
func openRun(s settings, t *model.Trainer[float32]) (*run, error) {
	r := &run{folder: s.out, settings: s, epoch: 1}
	name := r.path(stateFile)
	_, err := os.Stat(name)
	switch exists := err == nil; {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case exists && !s.resume:
		return nil, fmt.Errorf("%s holds a run already: go on with it by -resume, or give another folder with -out", s.out)
	case !exists && s.resume:
		return nil, fmt.Errorf("there is nothing to resume: %s does not exist", name)
	case exists:
		if err := r.read(t); err != nil {
			return nil, fmt.Errorf("cannot resume from %s: %w", name, err)
		}
		return r, nil
	}
	if err := os.MkdirAll(s.out, 0o755); err != nil {
		return nil, fmt.Errorf("cannot make the folder %s: %w; give another with -out", s.out, err)
	}
	if err := r.saveState(t); err != nil {
		return nil, fmt.Errorf("%w; give another folder with -out", err)
	}
	return r, nil
}

func (r *run) path(file string) string { return filepath.Join(r.folder, file) }

// shared are the settings that a resumed run must share.
func (r *run) shared() map[string]string {
	s := r.settings
	return map[string]string{
		"model":     s.config.Kind,
		"K":         strconv.Itoa(s.config.K),
		"tempering": s.config.Tempering,
		"vary-eps":  strconv.FormatBool(s.config.VaryEps),
		"latent":    strconv.Itoa(s.config.Latent),
		"batch":     strconv.Itoa(s.batch),
		"lr":        strconv.FormatFloat(s.rate, 'g', -1, 64),
		"seed":      strconv.FormatUint(s.seed, 10),
		"train":     strconv.Itoa(s.train),
		"data":      s.dataset,
	}
}

// A position is where a run is, exactly, in the state's metadata.
type position struct {
	Epoch, Batch int
	Sum, Seconds float64
	Best         float64
	BestEpoch    int
	Metrics      []metrics
}

// parsePosition reads a position in a run whose epochs have so many batches.
func parsePosition(s string, batches int) (p position, err error) {
	if err := json.Unmarshal([]byte(s), &p); err != nil {
		return p, fmt.Errorf("its metadata does not say how far the run is: %w", err)
	}
	ok := p.Epoch >= 1 && p.Batch >= 0 && p.Batch <= batches && p.BestEpoch >= 0 && p.BestEpoch < p.Epoch && len(p.Metrics) == p.Epoch-1
	for i, m := range p.Metrics {
		ok = ok && m.Epoch == i+1
	}
	if !ok {
		return p, fmt.Errorf("its metadata contradicts itself: epoch %d, batch %d of %d, best epoch %d, metrics of %d epochs", p.Epoch, p.Batch, batches, p.BestEpoch, len(p.Metrics))
	}
	return p, nil
}

// saveState writes the state file.
func (r *run) saveState(t *model.Trainer[float32]) error {
	p, err := json.Marshal(position{r.epoch, r.batch, r.sum, r.seconds, r.best, r.bestEpoch, r.metrics})
	if err != nil {
		return fmt.Errorf("cannot save the state: %w", err)
	}
	if err := safetensors.WriteFile(r.path(stateFile), t.StateFile(r.shared(), map[string]string{"progress": string(p)})); err != nil {
		return fmt.Errorf("cannot save the state: %w", err)
	}
	return nil
}

// read reads the state file into the run and the trainer, and makes the metrics agree.
func (r *run) read(t *model.Trainer[float32]) error {
	f, err := safetensors.ReadFile(r.path(stateFile))
	if err != nil {
		return err
	}
	meta, err := t.Restore(f, r.shared())
	if err != nil {
		return err
	}
	p, err := parsePosition(meta["progress"], r.settings.batches())
	if err != nil {
		return err
	}
	r.epoch, r.batch, r.sum, r.seconds = p.Epoch, p.Batch, p.Sum, p.Seconds
	r.best, r.bestEpoch, r.metrics = p.Best, p.BestEpoch, p.Metrics
	for _, file := range []string{modelFile, stateFile, metricsFile, curveFile, samplesFile} {
		if err := atomicfile.Clean(r.path(file)); err != nil {
			return fmt.Errorf("cannot tidy up after the last run: %w", err)
		}
	}
	return r.writeMetrics()
}

// finishEpoch writes all files after an epoch, says whether it was the best, and goes
// on to the next.
func (r *run) finishEpoch(t *model.Trainer[float32], m metrics) (better bool, err error) {
	r.metrics = append(r.metrics, m)
	if better = r.bestEpoch == 0 || m.ValELBO > r.best; better {
		r.best, r.bestEpoch = m.ValELBO, m.Epoch
		c := model.Checkpoint{Config: t.Config, Params: t.Params, Seed: r.settings.seed, Epoch: m.Epoch, ELBO: m.ValELBO}
		if err := safetensors.WriteFile(r.path(modelFile), c.File()); err != nil {
			return better, fmt.Errorf("cannot save the model: %w", err)
		}
		if err := writeSheet(r.path(samplesFile), model.Generate(t.Config, t.Params, 64, r.settings.seed), 8); err != nil {
			return better, err
		}
	}
	if err := r.writeMetrics(); err != nil {
		return better, err
	}
	r.epoch++
	r.batch, r.sum, r.seconds = 0, 0, 0
	return better, r.saveState(t)
}

func (r *run) writeMetrics() error {
	if len(r.metrics) == 0 {
		return nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	train, validation := plot.Series{Label: "training"}, plot.Series{Label: "validation"}
	for _, m := range r.metrics {
		if err := enc.Encode(m); err != nil {
			return fmt.Errorf("cannot describe epoch %d: %w", m.Epoch, err)
		}
		train.X, train.Y = append(train.X, float64(m.Epoch)), append(train.Y, m.TrainELBO)
		validation.X, validation.Y = append(validation.X, float64(m.Epoch)), append(validation.Y, m.ValELBO)
	}
	if err := atomicfile.Write(r.path(metricsFile), b.Bytes()); err != nil {
		return fmt.Errorf("cannot write the metrics: %w", err)
	}
	curve := plot.Chart{
		Title: "Training: " + r.settings.config.String(), XLabel: "epoch", YLabel: "ELBO (nats)",
		Series: []plot.Series{train, validation},
	}
	if err := atomicfile.Write(r.path(curveFile), curve.SVG()); err != nil {
		return fmt.Errorf("cannot write the curve: %w", err)
	}
	return nil
}
