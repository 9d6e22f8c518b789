// Package table trains and evaluates the models of Table 1 and writes the table.
//
// A Table is in table.go. Each of its tasks (rows.go) has a status (status.go) and is trained and
// evaluated (train.go). The results are summarised with the published ones (published.go,
// rows.go), drawn (figure.go, budget.go) and written (report.go).
package table

import (
	"context"
	"io"

	"hvae/bench/command"
	"hvae/mnist/data"
	"hvae/mnist/run"
)

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
