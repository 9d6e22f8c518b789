package table

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"

	"hvae/bench/filelock"
	"hvae/mnist/data"
	"hvae/mnist/eval"
	"hvae/mnist/run"
)

// An evaluation holds the contents of run.EvaluationFile. The eval command computes the same results
// for the same images, number of samples and seed.
type evaluation struct {
	conditions
	ELBOs   []float64 `json:"elbos"` // for each evaluation, the mean over images
	NLLs    []float64 `json:"nlls"`
	Seconds float64   `json:"seconds"`
}

// conditions identifies the weights and the settings of an evaluation, which determine each of its results.
type conditions struct {
	Run      string            `json:"run"`
	Settings map[string]string `json:"settings"` // of the training
	Data     string            `json:"data"`
	Epoch    int               `json:"epoch"` // best epoch, whose weights are evaluated
	ValELBO  float64           `json:"val_elbo"`
	Images   int               `json:"images"`
	Samples  int               `json:"samples"`
	Seed     uint64            `json:"seed"`
}

// A status is the progress of a run, read from its folder.
type status struct {
	begun   bool          // whether there is a state to resume
	running bool          // whether a process has locked the folder
	metrics []run.Metrics // metrics of all epochs
	best    run.Metrics   // metrics of the best epoch
	trained bool          // whether training has ended
	needed  conditions    // conditions of the evaluation that the table needs
	result  *result       // nil unless training and evaluation have ended; does not require the model file
}

// settings returns the training settings of a task.
func (t *Table) settings(k task) *run.Settings {
	s := run.NewSettings()
	s.Protocol, s.Config, s.Seed, s.Out = t.Protocol, k.config, k.Seed, filepath.Join(t.Out, k.Run)
	return s
}

// identity returns run.Identity(settings) with train = 0, which stands for all training images, replaced by
// their number.
func (t *Table) identity(settings map[string]string) map[string]string {
	id := run.Identity(settings)
	if id["train"] == "0" {
		training, _ := data.Split(t.set.Train, 0)
		id["train"] = strconv.Itoa(len(training))
	}
	return id
}

// status reads the status of a task's run. It returns an error if the run has more epochs than the table
// allows, if its learning rate was changed, or if it was evaluated with other settings. If Extend is false,
// it also returns an error if the run was evaluated, but the table would train it further.
func (t *Table) status(k task) (s status, err error) {
	settings := t.settings(k)
	folder := settings.Out
	_, err = os.Stat(filepath.Join(folder, run.StateFile))
	s.begun = err == nil
	if s.running, err = filelock.Held(filepath.Join(folder, run.LockFile)); err != nil {
		return s, err
	}
	if s.metrics, err = run.ReadMetrics(filepath.Join(folder, run.MetricsFile)); err != nil {
		return s, err
	}
	for _, m := range s.metrics {
		if s.trained {
			return s, fmt.Errorf("%s was trained for %d epochs, but with -epochs %d and -patience %d training ends after epoch %d", folder, len(s.metrics), t.MaxEpochs, t.Patience, m.Epoch-1)
		}
		if m.Rate != 0 {
			return s, fmt.Errorf("%s does not match this table: its learning rate was changed during the run", folder)
		}
		if m.Epoch == 1 || m.ValELBO > s.best.ValELBO {
			s.best = m
		}
		s.trained = m.Epoch >= t.MaxEpochs || m.Epoch+1-s.best.Epoch > t.Patience
	}
	s.needed = conditions{
		Run: k.Run, Settings: t.identity(settings.Flags.Values()), Data: t.set.Name,
		Epoch: s.best.Epoch, ValELBO: s.best.ValELBO, Images: t.Limit, Samples: t.Samples, Seed: k.Seed,
	}
	name := filepath.Join(folder, run.EvaluationFile)
	b, err := run.ReadText(name)
	if b == nil || err != nil {
		return s, err
	}
	var e evaluation
	if err := json.Unmarshal(b, &e); err != nil || len(e.ELBOs) != len(e.NLLs) {
		return s, fmt.Errorf("%s is damaged: move or delete it to evaluate again", name)
	}
	if e.Epoch != s.best.Epoch || e.ValELBO != s.best.ValELBO { // an evaluation of other weights
		return s, nil
	}
	if !reflect.DeepEqual(e.conditions, s.needed) {
		return s, fmt.Errorf("%s was made with different settings: it has %+v, but the table needs %+v; use another -out folder, or move or delete the file to evaluate again", name, e.conditions, s.needed)
	}
	if !s.trained && !t.Extend {
		return s, fmt.Errorf("%s was evaluated after %d epochs, but -epochs %d and -patience %d allow more epochs: add -extend to train further and discard the evaluation", folder, len(s.metrics), t.MaxEpochs, t.Patience)
	}
	if s.trained && len(e.NLLs) >= t.Runs {
		// The first t.Runs results do not depend on the number of further results.
		e.ELBOs, e.NLLs = e.ELBOs[:t.Runs], e.NLLs[:t.Runs]
		s.result = e.result(k, s.metrics)
	}
	return s, nil
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

// List prints a line for each run. If JSON is false, it also prints the number of runs in each state.
func (t *Table) List() error {
	var out bytes.Buffer
	count := map[string]int{}
	for i, k := range t.tasks {
		e := struct {
			Task   int    `json:"task"`
			Run    string `json:"run"`
			State  string `json:"state"`         // done, running, stopped, missing or refused
			Epochs int    `json:"epochs"`        // number of trained epochs
			Why    string `json:"why,omitempty"` // reason for the refusal
		}{Task: i, Run: k.Run, State: "missing"}
		s, err := t.status(k)
		switch {
		case err != nil:
			e.State, e.Why = "refused", err.Error()
		case s.result != nil:
			e.State = "done"
		case s.running:
			e.State = "running"
		case s.begun:
			e.State = "stopped"
		}
		e.Epochs = len(s.metrics)
		count[e.State]++
		if t.JSON {
			json.NewEncoder(&out).Encode(e)
		} else {
			line := fmt.Sprintf("%3d  %-30s %-8s %5d epochs  %s", e.Task, e.Run, e.State, e.Epochs, e.Why)
			fmt.Fprintln(&out, strings.TrimRight(line, " "))
		}
	}
	if !t.JSON {
		fmt.Fprintf(&out, "%d runs: %d done, %d running, %d stopped, %d missing, %d refused\n",
			len(t.tasks), count["done"], count["running"], count["stopped"], count["missing"], count["refused"])
	}
	_, err := t.Stdout.Write(out.Bytes())
	return err
}
