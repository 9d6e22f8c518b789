package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hvae/bench/atomicfile"
	"hvae/bench/command"
	"hvae/bench/filelock"
	"hvae/mnist/model"
)

// The files of a run. The functions of files.go check them whenever they are read or written:
// they refuse damaged files, files that are not regular, and folders of other processes.
const (
	modelFile      = "model.safetensors" // the weights of the best epoch
	stateFile      = "state.safetensors" // everything that a resume needs
	metricsFile    = "metrics.jsonl"     // an object for each epoch
	curveFile      = "curve.svg"         // the same as a picture
	samplesFile    = "samples.png"       // digits that the best epoch generates
	evaluationFile = "evaluation.json"   // the evaluation by the command table

	lockFile = ".lock" // locked by the process that trains the run; stays
)

var runFiles = []string{modelFile, stateFile, metricsFile, curveFile, samplesFile, evaluationFile}

// maxText is the length in bytes of the longest metrics, evaluation or table that is read:
// metrics of half a million epochs.
const maxText = 64 << 20

func (s settings) path(file string) string { return filepath.Join(s.out, file) }

// take makes the run's folder, if it is missing, and locks it until Release.
func (s settings) take() (*filelock.Lock, error) {
	if err := os.MkdirAll(s.out, 0o755); err != nil {
		return nil, fmt.Errorf("cannot make the folder %w; give another with -out", atomicfile.Named(s.out, err))
	}
	l, err := filelock.Take(s.path(lockFile))
	if errors.Is(err, filelock.ErrInUse) {
		return nil, inUse(s.out)
	}
	return l, err
}

// inUse is the folder of a run that another process has locked.
type inUse string

func (f inUse) Error() string        { return string(f) + " is in use by another training run" }
func (f inUse) Is(target error) bool { return target == filelock.ErrInUse }

// errMoved is the cause of the error of a run whose folder is no longer at its path.
var errMoved = errors.New("was moved, replaced or removed during the run, and nothing more is written to it")

// owned returns an error if the folder that the run has locked is no longer at its path.
func (r *run) owned() error {
	now, moved := r.lock.Moved()
	if !moved {
		return nil
	}
	where := "wherever that folder is now"
	if now != "" {
		where = filepath.Dir(now)
	}
	return fmt.Errorf("the folder %s, or its %s, %w; the last state that was saved is in %s", r.out, lockFile, errMoved, where)
}

// write writes a file of the run if the run still owns its folder, so that files of two runs
// are not mixed.
func (r *run) write(file string, b []byte) error {
	if err := r.owned(); err != nil {
		return err
	}
	if err := atomicfile.WriteIf(r.owned, r.path(file), b); err != nil {
		return cmp.Or(r.owned(), err) // the folder may have been moved since
	}
	return nil
}

// makeFolder makes and locks the folder of a new run. It leaves a folder with files of a
// run as it is.
func (s settings) makeFolder() (*filelock.Lock, error) {
	if err := s.checkEmpty(); err != nil {
		return nil, err
	}
	l, err := s.take()
	if err != nil {
		return nil, err
	}
	if err := s.checkEmpty(); err != nil { // another process may have been faster
		l.Release()
		return nil, err
	}
	return l, nil
}

// checkEmpty reports files of a run in the folder.
func (s settings) checkEmpty() error {
	entries, err := os.ReadDir(s.out)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot read the folder %w; give another with -out", atomicfile.Named(s.out, err))
	}
	var there []string
	for _, e := range entries {
		if slices.Contains(runFiles, e.Name()) {
			there = append(there, e.Name())
		}
	}
	switch {
	case slices.Contains(there, stateFile):
		return fmt.Errorf("%s holds a run already: go on with it by -resume, or give another folder with -out", s.out)
	case there != nil:
		return fmt.Errorf("%s holds files of a run already, %s, but no state to resume from: give another folder with -out", s.out, strings.Join(there, ", "))
	}
	return nil
}

// openFolder locks the folder of a run to resume and reads its state.
func (s settings) openFolder(stderr io.Writer) (*filelock.Lock, model.State, error) {
	if _, err := os.Stat(s.path(stateFile)); err != nil {
		return nil, model.State{}, fmt.Errorf("there is nothing to resume: %w", atomicfile.Named(s.path(stateFile), err))
	}
	l, err := s.take()
	if err != nil {
		return nil, model.State{}, err
	}
	state, err := s.readState(stderr)
	if err != nil {
		l.Release()
		return nil, state, fmt.Errorf("cannot resume: %w", err)
	}
	return l, state, nil
}

// tidy removes the temporary files of a killed process.
func (s settings) tidy() error {
	for _, file := range runFiles {
		if err := atomicfile.Clean(s.path(file)); err != nil {
			return fmt.Errorf("cannot tidy up after the last run: %w", err)
		}
	}
	return nil
}

// readState reads the state, and prints a note if its damage could go unnoticed.
func (s settings) readState(stderr io.Writer) (model.State, error) {
	state, err := model.ReadState(s.path(stateFile))
	if err == nil {
		noteDigest(stderr, s.path(stateFile), state.Digest)
	}
	return state, err
}

// readBest reads the weights of the best epoch from the model's file, for a state of the
// first format.
func (r *run) readBest() error {
	c, err := model.ReadCheckpoint(r.path(modelFile))
	if err != nil {
		return fmt.Errorf("the state does not hold the weights of the best epoch, and they cannot be read: %w", err)
	}
	if c.Epoch == r.Epoch && c.ELBO > r.Best {
		// The program was killed when it had saved the model of an epoch, but not the state.
		r.Best, r.BestEpoch = c.ELBO, c.Epoch
	}
	if c.Config != r.config || c.Seed != r.seed || c.Epoch != r.BestEpoch || c.ELBO != r.Best {
		return fmt.Errorf("%s is another run's: it is %v, seed %d, epoch %d, validation ELBO %v; the run is %v, seed %d, and was best after epoch %d with %v",
			r.path(modelFile), c.Config, c.Seed, c.Epoch, c.ELBO, r.config, r.seed, r.BestEpoch, r.Best)
	}
	r.best = c.Params
	return nil
}

// compareBest returns an error if a state without a digest and the model's file have
// different weights of the same epoch. One of the files is damaged then, and the state's
// weights must not replace the others.
func (r *run) compareBest() error {
	c, err := model.ReadCheckpoint(r.path(modelFile))
	if err != nil || c.Config != r.config || c.Seed != r.seed || c.Epoch != r.BestEpoch || c.ELBO != r.Best {
		return nil
	}
	for i, p := range c.Params {
		if !slices.Equal(p.Value.Data, r.best[i].Value.Data) {
			return fmt.Errorf("%s of epoch %d differs from %s, in %s: one of the files is damaged; move the model away to go on from the state", p.Name, c.Epoch, r.path(modelFile), stateFile)
		}
	}
	return nil
}

// readCheckpoint reads the model that -checkpoint names, and prints a note if its damage
// could go unnoticed.
func readCheckpoint(name string, stderr io.Writer) (model.Checkpoint, error) {
	if name == "" {
		return model.Checkpoint{}, command.UsageError("-checkpoint is missing: name the file of a model, such as DIR/model.safetensors")
	}
	if s, err := os.Stat(name); err == nil && s.IsDir() {
		return model.Checkpoint{}, command.UsageError("-checkpoint %s is a folder: name the file of a model, such as %s", name, filepath.Join(name, modelFile))
	}
	c, err := model.ReadCheckpoint(name)
	if err == nil {
		noteDigest(stderr, name, c.Digest)
	}
	return c, err
}

func noteDigest(stderr io.Writer, name, digest string) {
	if digest == "" {
		fmt.Fprintf(stderr, "note: %s has no SHA-256 of its contents, as an older version or another tool wrote it: it may be damaged\n", name)
	}
}

// parsePosition reads a position in a run with the given numbers of batches in an epoch and
// of validation images.
func parsePosition(s string, batches, validation int) (p position, err error) {
	if err := json.Unmarshal([]byte(s), &p); err != nil {
		return p, fmt.Errorf("its metadata does not say how far the run is: %w", err)
	}
	// An epoch's model is written before the state: a kill between the two leaves the best
	// epoch to be trained again.
	ok := p.Epoch >= 1 && p.Batch >= 0 && p.Batch <= batches && p.BestEpoch >= 0 && p.BestEpoch <= p.Epoch &&
		len(p.Metrics) == p.Epoch-1 && p.Validated >= 0 && p.Validated <= validation && (p.Validated == 0 || p.Batch == batches)
	for i, m := range p.Metrics {
		ok = ok && m.Epoch == i+1 && p.BestEpoch > 0 && m.ValELBO <= p.Best && (m.Epoch != p.BestEpoch || m.ValELBO == p.Best)
	}
	if !ok {
		return p, fmt.Errorf("its metadata contradicts itself: epoch %d, batch %d of %d, best epoch %d with ELBO %v, metrics of %d epochs",
			p.Epoch, p.Batch, batches, p.BestEpoch, p.Best, len(p.Metrics))
	}
	return p, nil
}

// readMetrics reads a run's metrics, none if the file does not exist.
func readMetrics(name string) (all []metrics, err error) {
	b, err := atomicfile.Read(name, maxText)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(b)) {
		var m metrics
		if err := json.Unmarshal([]byte(line), &m); err != nil || m.Epoch != len(all)+1 {
			return nil, fmt.Errorf("%s is damaged in line %d: %.100q", name, len(all)+1, line)
		}
		all = append(all, m)
	}
	return all, nil
}

// readEvaluation reads a run's evaluation, nil if the file does not exist.
func readEvaluation(name string) (*evaluating, error) {
	b, err := atomicfile.Read(name, maxText)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	e := new(evaluating)
	if err := json.Unmarshal(b, e); err != nil || len(e.ELBOs) != len(e.NLLs) {
		return nil, fmt.Errorf("%s is damaged: move it away to evaluate again", name)
	}
	return e, nil
}

// readReport reads a table's results, none if the file does not exist.
func readReport(name string) (r report, err error) {
	b, err := atomicfile.Read(name, maxText)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("%s is damaged, or not a table of this program: move it away", name)
	}
	return r, nil
}
