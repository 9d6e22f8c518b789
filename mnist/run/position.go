package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"hvae/bench/atomicfile"
)

// Metrics are the results of an epoch, a line of MetricsFile.
type Metrics struct {
	Epoch     int     `json:"epoch"`
	TrainELBO float64 `json:"train_elbo"`
	ValELBO   float64 `json:"val_elbo"`
	Seconds   float64 `json:"seconds"`
	Rate      float64 `json:"lr,omitempty"` // once it differs from the run's first rate
}

// A position is the progress of a run. The state stores it as JSON, which preserves the bits
// of floats.
type position struct {
	Epoch, Batch  int       // the next to train; Batch is the number of batches after the last
	Sum, Seconds  float64   // ELBO and time of the epoch so far
	Validated     int       // number of validation images that are done
	ValidationSum float64   // their ELBO
	Best          float64   // best validation ELBO
	BestEpoch     int       // 0 before the first
	Metrics       []Metrics // of past epochs
	Rates         []newRate // changes of the learning rate
}

// A newRate is a learning rate and the first batch, counted from 0, that uses it.
type newRate struct {
	Epoch, Batch int
	Rate         float64
}

// parsePosition reads the position of a run with the given numbers of batches in an epoch and of
// validation images.
func parsePosition(s string, batches, validation int) (p position, err error) {
	if err := json.Unmarshal([]byte(s), &p); err != nil {
		return p, fmt.Errorf("its metadata has no position of the run: %w", err)
	}
	ok := p.Epoch >= 1 && p.Batch >= 0 && p.Batch <= batches && p.BestEpoch >= 0 && p.BestEpoch < p.Epoch &&
		len(p.Metrics) == p.Epoch-1 && p.Validated >= 0 && p.Validated <= validation && (p.Validated == 0 || p.Batch == batches)
	for i, m := range p.Metrics {
		ok = ok && m.Epoch == i+1 && p.BestEpoch > 0 && m.ValELBO <= p.Best && (m.Epoch != p.BestEpoch || m.ValELBO == p.Best)
	}
	if !ok {
		return p, fmt.Errorf("its metadata contradicts itself: epoch %d, batch %d of %d, best epoch %d with ELBO %v, metrics of %d epochs",
			p.Epoch, p.Batch, batches, p.BestEpoch, p.Best, len(p.Metrics))
	}
	return p, nil
}

// ReadText reads a text file, nil if it does not exist. Its size is at most 64 MiB, enough for the
// metrics of half a million epochs.
func ReadText(name string) ([]byte, error) {
	b, err := atomicfile.Read(name, 64<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return b, err
}

// ReadMetrics reads the metrics of a run, none if the file does not exist.
func ReadMetrics(name string) (all []Metrics, err error) {
	b, err := ReadText(name)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(b)) {
		var m Metrics
		if err := json.Unmarshal([]byte(line), &m); err != nil || m.Epoch != len(all)+1 {
			return nil, fmt.Errorf("%s is damaged in line %d: %.100q", name, len(all)+1, line)
		}
		all = append(all, m)
	}
	return all, nil
}
