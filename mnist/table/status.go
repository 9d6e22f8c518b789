package table

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"hvae/bench/filelock"
	"hvae/mnist/data"
	"hvae/mnist/eval"
	"hvae/mnist/model"
	"hvae/mnist/run"
)

// An evaluation holds the finished evaluations of a run, in run.EvaluationFile. They are equal to
// those of the command eval with the same numbers of images and samples and the same seed.
type evaluation struct {
	Run      string            `json:"run"`
	Settings map[string]string `json:"settings"` // of the training
	Data     string            `json:"data"`
	Epoch    int               `json:"epoch"` // the best
	ValELBO  float64           `json:"val_elbo"`
	Images   int               `json:"images"`
	Samples  int               `json:"samples"`
	Seed     uint64            `json:"seed"`
	ELBOs    []float64         `json:"elbos"` // mean over images of each evaluation
	NLLs     []float64         `json:"nlls"`
	Seconds  float64           `json:"seconds"`
}

// continues reports whether e can be continued to the given number of evaluations like want.
func (e evaluation) continues(want evaluation, runs int) bool {
	return e.Run == want.Run && maps.Equal(e.Settings, want.Settings) && e.Data == want.Data && e.Images == want.Images &&
		e.Samples == want.Samples && e.Seed == want.Seed && len(e.NLLs) <= runs
}

// readEvaluation reads a run's evaluation, nil if the file does not exist.
func readEvaluation(name string) (*evaluation, error) {
	b, err := run.ReadText(name)
	if b == nil || err != nil {
		return nil, err
	}
	e := new(evaluation)
	if err := json.Unmarshal(b, e); err != nil || len(e.ELBOs) != len(e.NLLs) {
		return nil, fmt.Errorf("%s is damaged: move or delete it to evaluate again", name)
	}
	return e, nil
}

// A status is the progress of a run, read from its folder.
type status struct {
	begun      bool // whether there is a state to resume
	running    bool // whether a process has locked the folder
	metrics    []run.Metrics
	best       run.Metrics // of the best epoch
	trained    bool        // whether training has ended
	evaluation *evaluation // of the best epoch; without evaluations before the first
	evaluated  bool        // whether all evaluations are done
}

// done reports whether a run is finished. Its weights may be missing.
func (s status) done() bool { return s.trained && s.evaluated }

// folder returns the folder of a task's run.
func (t *Table) folder(k task) string { return filepath.Join(t.Out, k.String()) }

// path returns the path of a file in the folder of a task's run.
func (t *Table) path(k task, file string) string { return filepath.Join(t.folder(k), file) }

// settings returns the training settings of a task.
func (t *Table) settings(k task) (run.Settings, error) {
	var s run.Settings
	f := s.Flags()
	for name, value := range map[string]string{
		"model": k.config.Kind, "K": strconv.Itoa(k.config.K), "tempering": k.config.Tempering, "vary-eps": strconv.FormatBool(k.config.VaryEps),
		"latent": strconv.Itoa(k.config.Latent), "seed": strconv.FormatUint(k.seed, 10), "out": t.folder(k), "epochs": strconv.Itoa(t.MaxEpochs),
		"patience": strconv.Itoa(t.Patience), "train": strconv.Itoa(t.Train), "data": t.Source.Folder, "dataset": t.Source.Name,
	} {
		if value == "" {
			continue
		}
		if err := f.Set(name, value); err != nil {
			return s, err
		}
	}
	return s, s.Store(f)
}

// identity returns those settings of a state that define the run.
func (t *Table) identity(stored map[string]string) map[string]string {
	id := map[string]string{}
	for _, name := range []string{"model", "K", "tempering", "vary-eps", "latent", "batch", "lr", "seed", "train"} {
		id[name] = stored[name]
	}
	if id["train"] == "0" { // all
		training, _ := data.Split(t.set.Train, 0)
		id["train"] = strconv.Itoa(len(training))
	}
	return id
}

// contradiction returns an error if a state is not of the task's run.
func (t *Table) contradiction(k task, s run.Settings, state model.State) error {
	was, is := t.identity(state.Settings), t.identity(s.Stored())
	var wrong []string
	for _, name := range slices.Sorted(maps.Keys(is)) {
		if was[name] != is[name] {
			wrong = append(wrong, fmt.Sprintf("%s = %s, not %s", name, was[name], is[name]))
		}
	}
	if wrong != nil {
		return fmt.Errorf("the run in %s is not the table's %v: it was started with %s", s.Out, k, strings.Join(wrong, "; "))
	}
	return nil
}

// newEvaluation returns the evaluation of a task before its first evaluation.
func (t *Table) newEvaluation(k task, s run.Settings, best run.Metrics) evaluation {
	return evaluation{
		Run: k.String(), Settings: t.identity(s.Stored()), Data: t.set.Name,
		Epoch: best.Epoch, ValELBO: best.ValELBO, Images: t.Limit, Samples: t.Samples, Seed: k.seed,
	}
}

// status reads the status of a task's run. It returns an error for a run with more epochs than
// the settings allow, for a run that was evaluated with other settings, and, without Extend, for
// an evaluated run that would be trained further.
func (t *Table) status(k task) (s status, err error) {
	_, err = os.Stat(t.path(k, run.StateFile))
	s.begun = err == nil
	if s.running, err = filelock.Held(t.path(k, run.LockFile)); err != nil {
		return s, err
	}
	if s.metrics, err = run.ReadMetrics(t.path(k, run.MetricsFile)); err != nil {
		return s, err
	}
	for _, m := range s.metrics {
		if s.trained {
			return s, fmt.Errorf("%s was trained for %d epochs: with -epochs %d and -patience %d training would have ended after %d", t.folder(k), len(s.metrics), t.MaxEpochs, t.Patience, m.Epoch-1)
		}
		if m.Epoch == 1 || m.ValELBO > s.best.ValELBO {
			s.best = m
		}
		s.trained = m.Epoch >= t.MaxEpochs || m.Epoch+1-s.best.Epoch > t.Patience
	}
	settings, err := t.settings(k)
	if err != nil {
		return s, err
	}
	want := t.newEvaluation(k, settings, s.best)
	s.evaluation = &want
	name := t.path(k, run.EvaluationFile)
	e, err := readEvaluation(name)
	if err != nil || e == nil || e.Epoch != s.best.Epoch || e.ValELBO != s.best.ValELBO {
		return s, err
	}
	if !e.continues(want, t.Runs) {
		return s, fmt.Errorf("%s was evaluated by %d runs on %d images of %s with %d samples each, seed %d, of %v: the table needs %d runs on %d images of %s with %d samples, seed %d, of %v",
			name, len(e.NLLs), e.Images, e.Data, e.Samples, e.Seed, e.Settings, t.Runs, want.Images, want.Data, want.Samples, want.Seed, want.Settings)
	}
	if !s.trained && !t.Extend {
		return s, fmt.Errorf("%s is evaluated after %d epochs: -epochs %d and -patience %d would train it further and discard its evaluations, which needs -extend", t.folder(k), len(s.metrics), t.MaxEpochs, t.Patience)
	}
	s.evaluation, s.evaluated = e, len(e.NLLs) == t.Runs
	return s, nil
}

// result returns the result of a finished run.
func (s status) result(k task) result {
	e := s.evaluation
	r := result{Run: k.String(), Row: k.row, Seed: k.seed, Epochs: len(s.metrics), Seconds: e.Seconds}
	for _, m := range s.metrics {
		r.Seconds += m.Seconds
		r.curve = append(r.curve, m.ValELBO)
	}
	r.ELBO, r.ELBOSD = eval.MeanSD(e.ELBOs)
	r.NLL, r.NLLSD = eval.MeanSD(e.NLLs)
	return r
}

// results returns the results of all finished runs. It ignores errors, because they are
// reported when the table processes the run.
func (t *Table) results() (all []result) {
	for _, k := range t.tasks {
		if s, err := t.status(k); err == nil && s.done() {
			all = append(all, s.result(k))
		}
	}
	return all
}

// An Entry is a run in the list of runs.
type Entry struct {
	Task   int    `json:"task"`
	Run    string `json:"run"`
	State  string `json:"state"`  // done, running, stopped, missing or refused
	Epochs int    `json:"epochs"` // number of trained epochs
	Why    string `json:"why,omitempty"`
}

// List returns the states of all runs.
func (t *Table) List() (all []Entry) {
	for i, k := range t.tasks {
		e := Entry{Task: i, Run: k.String(), State: "missing"}
		s, err := t.status(k)
		switch {
		case err != nil:
			e.State, e.Why = "refused", err.Error()
		case s.done():
			e.State = "done"
		case s.running:
			e.State = "running"
		case s.begun:
			e.State = "stopped"
		}
		e.Epochs = len(s.metrics)
		all = append(all, e)
	}
	return all
}
