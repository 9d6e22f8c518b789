package run

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

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

// A Folder is the folder of a run, locked by this process. It remains the same folder if it is moved. A new
// folder at its old path is never used.
type Folder struct {
	root *os.Root
	lock *os.File
}

// Lock locks a folder until Unlock is called. If another process has locked it, the error wraps
// filelock.ErrInUse.
func Lock(root *os.Root) (*Folder, error) {
	lock, err := filelock.Take(root, lockFile)
	if errors.Is(err, filelock.ErrInUse) {
		err = fmt.Errorf("the run in %s is %w", root.Name(), err)
	}
	return &Folder{root, lock}, err
}

// Locked reports whether a process has locked the folder.
func Locked(root *os.Root) bool { return filelock.Held(root, lockFile) }

func (f *Folder) Unlock() { f.lock.Close() }

// Write replaces a file of the run.
func (f *Folder) Write(file string, b []byte) error {
	if err := atomicfile.WriteIn(f.root, ".tmp", file, b); err != nil {
		return fmt.Errorf("cannot write %w", err)
	}
	return nil
}

// ReadState reads the state of the run. If there is no state, the error wraps fs.ErrNotExist.
func (f *Folder) ReadState() (*State, error) {
	b, err := atomicfile.ReadIn(f.root, StateFile)
	if err != nil {
		return nil, err
	}
	s, err := decodeState(b)
	if err != nil {
		err = fmt.Errorf("%s cannot be read: %w", filepath.Join(f.root.Name(), StateFile), err)
	}
	return s, err
}

// check returns an error if the folder contains files that the run must not replace: any file of a run if s is
// nil, and otherwise files of another run than the run with the state s.
func (f *Folder) check(s *State) error {
	for _, file := range []string{StateFile, MetricsFile, ModelFile, curveFile, samplesFile, EvaluationFile} {
		b, err := atomicfile.ReadIn(f.root, file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case s == nil:
			return fmt.Errorf("%s already contains %s of a run: continue it with -resume, or choose another folder with -out", f.root.Name(), file)
		case err != nil:
			return err
		case !s.owns(file, b):
			return fmt.Errorf("%s is damaged, or is not from the same run as %s: put back the state of this run, or move %[3]s away to write it again from the state",
				filepath.Join(f.root.Name(), file), StateFile, file)
		}
	}
	return nil
}

// owns reports whether the run has written b to a file, perhaps in an earlier epoch.
func (s *State) owns(file string, b []byte) bool {
	switch file {
	case MetricsFile:
		return bytes.HasPrefix(encodeMetrics(s.Metrics), b)
	case ModelFile:
		c, err := model.DecodeCheckpoint(b)
		c.Config.Eps, c.Config.Alpha = s.Settings.Eps, s.Settings.Alpha // initial values, which the model does not store
		return err == nil && c.Config == s.Settings.Config && c.Seed == s.Settings.Seed &&
			c.Epoch <= len(s.Metrics) && c.ELBO == s.Metrics[c.Epoch-1].ValELBO
	}
	return true
}
