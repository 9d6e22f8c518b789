package run

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

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

	model.Flow // of an HVAE
}

// Best returns the metrics of the first epoch with the best validation ELBO, or zero Metrics if there are
// no epochs.
func Best(all []Metrics) (best Metrics) {
	for i, m := range all {
		if i == 0 || m.ValELBO > best.ValELBO {
			best = m
		}
	}
	return best
}

// Ended returns the reason why training has ended after the given epochs, or "" if it has not.
func Ended(all []Metrics, epochs, patience int) string {
	switch n := len(all); {
	case n >= epochs:
		return fmt.Sprintf("all %d epochs are done (-epochs)", epochs)
	case n-Best(all).Epoch >= patience:
		return fmt.Sprintf("the validation ELBO has not improved for %d epochs (-patience)", patience)
	}
	return ""
}

// encodeMetrics returns the contents of MetricsFile.
func encodeMetrics(all []Metrics) []byte {
	var lines bytes.Buffer
	for _, m := range all {
		json.NewEncoder(&lines).Encode(m) // cannot fail, because all numbers are finite
	}
	return lines.Bytes()
}

// ReadMetrics reads the metrics of all epochs from the folder of a run. It returns nil if there are none.
func ReadMetrics(root *os.Root) (all []Metrics, err error) {
	b, err := atomicfile.ReadIn(root, MetricsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for line := range bytes.Lines(b) {
		var m Metrics
		if decode(bytes.TrimSuffix(line, []byte("\n")), &m) != nil || m.Epoch != len(all)+1 {
			return nil, fmt.Errorf("line %d of %s is damaged: %.100q", len(all)+1, filepath.Join(root.Name(), MetricsFile), line)
		}
		all = append(all, m)
	}
	return all, err
}

// A State is the contents of StateFile, which holds all data for resuming the run except the images.
type State struct {
	Settings    Settings  `json:"settings"`
	Data        string    `json:"data"` // name of the dataset
	DataSHA256  string    `json:"data_sha256"`
	RateChanged bool      `json:"lr_changed"` // whether a resumed run has changed the learning rate
	Metrics     []Metrics `json:"metrics"`    // of all finished epochs

	weights model.State
}

// decodeState decodes the contents of StateFile. It does not check the weights, because their shapes depend on
// the model.
func decodeState(b []byte) (s *State, err error) {
	s = new(State)
	if s.weights, err = model.DecodeState(b); err != nil {
		return nil, err
	}
	if err := s.parse(s.weights.Progress); err != nil {
		return nil, fmt.Errorf("the key progress in its metadata is damaged: %w", err)
	}
	return s, nil
}

// parse sets s to the JSON value in text. It returns an error if the state is impossible.
func (s *State) parse(text string) error {
	if err := decode([]byte(text), s); err != nil {
		return err
	}
	for i, m := range s.Metrics {
		if m.Epoch != i+1 {
			return fmt.Errorf("epoch %d follows epoch %d", m.Epoch, i)
		}
	}
	return s.Settings.Check()
}

// decode decodes JSON that json.Marshal has encoded. It returns an error if b differs from the encoding of
// the decoded value, because package json ignores missing and unknown fields and decodes null as 0.
func decode(b []byte, v any) error {
	if err := json.Unmarshal(b, v); err != nil {
		return err
	}
	if again, err := json.Marshal(v); err != nil || !bytes.Equal(again, b) {
		return errors.New("a value is missing, unknown or null")
	}
	return nil
}
