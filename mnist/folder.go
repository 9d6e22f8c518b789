package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/binary"
	"encoding/gob"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"hvae/bench/command"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/mnist/model"
)

// The names of the files in a run's folder. If a file other than stateFile is lost, the program can write it again.
const (
	stateFile   = "state.gob.gz"
	modelFile   = "model.safetensors" // weights after the best epoch
	metricsFile = "metrics.jsonl"     // a JSON object for each epoch
	curveFile   = "curve.svg"         // plot of the metrics
	samplesFile = "samples.png"       // digits that the model generates

	stateFormat = "hvae-mnist-state/6"
	maxSize     = 1 << 30 // bytes, the maximum size of a state or a model; the largest possible state has 750 MB
)

var runFiles = []string{stateFile, modelFile, metricsFile, curveFile, samplesFile}

// A state holds all data needed to resume a training run, apart from the images. A state file is a gzip file of three
// parts: a gob of the state without Best and without the elements of the matrices, these elements as little-endian
// float32, and Best.
type state struct {
	Format     string
	Settings   model.Settings
	Data       string // name of the dataset
	DataSHA256 string
	Metrics    []model.Metrics     // of all finished epochs
	Trainer    hvae.State[float32] // parameters after the last epoch, and averages of the optimiser
	Best       []byte              // contents of modelFile; empty before the end of the first epoch
}

// matrices returns the matrices in s.Trainer.
func (s *state) matrices() (all []*linalg.Matrix[float32]) {
	for i := range s.Trainer.Params {
		p := &s.Trainer.Params[i]
		all = append(all, &p.Value, &p.Averages)
	}
	return all
}

// encode returns the contents of the state file.
func (s state) encode() []byte {
	header := s
	header.Best = nil
	header.Trainer.Params = slices.Clone(s.Trainer.Params)
	size := len(s.Best) + 1<<20 // usually enough for the gob; otherwise, the buffer grows
	for _, m := range header.matrices() {
		size += 4 * len(m.Data)
		m.Data = nil
	}
	b := bytes.NewBuffer(make([]byte, 0, size))
	z, _ := gzip.NewWriterLevel(b, gzip.NoCompression) // only the checksum of gzip is needed
	gob.NewEncoder(z).Encode(header)                   // cannot fail, because it writes to memory
	var numbers []byte
	for _, m := range s.matrices() {
		numbers, _ = binary.Append(numbers[:0], binary.LittleEndian, m.Data)
		z.Write(numbers)
	}
	z.Write(s.Best)
	z.Close()
	return b.Bytes()
}

// decode sets s to the state in the contents of a state file.
func (s *state) decode(file []byte) error {
	b, err := command.Gunzip(file, int64(len(file))) // verifies the checksum; the result is not longer than the file
	if err != nil {
		return err
	}
	rest := bytes.NewBuffer(b)
	err = gob.NewDecoder(rest).Decode(s)
	if err == nil && s.Format != stateFormat {
		err = fmt.Errorf("its format is %.40q, not %q: continue the run with the version that started it", s.Format, stateFormat)
	}
	if err = cmp.Or(err, s.Settings.Check()); err != nil {
		return err
	}
	for _, m := range s.matrices() {
		if m.Rows < 1 || m.Cols < 1 || m.Rows > rest.Len()/4/m.Cols {
			return errors.New("numbers are missing")
		}
		m.Data = make([]float32, m.Rows*m.Cols)
		binary.Decode(rest.Next(4*len(m.Data)), binary.LittleEndian, m.Data)
	}
	s.Best = rest.Bytes()
	return nil
}

// last returns the model after the last epoch.
func (s state) last() (model.Checkpoint, error) {
	c := model.Checkpoint{Seed: s.Settings.Seed, Epoch: len(s.Metrics), Data: s.Data, DataSHA256: s.DataSHA256}
	c.Network = model.New[float32](s.Settings.Config, 0, c.Seed)
	return c, model.NewTrainer(s.Settings, c.Network, nil).Restore(s.Trainer)
}

// readModel reads a model file, or the model after the last epoch in a state file. If there is no file, c is empty.
func readModel(name string) (c model.Checkpoint, err error) {
	b, _, err := command.ReadFile(name, maxSize)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, err
	}
	if bytes.HasPrefix(b, []byte("\x1f\x8b")) { // the first bytes of a gzip file
		var s state
		err = s.decode(b)
		if err == nil {
			c, err = s.last()
		}
	} else {
		c, err = model.DecodeCheckpoint(b)
	}
	if err != nil {
		err = fmt.Errorf("%s is not a model for this program: %w", name, err)
	}
	return c, err
}

// readCheckpoint reads a model. The argument name is a model file, a state file (for the model after the last epoch) or
// the folder of a run (for the model after the best epoch). For a folder, it also returns the settings of the run.
func readCheckpoint(name string) (c model.Checkpoint, s model.Settings, err error) {
	if name == "" {
		return c, s, command.Usage("-checkpoint is missing: specify a model file or the folder of a run")
	}
	var run state
	info, err := os.Stat(name)
	if err == nil && info.IsDir() {
		_, run, c, err = openFolder(name)
	} else if err == nil {
		c, err = readModel(name)
	}
	if err == nil && c.Network == nil {
		err = fmt.Errorf("%s contains no %s", name, modelFile)
	}
	return c, run.Settings, err
}

// A folder is the folder of a training run.
type folder struct {
	path  string
	state os.FileInfo // the state file that was read or written last; nil if there is none
}

// openFolder reads the state and the model in a folder. If there is no state, d.state is nil, and if there is no model,
// c is empty. openFolder returns an error if one of the files is damaged, or if they are from different runs.
func openFolder(path string) (d *folder, s state, c model.Checkpoint, err error) {
	d = &folder{path: path}
	c, err = readModel(filepath.Join(path, modelFile)) // first, so that the state is not older than the model
	if err != nil {
		return d, s, c, err
	}
	name := filepath.Join(path, stateFile)
	b, info, err := command.ReadFile(name, maxSize)
	if errors.Is(err, fs.ErrNotExist) {
		return d, s, c, nil
	}
	d.state = info
	if err == nil {
		err = s.decode(b)
		if err != nil {
			err = fmt.Errorf("%s is not a valid state (%w): put back a copy, or use another folder", name, err)
		}
	}
	if err == nil {
		err = d.checkModel(c, s.Metrics)
	}
	return d, s, c, err
}

// checkModel returns an error if c, the model in the folder, is from a run other than the run with the given metrics.
func (d *folder) checkModel(c model.Checkpoint, all []model.Metrics) error {
	same := func(m model.Metrics) bool { return m.ValELBO == c.ELBO }
	if c.Network == nil || slices.ContainsFunc(all, same) {
		return nil
	}
	return fmt.Errorf("%s is from another run: move it away, or put back the state of its run", filepath.Join(d.path, modelFile))
}

// exists reports whether a folder contains a file.
func exists(folder, file string) bool {
	_, err := os.Lstat(filepath.Join(folder, file))
	return err == nil
}

// writeState writes the state s, with the given state of its trainer. It writes the first state of a run only if the
// folder contains no file of another run.
func (d *folder) writeState(s state, trainer hvae.State[float32]) error {
	if d.state == nil {
		for _, file := range runFiles[1:] { // without the state, which write does not replace
			if exists(d.path, file) {
				return fmt.Errorf("%s contains %s of another run: choose another folder with -out", d.path, file)
			}
		}
		if err := os.MkdirAll(d.path, 0o755); err != nil {
			return err
		}
	}
	s.Trainer = trainer
	err := d.write(stateFile, s.encode())
	if err == nil {
		d.state, err = os.Stat(filepath.Join(d.path, stateFile))
	}
	return err
}

// clean removes temporary files that killed processes have left in the folder. It may also remove a file that another
// process is writing. This is safe: this process has just replaced the state or found that the run has ended, so the
// other process cannot continue the run.
func (d *folder) clean() {
	temporary, _ := fs.Glob(os.DirFS(d.path), command.Temporary)
	for _, name := range temporary {
		os.Remove(filepath.Join(d.path, name))
	}
}

var link = os.Link // tests replace it

// write writes a file of the run. Before the first state is written, the folder must not contain a state. Later, it
// must contain the state that this process last read or wrote. Otherwise, write returns an error and changes nothing.
// So if several processes continue the same run, all but one stop with an error. If the run's folder is moved, the
// process stops, too.
func (d *folder) write(file string, content []byte) error {
	return command.WriteFile(filepath.Join(d.path, file), content, func(temporary, name string) error {
		if d.state == nil {
			err := link(temporary, name) // fails if the file exists
			if err != nil && !errors.Is(err, fs.ErrExist) {
				err = fmt.Errorf("the file system of %s has no hard links: choose another folder with -out (%w)", d.path, err)
			}
			return err
		}
		now, err := os.Stat(filepath.Join(d.path, stateFile))
		if err != nil || !os.SameFile(now, d.state) || now.ModTime() != d.state.ModTime() {
			return fmt.Errorf("another process has continued the run in %s, or this folder was moved", d.path)
		}
		return os.Rename(temporary, name)
	})
}

// checkOutput returns an error if a command must not write the file out, which its flag -o names.
func checkOutput(out string) error {
	folder, file := filepath.Split(out)
	if filepath.Ext(file) == filepath.Ext(modelFile) || exists(folder, stateFile) && slices.Contains(runFiles, file) {
		return fmt.Errorf("%s is a model or a file of a run: choose another file with -o", out)
	}
	return command.Writable(out)
}

// encodeMetrics returns the contents of metricsFile.
func encodeMetrics(all []model.Metrics) []byte {
	var lines bytes.Buffer
	for _, m := range all {
		json.NewEncoder(&lines).Encode(m) // cannot fail, because all numbers are finite
	}
	return lines.Bytes()
}

// modelFlag defines the flag -checkpoint, whose value is the argument of readCheckpoint.
func modelFlag(f *flag.FlagSet, name *string) {
	f.StringVar(name, "checkpoint", "", "`file` of the model, the folder of its run, or the state file of the run for the model after the last epoch (required)")
}

// dataFlag defines the flag -data.
func dataFlag(f *flag.FlagSet, folder *string) {
	f.StringVar(folder, "data", *folder, "`folder` with 28×28 images in files named as MNIST's, or synthetic for built-in images; missing MNIST files are\ndownloaded if it contains nothing else (default $HVAE_MNIST, else a folder in the user's cache)")
}

// given reports whether at least one of the named flags was given.
func given(f *flag.FlagSet, names ...string) (found bool) {
	f.Visit(func(g *flag.Flag) { found = found || slices.Contains(names, g.Name) })
	return found
}
