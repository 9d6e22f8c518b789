package table

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"hvae/bench/atomicfile"
	"hvae/mnist/eval"
	"hvae/mnist/run"
)

// An evaluation holds the contents of run.EvaluationFile. The eval command computes the same results for the
// same images, number of samples and seed.
type evaluation struct {
	Run      string          `json:"run"`
	Settings json.RawMessage `json:"settings"` // of the training, for the reader
	Data     string          `json:"data"`
	Epoch    int             `json:"epoch"` // best epoch, whose weights are evaluated
	ValELBO  float64         `json:"val_elbo"`
	Images   int             `json:"images"`
	Samples  int             `json:"samples"`
	Seed     uint64          `json:"seed"`
	ELBOs    []float64       `json:"elbos"` // for each evaluation, the mean over images
	NLLs     []float64       `json:"nlls"`
	Seconds  float64         `json:"seconds"`
	SHA256   string          `json:"sha256,omitempty"` // digest of the other fields and of the metrics; older files lack it
}

// needed returns the evaluation of a task without the fields that the task does not determine.
func (t *Table) needed(k task, metrics []run.Metrics) evaluation {
	best := run.Best(metrics)
	return evaluation{Run: k.Run, Data: t.Data, Epoch: best.Epoch, ValELBO: best.ValELBO, Images: t.Images, Samples: t.Samples, Seed: k.Seed}
}

func (e evaluation) encode() []byte {
	b, _ := json.MarshalIndent(e, "", " ") // cannot fail, because all numbers are finite
	return append(b, '\n')
}

// digest returns the SHA-256 of e without its digest and of the metrics.
func (e evaluation) digest(metrics []run.Metrics) string {
	e.SHA256 = ""
	b, _ := json.Marshal(metrics) // cannot fail, because all numbers are finite
	return fmt.Sprintf("%x", sha256.Sum256(append(e.encode(), b...)))
}

// A status is the progress of a task, a line of the list.
type status struct {
	Task   int    `json:"task"`
	Run    string `json:"run"`
	State  string `json:"state"`           // done, running or open
	Epochs int    `json:"epochs"`          // number of trained epochs
	Error  string `json:"error,omitempty"` // why the table cannot use the run

	result *result // nil unless training and evaluation have ended
}

// read returns the status of a task. It returns an error if a file is damaged or does not belong to the table. It
// does not need the weights of a finished run.
func (t *Table) read(number int) (s status, err error) {
	k := t.tasks[number]
	s = status{Task: number, Run: k.Run, State: "open"}
	if t.root == nil {
		return s, nil
	}
	root, err := t.root.OpenRoot(k.Run)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	defer root.Close()
	if run.Locked(root) {
		s.State = "running"
	}
	metrics, err := run.ReadMetrics(root)
	if err != nil {
		return s, err
	}
	s.Epochs = len(metrics)
	b, err := atomicfile.ReadIn(root, run.EvaluationFile)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	var e evaluation
	if err := t.check(k, metrics, b, &e); err != nil {
		err = fmt.Errorf("%s %w", filepath.Join(root.Name(), run.EvaluationFile), err)
		if _, missing := root.Stat(run.StateFile); missing == nil {
			err = fmt.Errorf("%w; to evaluate the run again, move the file away", err)
		}
		return s, err
	}
	e.ELBOs, e.NLLs = e.ELBOs[:t.Runs], e.NLLs[:t.Runs] // they do not depend on the number of further results
	s.State, s.result = "done", e.result(k, metrics)
	return s, nil
}

// check sets e to the evaluation in b. It returns an error if the evaluation is damaged, or if it does not
// follow from the metrics and the protocol of the table.
func (t *Table) check(k task, metrics []run.Metrics, b []byte, e *evaluation) error {
	// Package json ignores missing fields and decodes null as 0, so compare the file with its encoding.
	if json.Unmarshal(b, e) != nil || !bytes.Equal(e.encode(), b) {
		return errors.New("is damaged: a value is missing, unknown or not a number")
	}
	if len(e.ELBOs) != len(e.NLLs) || len(e.NLLs) < t.Runs {
		return fmt.Errorf("is damaged: it has %d ELBOs and %d NLLs, but the table needs %d of each", len(e.ELBOs), len(e.NLLs), t.Runs)
	}
	needed := t.needed(k, metrics)
	needed.Settings, needed.ELBOs, needed.NLLs, needed.Seconds, needed.SHA256 = e.Settings, e.ELBOs, e.NLLs, e.Seconds, e.SHA256
	if wrong := run.Differences(e, needed); wrong != "" {
		return fmt.Errorf("does not match this table and the metrics of the run: it has %s", wrong)
	}
	n := len(metrics)
	if run.Ended(metrics, t.Epochs, t.Patience) == "" || run.Ended(metrics[:n-1], t.Epochs, t.Patience) != "" {
		return fmt.Errorf("does not match this table: with -epochs %d and -patience %d, training does not end after epoch %d", t.Epochs, t.Patience, n)
	}
	if metrics[n-1].Rate != 0 {
		return errors.New("does not match this table: the learning rate was changed during the run")
	}
	if e.SHA256 != "" && e.SHA256 != e.digest(metrics) {
		return fmt.Errorf("or %s is damaged: their SHA-256 is not %s", run.MetricsFile, e.SHA256)
	}
	return nil
}

// result combines the evaluation e and the metrics of all epochs into the result of task k.
func (e evaluation) result(k task, metrics []run.Metrics) *result {
	r := &result{task: k, Epochs: len(metrics), Seconds: e.Seconds}
	for _, m := range metrics {
		r.Seconds += m.Seconds
		r.curve = append(r.curve, m.ValELBO)
	}
	r.ELBO, r.ELBOSD = eval.MeanSD(e.ELBOs)
	r.NLL, r.NLLSD = eval.MeanSD(e.NLLs)
	return r
}

// List prints a line for each run. If JSON is false, it also prints the numbers of runs.
func (t *Table) List() error {
	var out bytes.Buffer
	count := map[string]int{}
	for i := range t.tasks {
		s, err := t.read(i)
		if err != nil {
			s.Error = err.Error()
		}
		count[s.State]++
		if t.JSON {
			json.NewEncoder(&out).Encode(s)
		} else {
			line := fmt.Sprintf("%3d  %-30s %-8s %5d epochs  %s", s.Task, s.Run, s.State, s.Epochs, s.Error)
			fmt.Fprintln(&out, strings.TrimRight(line, " "))
		}
	}
	if !t.JSON {
		fmt.Fprintf(&out, "%d runs: %d done, %d running, %d open\n", len(t.tasks), count["done"], count["running"], count["open"])
	}
	_, err := t.Stdout.Write(out.Bytes())
	return err
}
