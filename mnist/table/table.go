// Package table trains and evaluates the models of Table 1 and writes the table.
//
// A Table is in table.go. Read rows.go (rows, tasks and published results), status.go (the progress
// of a run), train.go (training and evaluation), report.go (the files of the table) and figures.go.
package table

import (
	"context"
	"io"

	"hvae/bench/command"
	"hvae/mnist/data"
	"hvae/mnist/run"
)

// A Table holds the settings of the command table. Prepare must be called first.
//
// All runs with the same seed share their random numbers. The streams of the split, the order of
// images, binarisation and noise depend on the seed, but not on the model. So the difference of two
// rows usually has a smaller error than each row.
type Table struct {
	run.Protocol
	Out           string
	Rows          []string // nil for the published rows
	Seeds         []uint64 // nil for the published seeds
	Limit         int      // number of test images; Prepare replaces 0 by all
	Samples, Runs int      // of an evaluation
	Extend, JSON  bool

	Stdout, Stderr io.Writer

	tasks []task
	set   data.Set
	kept  bool // whether the note about kept files was printed
}

// Prepare makes the tasks, loads the data, and checks Limit and the number of a task, -1 for none.
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
