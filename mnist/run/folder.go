package run

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hvae/bench/atomicfile"
	"hvae/bench/filelock"
	"hvae/mnist/model"
)

// The files of a run.
const (
	ModelFile      = "model.safetensors" // weights after the best epoch
	StateFile      = "state.safetensors" // everything that a resume needs
	MetricsFile    = "metrics.jsonl"     // a JSON object for each epoch
	CurveFile      = "curve.svg"         // plot of the metrics
	SamplesFile    = "samples.png"       // digits that the model generates
	EvaluationFile = "evaluation.json"   // evaluation by the table command

	LockFile = ".lock" // empty; locked while a process trains or evaluates the run
)

var runFiles = []string{ModelFile, StateFile, MetricsFile, CurveFile, SamplesFile, EvaluationFile}

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

// ErrMoved indicates that the folder of a run is no longer at its path. Errors of Write wrap it.
var ErrMoved = errors.New("was moved, replaced or removed during the run, and nothing more is written to it")

// inPlace returns an error that wraps ErrMoved if the folder is no longer at its path.
func (f *Folder) inPlace() error {
	now, moved := f.Moved()
	if !moved {
		return nil
	}
	where := "wherever that folder is now"
	if now != "" {
		where = filepath.Dir(now)
	}
	return fmt.Errorf("the folder %s, or its %s, %w; the last saved state is in %s", f.path, LockFile, ErrMoved, where)
}

// Write replaces a file of the run. If the folder is no longer at its path, the file there may belong
// to another run. Write then leaves that file unchanged and returns an error that wraps ErrMoved.
func (f *Folder) Write(file string, b []byte) error {
	if err := atomicfile.WriteIf(f.inPlace, filepath.Join(f.path, file), b); err != nil {
		return fmt.Errorf("cannot write %s: %w", file, cmp.Or(f.inPlace(), err))
	}
	return nil
}

// checkNew returns an error if the folder contains files of a run.
func (f *Folder) checkNew() error {
	var found []string
	for _, file := range runFiles {
		if _, err := os.Lstat(filepath.Join(f.path, file)); !errors.Is(err, fs.ErrNotExist) {
			found = append(found, file)
		}
	}
	switch {
	case slices.Contains(found, StateFile):
		return fmt.Errorf("%s already contains a run: continue it with -resume", f.path)
	case found != nil:
		return fmt.Errorf("%s already contains files of a run, %s, but no state to resume from", f.path, strings.Join(found, ", "))
	}
	return nil
}

// clean removes the temporary files of killed processes.
func (f *Folder) clean() error {
	for _, file := range runFiles {
		if err := atomicfile.Clean(filepath.Join(f.path, file)); err != nil {
			return fmt.Errorf("cannot remove temporary files of an earlier process: %w", err)
		}
	}
	return nil
}

// ReadState reads the state of the run. If the state has no SHA-256, it prints a note on stderr.
func (f *Folder) ReadState(stderr io.Writer) (*model.State, error) {
	name := filepath.Join(f.path, StateFile)
	state, err := model.ReadState(name)
	if err != nil {
		return nil, err
	}
	NoteDigest(stderr, name, state.Digest)
	return &state, nil
}

// NoteDigest prints a note on stderr if the digest of the named file is empty.
func NoteDigest(stderr io.Writer, name, digest string) {
	if digest == "" {
		fmt.Fprintf(stderr, "note: %s has no SHA-256, because an older version or another tool wrote it; damage to the file cannot be detected\n", name)
	}
}
