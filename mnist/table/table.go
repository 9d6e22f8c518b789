// Package table trains and evaluates the models of Table 1 and writes the table.
//
// Read table.go first: a Table and its tasks in turn. The list of tasks is in task.go, a task's
// progress in status.go, its evaluation in evaluation.go. The results are summarised in rows.go,
// beside those of published.go, drawn in figure.go and budget.go, and written in report.go.
package table

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"hvae/bench/command"
	"hvae/bench/filelock"
	"hvae/mnist/data"
	"hvae/mnist/eval"
	"hvae/mnist/model"
	"hvae/mnist/run"
)

// advice ends the errors of interrupted runs.
const advice = "start the same command again to continue"

// A Table holds the settings of the command table. Prepare makes its tasks and loads its data.
//
// All runs of a seed share their random numbers, because the streams of the split, the order of
// images, binarisation and noise depend on the seed but not on the model. So differences between
// rows have smaller errors than the rows.
type Table struct {
	Out           string
	Source        run.Source
	Rows          []string // nil for the published rows
	Seeds         []uint64 // nil for the published seeds
	MaxEpochs     int
	Patience      int
	Train         int // number of training images, 0 for all
	Limit         int // number of test images, 0 for all until Prepare
	Samples, Runs int // of the evaluations
	Extend        bool
	JSON          bool

	Stdout, Stderr io.Writer

	tasks []task
	set   data.Set
	kept  bool // whether the note that the table's files are kept was printed
}

// Prepare makes the tasks, loads the data and checks Limit and the number of a task, -1 for none.
func (t *Table) Prepare(ctx context.Context, number int) (err error) {
	if t.tasks = plan(t.Rows, t.Seeds); number >= len(t.tasks) {
		return command.UsageError("invalid value %d for flag -task: there are %d runs, from 0", number, len(t.tasks))
	}
	if t.set, err = t.Source.Load(ctx, t.Stderr); err != nil {
		return err
	}
	if n := t.set.Test.Len(); t.Limit > n {
		return command.UsageError("invalid value %d for flag -limit: there are %d test images", t.Limit, n)
	} else if t.Limit == 0 {
		t.Limit = n
	}
	return nil
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

// DoAll does every task that is not done and that no other process does, and prints the table
// after each.
func (t *Table) DoAll(ctx context.Context) error {
	var failed, elsewhere []string
	printed := false
	for i, k := range t.tasks {
		did, err := t.do(ctx, k, io.Discard, func(activity string) {
			fmt.Fprintf(t.Stderr, "%s %v, %d of %d\n", activity, k, i+1, len(t.tasks))
		})
		switch {
		case errors.Is(err, filelock.ErrInUse):
			elsewhere = append(elsewhere, k.String())
		case err != nil && ctx.Err() != nil, errors.Is(err, run.ErrMoved):
			return err
		case err != nil:
			fmt.Fprintf(t.Stderr, "%v: %v\n", k, err)
			failed = append(failed, k.String())
		case did:
			if err := t.update(k); err != nil {
				return err
			}
			printed = true
		}
	}
	if elsewhere != nil {
		fmt.Fprintf(t.Stderr, "running in other processes: %s\n", strings.Join(elsewhere, ", "))
	}
	if !printed || t.JSON {
		if err := t.update(task{}); err != nil {
			return err
		}
	}
	if failed != nil {
		return fmt.Errorf("%d of %d runs failed: %s", len(failed), len(t.tasks), strings.Join(failed, ", "))
	}
	return nil
}

// Do does the task with the given number and prints its result.
func (t *Table) Do(ctx context.Context, number int) error {
	k := t.tasks[number]
	log := t.Stdout
	if t.JSON {
		log = io.Discard
	}
	if _, err := t.do(ctx, k, log, func(string) {}); err != nil {
		return err
	}
	s, err := t.status(k)
	if err != nil {
		return err
	}
	r := s.result(k)
	if t.JSON {
		return json.NewEncoder(t.Stdout).Encode(r)
	}
	_, err = fmt.Fprintf(t.Stdout, "%v  epochs %d  ELBO %s  NLL %s\n", k, r.Epochs, eval.PlusMinus(2, r.ELBO, r.ELBOSD), eval.PlusMinus(2, r.NLL, r.NLLSD))
	return err
}

// do trains and evaluates a task, unless that is done, and reports whether it did. It prints the
// epochs on log and calls note before training and before the evaluation.
func (t *Table) do(ctx context.Context, k task, log io.Writer, note func(activity string)) (did bool, err error) {
	s, err := t.settings(k)
	if err != nil {
		return false, err
	}
	if status, err := t.status(k); err != nil || status.done() {
		return false, err
	}
	folder, err := run.Lock(s.Out)
	if err != nil {
		return false, err
	}
	defer folder.Release()
	status, err := t.status(k) // another process may have finished it
	if err != nil || status.done() {
		return false, err
	}
	var state *model.State
	if status.begun {
		was, err := folder.ReadState(t.Stderr)
		if err != nil {
			return false, err
		}
		if err := t.contradiction(k, s, was); err != nil {
			return false, err
		}
		state = &was
	} else if err := folder.CheckNew(); err != nil {
		return false, err
	}
	r, err := run.New(s, t.set, log, t.Stderr)
	if err != nil {
		return false, err
	}
	if err := r.Open(folder, state); err != nil {
		return false, err
	}
	if r.RateChanged() {
		return false, fmt.Errorf("the run in %s is not the table's %v: its learning rate was changed during the run", s.Out, k)
	}
	note("training")
	if err := r.Train(ctx, advice); err != nil {
		return true, err
	}
	note("evaluating")
	return true, t.evaluate(ctx, k, r, folder)
}
