package table

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"

	"hvae/bench/filelock"
	"hvae/mnist/data"
	"hvae/mnist/eval"
	"hvae/mnist/run"
)

// An evaluation holds the contents of run.EvaluationFile. The eval command computes the same results
// for the same images, number of samples and seed.
type evaluation struct {
	Run      string            `json:"run"`
	Settings map[string]string `json:"settings"` // of the training
	Data     string            `json:"data"`
	Epoch    int               `json:"epoch"` // best epoch, whose weights were evaluated
	ValELBO  float64           `json:"val_elbo"`
	Images   int               `json:"images"`
	Samples  int               `json:"samples"`
	Seed     uint64            `json:"seed"`
	ELBOs    []float64         `json:"elbos"` // for each evaluation, the mean over images
	NLLs     []float64         `json:"nlls"`
	Seconds  float64           `json:"seconds"`
}

// A status is the progress of a run, read from its folder.
type status struct {
	begun      bool          // whether there is a state to resume
	running    bool          // whether a process has locked the folder
	metrics    []run.Metrics // metrics of all epochs
	best       run.Metrics   // metrics of the best epoch
	trained    bool          // whether training has ended
	done       bool          // whether training and evaluation have ended; the weights may be missing
	evaluation *evaluation   // evaluation of the best epoch, without results unless done
}

// folder returns the folder of a task's run.
func (t *Table) folder(k task) string { return filepath.Join(t.Out, k.String()) }

// settings returns the training settings of a task.
func (t *Table) settings(k task) *run.Settings {
	s := run.NewSettings()
	s.Protocol, s.Config, s.Seed, s.Out = t.Protocol, k.config, k.seed, t.folder(k)
	return s
}

// identity returns the settings that determine the results of a run. It replaces -train 0 by the number
// of all training images.
func (t *Table) identity(settings map[string]string) map[string]string {
	id := map[string]string{}
	for _, name := range []string{"model", "K", "tempering", "vary-eps", "latent", "batch", "lr", "seed", "train"} {
		id[name] = settings[name]
	}
	if id["train"] == "0" {
		training, _ := data.Split(t.set.Train, 0)
		id["train"] = strconv.Itoa(len(training))
	}
	return id
}

// status reads the status of a task's run. It returns an error if the run has more epochs than the
// table allows, or if the run was evaluated with other settings. Without Extend, it also returns an
// error if the run has been evaluated and the table would train it further.
func (t *Table) status(k task) (s status, err error) {
	folder := t.folder(k)
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
		if m.Epoch == 1 || m.ValELBO > s.best.ValELBO {
			s.best = m
		}
		s.trained = m.Epoch >= t.MaxEpochs || m.Epoch+1-s.best.Epoch > t.Patience
	}
	s.evaluation = &evaluation{
		Run: k.String(), Settings: t.identity(t.settings(k).Flags.Values()), Data: t.set.Name,
		Epoch: s.best.Epoch, ValELBO: s.best.ValELBO, Images: t.Limit, Samples: t.Samples, Seed: k.seed,
	}
	want, name := s.evaluation, filepath.Join(folder, run.EvaluationFile)
	b, err := run.ReadText(name)
	if b == nil || err != nil {
		return s, err
	}
	e := new(evaluation)
	if err := json.Unmarshal(b, e); err != nil || len(e.ELBOs) != len(e.NLLs) {
		return s, fmt.Errorf("%s is damaged: move or delete it to evaluate again", name)
	}
	if e.Epoch != want.Epoch || e.ValELBO != want.ValELBO { // an evaluation of other weights
		return s, nil
	}
	if e.Run != want.Run || !maps.Equal(e.Settings, want.Settings) || e.Data != want.Data || e.Images != want.Images ||
		e.Samples != want.Samples || e.Seed != want.Seed || len(e.NLLs) > t.Runs {
		return s, fmt.Errorf("%s contains %d evaluations on %d images of %s with %d samples, seed %d and the training settings %v, but the table needs %d evaluations on %d images of %s with %d samples, seed %d and the settings %v",
			name, len(e.NLLs), e.Images, e.Data, e.Samples, e.Seed, e.Settings, t.Runs, want.Images, want.Data, want.Samples, want.Seed, want.Settings)
	}
	if !s.trained && !t.Extend {
		return s, fmt.Errorf("%s was evaluated after %d epochs, but -epochs %d and -patience %d allow more: add -extend to train further and discard the evaluation", folder, len(s.metrics), t.MaxEpochs, t.Patience)
	}
	if s.done = s.trained && len(e.NLLs) == t.Runs; s.done {
		s.evaluation = e
	}
	return s, nil
}

// results returns the results of all finished runs. It skips a run if reading its status
// fails, because DoAll reports the error.
func (t *Table) results() (all []result) {
	for _, k := range t.tasks {
		if s, err := t.status(k); err == nil && s.done {
			all = append(all, s.result(k))
		}
	}
	return all
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

// An Entry describes a run in the output of -list.
type Entry struct {
	Task   int    `json:"task"`
	Run    string `json:"run"`
	State  string `json:"state"`         // done, running, stopped, missing or refused
	Epochs int    `json:"epochs"`        // number of trained epochs
	Why    string `json:"why,omitempty"` // reason for the refusal
}

// List returns an entry for each run.
func (t *Table) List() (all []Entry) {
	for i, k := range t.tasks {
		e := Entry{Task: i, Run: k.String(), State: "missing"}
		s, err := t.status(k)
		switch {
		case err != nil:
			e.State, e.Why = "refused", err.Error()
		case s.done:
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
