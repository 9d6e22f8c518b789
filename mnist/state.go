package main

import (
	"bytes"
	"compress/gzip"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"hvae/hvae"
	"hvae/mnist/model"
)

// The files of a run. All other files can be written again from the state.
const (
	stateFile   = "state.gob.gz"
	modelFile   = "model.safetensors" // weights after the best epoch
	metricsFile = "metrics.jsonl"     // a JSON object for each epoch
	curveFile   = "curve.svg"         // plot of the metrics
	samplesFile = "samples.png"       // digits that the model generates

	stateFormat = "hvae-mnist-state/4"
)

// A state holds all data for resuming a training run except the images. It is stored as gob, compressed with gzip.
type state struct {
	Format     string
	Settings   model.Settings
	Data       string // name of the dataset
	DataSHA256 string
	Metrics    []model.Metrics     // of all finished epochs
	Trainer    hvae.State[float32] // parameters after the last epoch, and averages of the optimiser
	Best       []byte              // contents of modelFile; empty before the end of the first epoch

	file os.FileInfo // of the file that was read or written last; nil if there is none
}

// encode returns the contents of the state file.
func (s *state) encode() []byte {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.HuffmanOnly) // higher levels take much longer and hardly save space
	gob.NewEncoder(z).Encode(s)                       // cannot fail, because it writes to memory
	z.Close()
	return b.Bytes()
}

// decodeState decodes the contents of a state file. It returns an error if the file is damaged or in another format.
func decodeState(b []byte) (s *state, err error) {
	var plain []byte
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err == nil {
		plain, err = io.ReadAll(z) // up to the checksum at the end, before anything is decoded
	}
	if err == nil {
		err = gob.NewDecoder(bytes.NewReader(plain)).Decode(&s)
	}
	if err == nil && s.Format != stateFormat {
		err = fmt.Errorf("its format is %.40q, not %q", s.Format, stateFormat)
	}
	if err == nil {
		err = s.Settings.Check()
	}
	if err != nil {
		err = fmt.Errorf("it is not a valid state: %w", err)
	}
	return s, err
}

// readState reads the state in the folder of a run. It returns nil if there is no state.
func readState(folder string) (s *state, err error) {
	name := filepath.Join(folder, stateFile)
	file, err := os.Stat(name) // before reading, so that check notices if another process replaces the file
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	b, err := os.ReadFile(name)
	if err == nil {
		s, err = decodeState(b)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", name, err)
	}
	s.file = file
	return s, nil
}

// decodeModel decodes a model file, or a state, whose model is the one after the last epoch.
func decodeModel(b []byte) (c model.Checkpoint, err error) {
	if !bytes.HasPrefix(b, []byte{0x1f, 0x8b}) { // the first two bytes of every gzip file
		return model.DecodeCheckpoint(b)
	}
	s, err := decodeState(b)
	if err != nil {
		return c, err
	}
	c = model.Checkpoint{Seed: s.Settings.Seed, Epoch: len(s.Metrics), Data: s.Data, DataSHA256: s.DataSHA256}
	c.Network = model.New[float32](s.Settings.Config, 0, c.Seed)
	return c, model.NewTrainer(s.Settings, c.Network, nil).Restore(s.Trainer)
}

// encodeMetrics returns the contents of metricsFile.
func encodeMetrics(all []model.Metrics) []byte {
	var lines bytes.Buffer
	for _, m := range all {
		json.NewEncoder(&lines).Encode(m) // cannot fail, because all numbers are finite
	}
	return lines.Bytes()
}
