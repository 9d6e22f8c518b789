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

// A Table holds the settings of the command table. Call Prepare before the other methods.
//
// The random streams of the split, the order of images, binarisation and noise depend on the seed, but
// not on the model. So all runs with the same seed share their random numbers, and the difference of
// two rows usually has a smaller error than each row.
type Table struct {
	run.Protocol
	Out          string
	Rows         []string // nil for the published rows
	Seeds        []uint64 // nil for the published seeds
	Limit        int      // number of test images; Prepare replaces 0 by the number of all
	Samples      int      // number of importance samples for each image
	Runs         int      // number of evaluations of each run
	Extend, JSON bool

	Stdout, Stderr io.Writer

	tasks []task
	set   data.Set
	kept  bool // whether the note that existing files are kept was printed
}

// Prepare makes the tasks and loads the data. It returns an error if Limit is too large, or if there is
// no task with the given number. The number −1 stands for all tasks.
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
