package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"hvae/bench/atomicfile"
	"hvae/bench/filelock"
	"hvae/mnist/model"
)

// The files of a run. The program can compute the contents of all other files again from stateFile.
const (
	stateFile      = "state.safetensors" // all data for resuming the run
	modelFile      = "model.safetensors" // weights after the best epoch
	metricsFile    = "metrics.jsonl"     // a JSON object for each epoch
	curveFile      = "curve.svg"         // plot of the metrics
	samplesFile    = "samples.png"       // digits that the model generates
	evaluationFile = "evaluation.json"   // written by the table command after training

	lockFile = ".lock" // empty; locked while the train or table command uses the folder
)

// A folder is the folder of a run, which this process has opened and locked. If the folder is moved, the process
// continues to use it, and ignores a new folder at the old path.
type folder struct {
	*os.Root
	lock *os.File
}

// lockFolder locks root, the folder of a run, until close is called. If another process has locked it, the error wraps
// filelock.ErrInUse. If the argument err is not nil, lockFolder returns it and locks nothing.
func lockFolder(root *os.Root, err error) (*folder, error) {
	if err != nil {
		return nil, err
	}
	lock, err := filelock.Take(root, lockFile)
	if errors.Is(err, filelock.ErrInUse) {
		err = fmt.Errorf("the run in %s is %w", root.Name(), err)
	}
	return &folder{root, lock}, err
}

func (f *folder) close() {
	f.lock.Close()
	f.Root.Close()
}

// unlessMissing returns err, or nil if err reports that a file does not exist.
func unlessMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// write creates or replaces a file of the run.
func (f *folder) write(file string, b []byte) error {
	return atomicfile.WriteIn(f.Root, ".tmp", file, b)
}

// readState reads the state of the run in a folder. If there is no state file, the error wraps fs.ErrNotExist.
func readState(root *os.Root) (*model.State, error) {
	b, err := atomicfile.ReadIn(root, stateFile)
	if err != nil {
		return nil, err
	}
	s, err := model.DecodeState(b)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", filepath.Join(root.Name(), stateFile), err)
	}
	return s, nil
}

// differences returns a text such as "seed = 1, not 2", which lists the fields in which two structs of the same type
// differ. It uses the names of the fields in JSON.
func differences(old, current any) string {
	var all []string
	a, b := reflect.ValueOf(old), reflect.ValueOf(current)
	for _, f := range reflect.VisibleFields(a.Type()) {
		if x, y := a.FieldByIndex(f.Index), b.FieldByIndex(f.Index); !f.Anonymous && !x.Equal(y) {
			all = append(all, fmt.Sprintf("%s = %v, not %v", f.Tag.Get("json"), x, y))
		}
	}
	return strings.Join(all, "; ")
}

// encodeMetrics returns the contents of metricsFile.
func encodeMetrics(all []model.Metrics) []byte {
	var lines bytes.Buffer
	for _, m := range all {
		json.NewEncoder(&lines).Encode(m) // cannot fail, because all numbers are finite
	}
	return lines.Bytes()
}

// readMetrics reads the metrics of all epochs from the folder of a run. It returns nil if there is no metrics file. It
// detects no damage (see record.digest and trainingRun.check).
func readMetrics(root *os.Root) (all []model.Metrics, err error) {
	b, err := atomicfile.ReadIn(root, metricsFile)
	for line := range bytes.Lines(b) {
		var m model.Metrics
		json.Unmarshal(line, &m)
		all = append(all, m)
	}
	return all, unlessMissing(err)
}
