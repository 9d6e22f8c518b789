package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"hvae/bench/atomicfile"
	"hvae/bench/filelock"
	"hvae/mnist/model"
)

// The files of a run. StateFile is the truth; the program writes the others from it.
const (
	StateFile      = "state.safetensors" // all data for resuming the run
	ModelFile      = "model.safetensors" // weights after the best epoch
	MetricsFile    = "metrics.jsonl"     // a JSON object for each epoch
	curveFile      = "curve.svg"         // plot of the metrics
	samplesFile    = "samples.png"       // digits that the model generates
	EvaluationFile = "evaluation.json"   // written by the table command after training

	lockFile = ".lock" // empty; locked while the train or table command uses the folder
)

// maxFile is larger than any file of a run, in bytes. The state of a run with a million epochs is smaller.
const maxFile = 1 << 30

// A Folder is the folder of a run, locked by this process. It remains the same folder if it is moved. A new
// folder at its old path is never used.
type Folder struct {
	root *os.Root
	lock *os.File
}

// Lock locks a folder. If another process has locked it, the error wraps filelock.ErrInUse.
func Lock(root *os.Root) (*Folder, error) {
	lock, err := filelock.Take(root, lockFile)
	if errors.Is(err, filelock.ErrInUse) {
		err = fmt.Errorf("the run in %s is %w", root.Name(), err)
	}
	return &Folder{root, lock}, err
}

// Locked reports whether a process has locked the folder.
func Locked(root *os.Root) bool { return filelock.Held(root, lockFile) }

// Unlock unlocks the folder.
func (f *Folder) Unlock() { f.lock.Close() }

// Write replaces a file of the run.
func (f *Folder) Write(file string, b []byte) error {
	if err := atomicfile.WriteIn(f.root, ".tmp", file, b); err != nil {
		return fmt.Errorf("cannot write %w", err)
	}
	return nil
}

// path returns the path of a file of the run, for messages.
func (f *Folder) path(file string) string { return filepath.Join(f.root.Name(), file) }

// ReadState reads the state of the run. If there is no state, the error wraps fs.ErrNotExist.
func (f *Folder) ReadState() (*State, error) {
	b, err := atomicfile.ReadIn(f.root, StateFile, maxFile)
	if err != nil {
		return nil, err
	}
	s, err := decodeState(b)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", f.path(StateFile), err)
	}
	return s, nil
}

// ReadMetrics reads the metrics of all epochs from the folder of a run. It returns nil if there are none.
func ReadMetrics(root *os.Root) ([]Metrics, error) {
	b, err := atomicfile.ReadIn(root, MetricsFile, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	all, err := ParseMetrics(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(root.Name(), MetricsFile), err)
	}
	return all, nil
}

// checkNew returns an error if the folder contains files of a run.
func (f *Folder) checkNew() error {
	for _, file := range []string{StateFile, ModelFile, MetricsFile, curveFile, samplesFile, EvaluationFile} {
		if _, err := f.root.Lstat(file); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if file == StateFile {
			return fmt.Errorf("%s already contains a run: continue it with -resume, or choose another folder with -out", f.root.Name())
		}
		return fmt.Errorf("%s already contains %s from an earlier run, but no state to resume from: choose another folder with -out", f.root.Name(), file)
	}
	return nil
}

// checkOwn returns an error if the model or the metrics in the folder belong to another run than the state s.
// They may be older than the state.
func (f *Folder) checkOwn(s *State) error {
	foreign := func(file string) error {
		return fmt.Errorf("%s is not from the same run as %s: put back the state of this run, or move %s away to write it again from the state", f.path(file), StateFile, file)
	}
	metrics, err := ReadMetrics(f.root)
	if err != nil {
		return fmt.Errorf("%w; move the file away to write it again from the state", err)
	}
	if n := len(metrics); n > len(s.Metrics) || !slices.Equal(metrics, s.Metrics[:n]) {
		return foreign(MetricsFile)
	}
	b, err := atomicfile.ReadIn(f.root, ModelFile, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	c, err := model.DecodeCheckpoint(b)
	if err != nil {
		return fmt.Errorf("%s is damaged: %w; move it away to write it again from the state", f.path(ModelFile), err)
	}
	c.Config.Eps, c.Config.Alpha = s.Settings.Eps, s.Settings.Alpha // initial values, which the model does not store
	if c.Epoch > len(s.Metrics) || c.ELBO != s.Metrics[c.Epoch-1].ValELBO || c.Config != s.Settings.Config || c.Seed != s.Settings.Seed {
		return foreign(ModelFile)
	}
	return nil
}
