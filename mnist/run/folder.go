package run

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"hvae/bench/atomicfile"
	"hvae/bench/filelock"
	"hvae/mnist/model"
)

// The files of a run.
const (
	ModelFile      = "model.safetensors" // weights after the best epoch
	StateFile      = "state.safetensors" // all data for resuming the run
	MetricsFile    = "metrics.jsonl"     // a JSON object for each epoch
	curveFile      = "curve.svg"         // plot of the metrics
	samplesFile    = "samples.png"       // digits that the model generates
	EvaluationFile = "evaluation.json"   // evaluation by the table command

	LockFile = ".lock" // empty; locked while the train or table command uses the folder
)

// A Folder is the folder of a run, locked by this process.
type Folder struct {
	*filelock.Lock // Release unlocks the folder
	path           string
}

// Lock locks a folder until Release is called. It creates the folder if it does not exist. If another
// process has locked the folder, the error wraps filelock.ErrInUse.
func Lock(path string) (*Folder, error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, fmt.Errorf("cannot create the folder %w; choose another with -out", atomicfile.Named(path, err))
	}
	l, err := filelock.Take(filepath.Join(path, LockFile))
	if errors.Is(err, filelock.ErrInUse) {
		err = fmt.Errorf("the run in %s is %w", path, err)
	}
	return &Folder{l, path}, err
}

// ErrMoved indicates that the folder of a run is no longer at its path.
var ErrMoved = errors.New("was moved, replaced or removed during the run, and nothing more is written to it; resume the run at the folder's new path")

// inPlace returns an error that wraps ErrMoved if the folder is no longer at its path.
func (f *Folder) inPlace() error {
	if f.Moved() {
		return fmt.Errorf("the folder %s or its file %s %w", f.path, LockFile, ErrMoved)
	}
	return nil
}

// Write replaces a file of the run and removes temporary files that a killed process may have left. If the
// folder is no longer at its path, Write writes nothing, because the files there may belong to another run,
// and returns an error that wraps ErrMoved.
func (f *Folder) Write(file string, b []byte) error {
	name := filepath.Join(f.path, file)
	err := atomicfile.WriteIf(f.inPlace, name, b)
	if err == nil {
		err = atomicfile.Clean(name)
	}
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", file, cmp.Or(f.inPlace(), err))
	}
	return nil
}

// checkNew returns an error if the folder contains files of a run.
func (f *Folder) checkNew() error {
	for _, file := range []string{StateFile, ModelFile, MetricsFile, curveFile, samplesFile, EvaluationFile} {
		if _, err := os.Lstat(filepath.Join(f.path, file)); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if file == StateFile {
			return fmt.Errorf("%s already contains a run: continue it with -resume, or choose another folder with -out", f.path)
		}
		return fmt.Errorf("%s already contains %s from an earlier run, but no state to resume from: choose another folder with -out", f.path, file)
	}
	return nil
}

// ReadState reads the state of the run. It returns an error if the state has no SHA-256.
func (f *Folder) ReadState() (*model.State, error) {
	name := filepath.Join(f.path, StateFile)
	state, err := model.ReadState(name)
	if err == nil && state.Digest == "" {
		err = fmt.Errorf("%s has no SHA-256: it was written by an older version or another program, so damage to it cannot be detected", name)
	}
	return &state, err
}
