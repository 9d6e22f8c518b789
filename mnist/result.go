package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"hvae/bench/atomicfile"
	"hvae/bench/filelock"
	"hvae/mnist/eval"
	"hvae/mnist/model"
)

// An evaluation holds the contents of evaluationFile. The eval command computes the same results for the
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

// evaluation returns an evaluation with the fields that follow from the protocol, the task and the metrics.
func (t *table) evaluation(k task, metrics []model.Metrics) evaluation {
	best := model.Best(metrics)
	return evaluation{Run: k.Run, Data: t.Data, Epoch: best.Epoch, ValELBO: best.ValELBO, Images: t.Images, Samples: t.Samples, Seed: k.Seed}
}

func (e evaluation) encode() []byte {
	b, _ := json.MarshalIndent(e, "", " ") // cannot fail, because all numbers are finite
	return append(b, '\n')
}

// digest returns the SHA-256 of e without its digest and of the metrics.
func (e evaluation) digest(metrics []model.Metrics) string {
	e.SHA256 = ""
	b, _ := json.Marshal(metrics) // cannot fail, because all numbers are finite
	return fmt.Sprintf("%x", sha256.Sum256(append(e.encode(), b...)))
}

// A result holds the result of a task, either published in the paper or computed by this program.
type result struct {
	task
	Epochs  int         `json:"epochs"`
	ELBO    eval.Number `json:"elbo"`    // nats, negative
	ELBOSD  eval.Number `json:"elbo_sd"` // standard deviation over evaluations
	NLL     eval.Number `json:"nll"`     // nats, positive
	NLLSD   eval.Number `json:"nll_sd"`
	Seconds float64     `json:"seconds,omitempty"` // duration of training and evaluation

	curve []float64 // validation ELBO of each epoch; nil for a published run
}

// result combines the evaluation e and the metrics of all epochs into the result of task k.
func (e evaluation) result(k task, metrics []model.Metrics) *result {
	r := &result{task: k, Epochs: len(metrics), Seconds: e.Seconds}
	for _, m := range metrics {
		r.Seconds += m.Seconds
		r.curve = append(r.curve, m.ValELBO)
	}
	r.ELBO, r.ELBOSD = eval.MeanSD(e.ELBOs)
	r.NLL, r.NLLSD = eval.MeanSD(e.NLLs)
	return r
}

// print prints the result as one line.
func (r *result) print(w io.Writer, asJSON bool) {
	if asJSON {
		json.NewEncoder(w).Encode(r)
		return
	}
	fmt.Fprintf(w, "%s  epochs %d  ELBO %s  NLL %s\n", r.Run, r.Epochs, eval.PlusMinus(r.ELBO, r.ELBOSD), eval.PlusMinus(r.NLL, r.NLLSD))
}

// A status is the progress of a task, a line of the list.
type status struct {
	Task   int    `json:"task"`
	Run    string `json:"run"`
	State  string `json:"state"`           // done, running or open
	Epochs int    `json:"epochs"`          // number of trained epochs
	Error  string `json:"error,omitempty"` // why the table cannot use the run
}

// read returns the status of a task and its result, which is nil unless training and evaluation have ended. It
// returns an error if a file is damaged or does not belong to the table. It does not need the weights of a
// finished run.
func (t *table) read(k task) (s status, r *result, err error) {
	s = status{Run: k.Run, State: "open"}
	if t.root == nil {
		return s, nil, nil
	}
	root, err := t.root.OpenRoot(k.Run)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil, nil
	}
	if err != nil {
		return s, nil, err
	}
	defer root.Close()
	if filelock.Held(root, lockFile) {
		s.State = "running"
	}
	metrics, err := readMetrics(root)
	s.Epochs = len(metrics)
	if err != nil {
		return s, nil, err
	}
	b, err := atomicfile.ReadIn(root, evaluationFile)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil, nil
	}
	if err != nil {
		return s, nil, err
	}
	e, err := t.check(k, metrics, b)
	if err != nil {
		return s, nil, fmt.Errorf("%s %w; move the file away to evaluate the run again from its %s", filepath.Join(root.Name(), evaluationFile), err, stateFile)
	}
	s.State = "done"
	return s, e.result(k, metrics), nil
}

// check returns the evaluation in b. It returns an error if the evaluation is damaged, or if it does not
// follow from the metrics and the protocol of the table.
func (t *table) check(k task, metrics []model.Metrics, b []byte) (e evaluation, err error) {
	// Package json ignores missing fields and decodes null as 0, so compare the file with its encoding.
	if json.Unmarshal(b, &e) != nil || !bytes.Equal(e.encode(), b) || e.SHA256 != "" && e.SHA256 != e.digest(metrics) {
		return e, errors.New("is damaged, or the metrics of the run are damaged")
	}
	if len(e.ELBOs) != len(e.NLLs) || len(e.NLLs) < t.Runs {
		return e, fmt.Errorf("is damaged: it has %d ELBOs and %d NLLs, but the table needs %d of each", len(e.ELBOs), len(e.NLLs), t.Runs)
	}
	want, n := t.evaluation(k, metrics), len(metrics)
	want.Settings, want.ELBOs, want.NLLs, want.Seconds, want.SHA256 = e.Settings, e.ELBOs, e.NLLs, e.Seconds, e.SHA256
	if !bytes.Equal(want.encode(), b) ||
		model.Ended(metrics, t.Epochs, t.Patience) == "" || model.Ended(metrics[:n-1], t.Epochs, t.Patience) != "" || metrics[n-1].Rate != 0 {
		return e, errors.New("does not match this table and the metrics of the run")
	}
	e.ELBOs, e.NLLs = e.ELBOs[:t.Runs], e.NLLs[:t.Runs] // they do not depend on the number of further results
	return e, nil
}

// list prints a line for each run. If t.asJSON is false, it also prints the numbers of runs.
func (t *table) list() error {
	var out bytes.Buffer
	count := map[string]int{}
	for i, k := range t.tasks {
		s, _, err := t.read(k)
		s.Task = i
		if err != nil {
			s.Error = err.Error()
		}
		count[s.State]++
		if t.asJSON {
			json.NewEncoder(&out).Encode(s)
		} else {
			line := fmt.Sprintf("%3d  %-30s %-8s %5d epochs  %s", s.Task, s.Run, s.State, s.Epochs, s.Error)
			fmt.Fprintln(&out, strings.TrimRight(line, " "))
		}
	}
	if !t.asJSON {
		fmt.Fprintf(&out, "%d runs: %d done, %d running, %d open\n", len(t.tasks), count["done"], count["running"], count["open"])
	}
	_, err := t.stdout.Write(out.Bytes())
	return err
}
