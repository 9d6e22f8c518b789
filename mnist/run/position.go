package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"hvae/bench/atomicfile"
	"hvae/mnist/model"
)

// Metrics are the results of an epoch. Each line of MetricsFile contains the Metrics of one epoch as JSON.
type Metrics struct {
	Epoch     int     `json:"epoch"`
	TrainELBO float64 `json:"train_elbo"`
	ValELBO   float64 `json:"val_elbo"`
	Seconds   float64 `json:"seconds"`
	Rate      float64 `json:"lr,omitempty"` // learning rate; 0 until a resumed run changes it
	model.Flow
}

// A position holds the progress of a run. The state contains the position as JSON, which preserves
// all bits of float64 numbers.
type position struct {
	Epoch         int       // current epoch, from 1
	Batch         int       // number of batches trained in the epoch
	Sum           float64   // training ELBO, summed over the images of these batches
	Seconds       float64   // duration of the epoch so far
	Validated     int       // number of validation images evaluated in the epoch
	ValidationSum float64   // validation ELBO, summed over these images
	Metrics       []Metrics // metrics of earlier epochs
	RateChanged   bool      // whether a resumed run has changed the learning rate
}

// best returns the metrics of the first epoch with the best validation ELBO. If no epoch is finished, it
// returns zero Metrics.
func (p *position) best() (best Metrics) {
	for _, m := range p.Metrics {
		if best.Epoch == 0 || m.ValELBO > best.ValELBO {
			best = m
		}
	}
	return best
}

// ReadText returns the contents of a text file, or nil if the file does not exist. The file may be at
// most 64 MiB long, enough for the metrics of half a million epochs.
func ReadText(name string) ([]byte, error) {
	b, err := atomicfile.Read(name, 64<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return b, err
}

// ReadMetrics reads the metrics of all epochs from a file. It returns nil if the file does not exist.
func ReadMetrics(name string) (all []Metrics, err error) {
	b, err := ReadText(name)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(b)) {
		var m Metrics
		if err := json.Unmarshal([]byte(line), &m); err != nil || m.Epoch != len(all)+1 {
			return nil, fmt.Errorf("line %d of %s is damaged: %.100q", len(all)+1, name, line)
		}
		all = append(all, m)
	}
	return all, nil
}
