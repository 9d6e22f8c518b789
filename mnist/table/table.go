// Package table trains and evaluates the models of Table 1 of the HVAE paper and writes the table.
//
// Read table.go (training and evaluation), rows.go (rows, tasks and published results), status.go (the
// progress of a run), report.go (the files of the table) and figures.go.
package table

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"hvae/bench/command"
	"hvae/bench/filelock"
	"hvae/mnist/data"
	"hvae/mnist/eval"
	"hvae/mnist/model"
	"hvae/mnist/run"
)

// A Table holds the settings of the table command. Call Prepare before the other methods.
//
// Runs with the same seed share the random numbers for the split, the image order, the binarisation and the
// noise. Therefore the difference of two rows usually has a smaller standard error than either row.
type Table struct {
	run.Protocol
	Out          string
	Rows         []string // nil for the published rows
	Seeds        []uint64 // nil for the published seeds
	Limit        int      // number of test images; Prepare replaces 0 by the number of all test images
	Samples      int      // number of importance samples for each image
	Runs         int      // number of evaluations of each run
	Extend, JSON bool

	Stdout, Stderr io.Writer

	tasks []task
	set   data.Set
}

// Prepare plans the tasks and loads the data. number is the number of a task, or −1 for all tasks. Prepare
// returns an error if there is no such task, or if Limit exceeds the number of test images.
func (t *Table) Prepare(ctx context.Context, number int) (err error) {
	if t.tasks = plan(t.Rows, t.Seeds); number >= len(t.tasks) {
		return command.UsageError("invalid value %d for flag -task: it must be from 0 to %d", number, len(t.tasks)-1)
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

// DoAll trains and evaluates all models whose runs are neither finished nor running in another process.
// After each run, it writes the table and prints it. If JSON is true, it prints the result of each run
// instead, and all rows at the end.
func (t *Table) DoAll(ctx context.Context) error {
	var failed, elsewhere []string
	printed := false
	for i, k := range t.tasks {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		r, evaluated, err := t.do(ctx, i)
		switch {
		case errors.Is(err, filelock.ErrInUse):
			elsewhere = append(elsewhere, k.Run)
		case err != nil && ctx.Err() != nil, errors.Is(err, run.ErrMoved):
			return err
		case err != nil:
			fmt.Fprintf(t.Stderr, "%s: %v\n", k.Run, err)
			failed = append(failed, k.Run)
		case evaluated:
			err := t.update(!t.JSON)
			if err == nil && t.JSON {
				err = t.printResult(r)
			}
			if err != nil {
				return err
			}
			printed = !t.JSON
		}
	}
	if elsewhere != nil {
		fmt.Fprintf(t.Stderr, "running in other processes: %s\n", strings.Join(elsewhere, ", "))
	}
	if !printed {
		if err := t.update(true); err != nil {
			return err
		}
	}
	if failed != nil {
		return fmt.Errorf("%d of %d runs failed: %s", len(failed), len(t.tasks), strings.Join(failed, ", "))
	}
	return nil
}

// Do trains and evaluates the model of the task with the given number, and prints the result.
func (t *Table) Do(ctx context.Context, number int) error {
	r, _, err := t.do(ctx, number)
	if err != nil {
		return err
	}
	return t.printResult(r)
}

// do trains and evaluates the model of the task with the given number, and returns evaluated = true. If the
// run is already finished, the method only reads its result and returns evaluated = false.
func (t *Table) do(ctx context.Context, number int) (r *result, evaluated bool, err error) {
	k := t.tasks[number]
	settings := t.settings(k)
	folder, err := run.Lock(settings.Out)
	if err != nil {
		return nil, false, err
	}
	defer folder.Release()
	s, err := t.status(k)
	if err != nil || s.result != nil {
		return s.result, false, err
	}
	var state *model.State
	if s.begun {
		if state, err = folder.ReadState(); err != nil {
			return nil, false, err
		}
		if wrong := run.Differences(t.identity(state.Settings), s.needed.Settings); wrong != "" {
			return nil, false, fmt.Errorf("the run in %s does not match %s of this table: it was started with %s", settings.Out, k.Run, wrong)
		}
	}
	training, err := run.New(settings, t.set, folder, state, io.Discard, t.Stderr)
	if err != nil {
		return nil, false, err
	}
	fmt.Fprintf(t.Stderr, "training %s, %d of %d\n", k.Run, number+1, len(t.tasks))
	if err := training.Train(ctx, "start the same command again to continue"); err != nil {
		return nil, false, err
	}
	fmt.Fprintf(t.Stderr, "evaluating %s, %d of %d\n", k.Run, number+1, len(t.tasks))
	r, err = t.evaluate(ctx, k, training.Best, folder)
	return r, true, err
}

// evaluate evaluates the best weights of a training run and saves the results.
func (t *Table) evaluate(ctx context.Context, k task, best []model.Param[float32], folder *run.Folder) (*result, error) {
	s, err := t.status(k)
	if err != nil {
		return nil, err
	}
	images := eval.Test(t.set, t.Limit, k.Seed, k.Seed)
	o := eval.Options{Model: filepath.Join(t.Out, k.Run, run.ModelFile), Samples: t.Samples, Runs: t.Runs}
	results, err := eval.Evaluate(ctx, model.Checkpoint{Config: k.config, Params: best}, images, o, t.Stderr)
	if err != nil {
		return nil, err
	}
	e := evaluation{s.needed, results.ELBOs, results.NLLs, results.Seconds}
	b, _ := json.MarshalIndent(e, "", " ") // cannot fail, because Evaluate returns finite numbers
	return e.result(k, s.metrics), folder.Write(run.EvaluationFile, append(b, '\n'))
}
