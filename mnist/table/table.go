// Package table trains and evaluates the models of Table 1 of the HVAE paper and writes the table.
//
// Read table.go (training and evaluation), rows.go (rows, tasks and published results), result.go (the
// results of runs), report.go (the files of the table) and figures.go.
package table

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"hvae/bench/atomicfile"
	"hvae/bench/command"
	"hvae/bench/filelock"
	"hvae/mnist/data"
	"hvae/mnist/eval"
	"hvae/mnist/model"
	"hvae/mnist/run"
)

// A Table holds the settings of the table command. Call Open before the other methods.
//
// Runs with the same seed share the random numbers for the split, the image order, the binarisation and the
// noise. Therefore the difference of two rows usually has a smaller standard error than either row.
type Table struct {
	Protocol
	Out    string   // folder of the table
	Rows   []string // nil for the published rows
	Seeds  []uint64 // nil for the published seeds
	Folder string   // folder of the images, for run.Settings
	Set    data.Set
	JSON   bool // whether to print JSON

	Stdout, Stderr io.Writer

	tasks []task
	root  *os.Root // of Out; nil if List lists a table whose folder does not exist
}

// A Protocol holds the settings that all results of a table share. The file table.json stores them.
type Protocol struct {
	Data     string `json:"data"`       // name of the dataset; Open sets it
	Epochs   int    `json:"max_epochs"` // maximum number of epochs
	Patience int    `json:"patience"`   // training ends after this number of epochs without a better validation ELBO
	Train    int    `json:"train"`      // number of training images; 0 for all
	Images   int    `json:"images"`     // number of test images; Open replaces 0 by the number of all test images
	Samples  int    `json:"samples"`    // number of importance samples for each image
	Runs     int    `json:"runs"`       // number of evaluations of each run
}

// tableFile holds the table, including its protocol.
const tableFile = "table.json"

// Open plans the tasks, opens the folder of the table and compares the stored protocol with t.Protocol. If
// create is true, it creates the folder and stores the protocol in a new table.
func (t *Table) Open(create bool) (err error) {
	t.tasks, t.Data = plan(t.Rows, t.Seeds), t.Set.Name
	if n := t.Set.Test.Len(); t.Images > n {
		return command.UsageError("invalid value %d for flag -limit: there are %d test images", t.Images, n)
	} else if t.Images == 0 {
		t.Images = n
	}
	if create {
		if err := os.MkdirAll(t.Out, 0o755); err != nil {
			return fmt.Errorf("cannot create the folder %w", atomicfile.Named(t.Out, err))
		}
	}
	var b []byte
	if t.root, err = os.OpenRoot(t.Out); err == nil {
		b, err = atomicfile.ReadIn(t.root, tableFile)
	}
	if errors.Is(err, fs.ErrNotExist) {
		if create {
			return t.write(t.report())
		}
		return nil
	}
	var stored struct{ Protocol }
	if err == nil && json.Unmarshal(b, &stored) != nil {
		err = fmt.Errorf("%s is damaged: move it away, and the program writes it again from the results of the runs", filepath.Join(t.Out, tableFile))
	}
	if err != nil {
		return err
	}
	if wrong := run.Differences(stored.Protocol, t.Protocol); wrong != "" {
		return fmt.Errorf("the table in %s was made with %s: use the same settings, or another folder with -out", t.Out, wrong)
	}
	return nil
}

// Run trains and evaluates all models whose runs are not finished, or only the model of the task with the given
// number if it is not negative. It prints the result of each run, and at the end the table. It skips runs that
// another process trains.
func (t *Table) Run(ctx context.Context, number int) error {
	if number >= len(t.tasks) {
		return command.UsageError("invalid value %d for flag -task: it must be from 0 to %d", number, len(t.tasks)-1)
	}
	var failed []string
	for i, k := range t.tasks {
		if number >= 0 && number != i {
			continue
		}
		r, err := t.do(ctx, i)
		switch {
		case err != nil && ctx.Err() != nil:
			return err
		case errors.Is(err, filelock.ErrInUse) && number < 0:
			fmt.Fprintln(t.Stderr, err)
		case err != nil:
			fmt.Fprintf(t.Stderr, "%s: %v\n", k.Run, err)
			failed = append(failed, k.Run)
		default:
			r.print(t.Stdout, t.JSON)
		}
	}
	r := t.report()
	if number < 0 {
		r.print(t.Stdout, t.JSON)
	}
	if err := t.write(r); err != nil {
		return err
	}
	if failed != nil {
		return fmt.Errorf("%d of %d runs failed: %s", len(failed), len(t.tasks), strings.Join(failed, ", "))
	}
	return nil
}

// do trains and evaluates the model of the task with the given number, unless the run is finished. It returns
// the result.
func (t *Table) do(ctx context.Context, number int) (*result, error) {
	k := t.tasks[number]
	if s, err := t.read(number); s.result != nil || err != nil {
		return s.result, err
	}
	if err := t.root.MkdirAll(k.Run, 0o755); err != nil {
		return nil, err
	}
	root, err := t.root.OpenRoot(k.Run)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	folder, err := run.Lock(root)
	if err != nil {
		return nil, err
	}
	defer folder.Unlock()
	if s, err := t.read(number); s.result != nil || err != nil { // another process may have finished it
		return s.result, err
	}
	training, err := t.start(k, folder)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(t.Stderr, "training %s, %d of %d\n", k.Run, number+1, len(t.tasks))
	if err := training.Train(ctx, folder, io.Discard, t.Stderr, "start the same command again to continue"); err != nil {
		return nil, err
	}
	fmt.Fprintf(t.Stderr, "evaluating %s, %d of %d\n", k.Run, number+1, len(t.tasks))
	images := eval.Test(t.Set, t.Images, k.Seed, k.Seed)
	o := eval.Options{Model: filepath.Join(root.Name(), run.ModelFile), Samples: t.Samples, Runs: t.Runs}
	results, err := eval.Evaluate(ctx, model.Checkpoint{Config: k.config, Params: training.Best}, images, o, t.Stderr)
	if err != nil {
		return nil, err
	}
	e := t.needed(k, training.Metrics)
	e.Settings, _ = json.Marshal(training.Settings) // cannot fail for a struct of numbers and strings
	e.ELBOs, e.NLLs, e.Seconds = results.ELBOs, results.NLLs, results.Seconds
	e.SHA256 = e.digest(training.Metrics)
	if err := folder.Write(run.EvaluationFile, e.encode()); err != nil {
		return nil, err
	}
	return e.result(k, training.Metrics), t.write(t.report())
}

// start returns the training run of a task. A state in its folder must have the settings of the table.
func (t *Table) start(k task, folder *run.Folder) (*run.Run, error) {
	s := run.Defaults()
	s.Config, s.Seed, s.Epochs, s.Patience, s.Train, s.Data = k.config, k.Seed, t.Epochs, t.Patience, t.Train, t.Folder
	state, err := folder.ReadState()
	if errors.Is(err, fs.ErrNotExist) {
		return run.New(s, t.Set, nil)
	}
	if err != nil {
		return nil, err
	}
	same := s
	same.Data, same.Recompute = state.Settings.Data, state.Settings.Recompute
	if wrong := run.Differences(state.Settings, same); wrong != "" {
		return nil, fmt.Errorf("the run does not match this table: it was started with %s", wrong)
	}
	return run.New(s, t.Set, state)
}
