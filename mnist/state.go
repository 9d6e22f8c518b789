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

	"hvae/bench/command"
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

	file os.FileInfo // describes the file that was read or written last; nil if there is none
}

// encode returns the contents of the state file.
func (s state) encode() []byte {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.HuffmanOnly) // higher levels take much longer and hardly save space
	gob.NewEncoder(z).Encode(s)                       // cannot fail, because it writes to memory
	z.Close()
	return b.Bytes()
}

// readState reads the state in the folder of a run. If there is no state, the field file of the result is nil. readState
// returns an error if the state is damaged or in another format.
func readState(folder string) (s state, err error) {
	f, err := os.Open(filepath.Join(folder, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	defer f.Close()
	var plain []byte
	z, err := gzip.NewReader(f)
	if err == nil {
		plain, err = io.ReadAll(z) // up to the checksum at the end, before anything is decoded
	}
	if err == nil {
		err = gob.NewDecoder(bytes.NewReader(plain)).Decode(&s)
	}
	if err == nil && s.Format != stateFormat {
		err = fmt.Errorf("its format is %.40q, not %q", s.Format, stateFormat)
	}
	if err != nil {
		return s, fmt.Errorf("%s is not a valid state: %w", f.Name(), err)
	}
	s.file, err = f.Stat()
	return s, err
}

// readCheckpoint reads the model in a file or in the folder of a run, or the model after the last epoch from a state.
func readCheckpoint(name string) (c model.Checkpoint, err error) {
	if name == "" {
		return c, command.Usage("-checkpoint is missing: specify a model file or the folder of a run")
	}
	info, err := os.Stat(name)
	if err != nil {
		return c, err
	}
	if filepath.Base(name) == stateFile {
		s, err := readState(filepath.Dir(name))
		if err != nil {
			return c, err
		}
		c = model.Checkpoint{Seed: s.Settings.Seed, Epoch: len(s.Metrics), Data: s.Data, DataSHA256: s.DataSHA256}
		c.Network = model.New[float32](s.Settings.Config, 0, c.Seed)
		return c, model.NewTrainer(s.Settings, c.Network, nil).Restore(s.Trainer)
	}
	if info.IsDir() {
		name = filepath.Join(name, modelFile)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return c, err
	}
	c, err = model.DecodeCheckpoint(b)
	if err != nil {
		err = fmt.Errorf("%s is not a model for this program: %w", name, err)
	}
	return c, err
}

// encodeMetrics returns the contents of metricsFile.
func encodeMetrics(all []model.Metrics) []byte {
	var lines bytes.Buffer
	for _, m := range all {
		json.NewEncoder(&lines).Encode(m) // cannot fail, because all numbers are finite
	}
	return lines.Bytes()
}
