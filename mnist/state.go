package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"hvae/bench/command"
	"hvae/bench/plot"
	"hvae/hvae"
	"hvae/mnist/model"
)

// The names of the files in a run's folder. If a file other than stateFile is lost, the program can write it again.
const (
	stateFile   = "state.gob.gz"
	modelFile   = "model.safetensors" // weights after the best epoch
	metricsFile = "metrics.jsonl"     // a JSON object for each epoch
	curveFile   = "curve.svg"         // plot of the metrics
	samplesFile = "samples.png"       // digits that the model generates

	stateFormat = "hvae-mnist-state/5"
)

// A state holds all data needed to resume a training run, apart from the images. The state file is a gzip file of gobs:
// first the state without Trainer.Params, then each element of Trainer.Params.
type state struct {
	Format     string
	Settings   model.Settings
	Data       string // name of the dataset
	DataSHA256 string
	Metrics    []model.Metrics     // of all finished epochs
	Trainer    hvae.State[float32] // parameters after the last epoch, and averages of the optimiser
	Best       []byte              // contents of modelFile; empty before the end of the first epoch

	file os.FileInfo // the state file that was read or written last; nil if there is none
}

// encode returns the contents of the state file.
func (s state) encode() []byte {
	var b bytes.Buffer
	b.Grow(14 << 20) // usually enough
	// Only the checksum of gzip is needed. Compression would more than double the time, and save a fifth of the space.
	z, _ := gzip.NewWriterLevel(&b, gzip.NoCompression)
	e := gob.NewEncoder(z)
	params := s.Trainer.Params
	s.Trainer.Params = nil
	e.Encode(s) // cannot fail, because it writes to memory
	for _, p := range params {
		e.Encode(p) // separately, because an encoder keeps a copy of a whole value in memory
	}
	z.Close()
	return b.Bytes()
}

// readState reads the state in a run's folder. If there is none, s.file is nil. readState returns an error if the state
// is damaged or in another format.
func readState(folder string) (s state, err error) {
	f, err := os.Open(filepath.Join(folder, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err == nil {
		err = s.decode(z)
	}
	if err != nil {
		return s, fmt.Errorf("%s is not a valid state: %w", f.Name(), err)
	}
	s.file, err = f.Stat()
	return s, err
}

// decode sets s to the state in the gobs from z. It reads all of z first, which verifies the checksum.
func (s *state) decode(z *gzip.Reader) error {
	gobs, err := io.ReadAll(z)
	if err != nil {
		return err
	}
	d := gob.NewDecoder(bytes.NewReader(gobs))
	err = d.Decode(s)
	if err == nil && s.Format != stateFormat {
		err = fmt.Errorf("its format is %.40q, not %q: continue the run with the version that started it", s.Format, stateFormat)
	}
	for err == nil {
		var p hvae.ParamState[float32]
		err = d.Decode(&p)
		if err == io.EOF {
			return nil
		}
		s.Trainer.Params = append(s.Trainer.Params, p)
	}
	return err
}

// readCheckpoint reads a model. The argument name is a model file, the folder of a run (for the model after the best
// epoch), or the state file of a run (for the model after the last epoch).
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

// begin writes the first state of a new run. For a resumed run, it rewrites all files except the state, because they
// may be out of date.
func (r *trainingRun) begin() error {
	if r.file != nil {
		return r.writeFiles(true)
	}
	for _, file := range []string{modelFile, metricsFile} {
		if _, err := os.Lstat(filepath.Join(r.folder, file)); err == nil {
			return fmt.Errorf("%s contains %s of another run: choose another folder with -out", r.folder, file)
		}
	}
	return r.save(true)
}

// save writes the state and then the other files that changed. The model has changed if best is true.
func (r *trainingRun) save(best bool) error {
	s := r.state
	s.Trainer = r.trainer.State() // not stored in r, because it is large
	err := r.write(stateFile, s.encode())
	if err == nil {
		r.file, err = os.Stat(filepath.Join(r.folder, stateFile))
	}
	if err == nil {
		err = r.writeFiles(best)
	}
	return err
}

// clean removes temporary files that killed processes have left in the folder. It may also remove a file that another
// process is writing. This is safe: this process has just replaced the state or found that the run has ended, so the
// other process cannot continue the run.
func (r *trainingRun) clean() {
	temporary, _ := fs.Glob(os.DirFS(r.folder), command.Temporary)
	for _, name := range temporary {
		os.Remove(filepath.Join(r.folder, name))
	}
}

// writeFiles writes the metrics and their plot. If best is true or the folder has no model, it also writes the model and
// its samples. It returns an error and writes nothing if the folder has a model that is damaged or from another run.
// Before the end of the first epoch, it does nothing.
func (r *trainingRun) writeFiles(best bool) error {
	if len(r.Metrics) == 0 {
		return nil
	}
	name := filepath.Join(r.folder, modelFile)
	c, err := readCheckpoint(name)
	missing := errors.Is(err, fs.ErrNotExist)
	same := func(m model.Metrics) bool { return m.Epoch == c.Epoch && m.ValELBO == c.ELBO }
	if !missing && (err != nil || !slices.ContainsFunc(r.Metrics, same)) {
		return fmt.Errorf("%s is damaged or from another run: move it away, or put back the state of its run", name)
	}
	err = cmp.Or(r.write(metricsFile, encodeMetrics(r.Metrics)), r.write(curveFile, r.curve()))
	if err != nil || !best && !missing {
		return err
	}
	c, err = model.DecodeCheckpoint(r.Best)
	if err != nil {
		return err
	}
	return cmp.Or(r.write(modelFile, r.Best), r.write(samplesFile, samples(c, 64, r.Settings.Seed)))
}

// write writes a file of the run. Before the first state is written, the folder must not contain a state. Later, it
// must contain the state that this process last read or wrote. Otherwise, write returns an error and changes nothing.
// So if several processes continue the same run, all but one stop with an error. If the run's folder is moved, the
// process stops, too.
func (r *trainingRun) write(file string, content []byte) error {
	return command.WriteFile(filepath.Join(r.folder, file), content, func(temporary, name string) error {
		if r.file == nil {
			return os.Link(temporary, name) // fails if the file exists
		}
		now, err := os.Stat(filepath.Join(r.folder, stateFile))
		if err != nil || !os.SameFile(now, r.file) || now.ModTime() != r.file.ModTime() {
			return fmt.Errorf("another process has continued the run in %s, or this folder was moved", r.folder)
		}
		return os.Rename(temporary, name)
	})
}

// curve returns a plot of the metrics as SVG.
func (r *trainingRun) curve() []byte {
	c := plot.Chart{XLabel: "epoch", YLabel: "ELBO (nats)", LogX: true}
	c.Title = fmt.Sprintf("Training: %v, on %s", r.Settings.Config, r.Data)
	for _, m := range r.Metrics {
		c.Add("training", plot.Line, float64(m.Epoch), m.TrainELBO)
		c.Add("validation", plot.Line, float64(m.Epoch), m.ValELBO)
	}
	best := model.Best(r.Metrics)
	c.Add(fmt.Sprintf("best epoch, %d", best.Epoch), plot.Points, float64(best.Epoch), best.ValELBO)
	return plot.Panels(1, c)
}

// encodeMetrics returns the contents of metricsFile.
func encodeMetrics(all []model.Metrics) []byte {
	var lines bytes.Buffer
	for _, m := range all {
		json.NewEncoder(&lines).Encode(m) // cannot fail, because all numbers are finite
	}
	return lines.Bytes()
}
