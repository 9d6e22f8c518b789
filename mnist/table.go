package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"hvae/bench/atomicfile"
	"hvae/bench/command"
	"hvae/bench/filelock"
	"hvae/mnist/data"
	"hvae/mnist/eval"
	"hvae/mnist/model"
)

// A table holds the data of the table command, which trains and evaluates the models of Table 1.
//
// Runs with the same seed use the same random numbers for the split, the image order, the binarisation and the noise.
// Therefore, the difference between the NLLs of two rows usually has a smaller standard error than each NLL.
type table struct {
	protocol
	out    string   // folder of the table, which contains a folder for each run
	rows   []string // nil for the published rows
	seeds  []uint64 // nil for the published seeds
	folder string   // folder of the images
	number int      // number of the task to run; -1 for all tasks

	listOnly, asJSON bool
	stdout, stderr   io.Writer

	set   data.Set
	tasks []task
	root  *os.Root // the open folder out; nil if listOnly is true and the folder does not exist
}

// A protocol holds the settings that are the same for all results of a table. They are stored in table.json.
type protocol struct {
	Data     string `json:"data"`       // name of the dataset, set by the method open
	Epochs   int    `json:"max_epochs"` // maximum number of epochs
	Patience int    `json:"patience"`   // training ends after this number of epochs without a better validation ELBO
	Train    int    `json:"train"`      // number of training images; 0 for all
	Images   int    `json:"images"`     // number of test images; the method open replaces 0 by the number of all test images
	Samples  int    `json:"samples"`    // number of importance samples for each image
	Runs     int    `json:"runs"`       // number of evaluations of each run
}

// makeTable runs the table command.
func makeTable(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	t := &table{stdout: stdout, stderr: stderr}
	if err := t.flags().Parse(args); err != nil {
		return err
	}
	if t.out == "" {
		return command.UsageError("-out is missing: specify a folder for the runs")
	}
	if t.set, err = loadData(ctx, t.folder, stderr); err != nil {
		return err
	}
	if err := t.open(); err != nil {
		return err
	}
	if t.listOnly {
		return t.list()
	}
	ignoreBrokenPipes()
	return t.run(ctx)
}

// flags defines the flags of the table command, which set fields of t.
func (t *table) flags() *command.Flags {
	f := command.NewFlags()
	f.StringVar(&t.out, "out", "", "`folder` for the table and its run folders (required)")
	command.List(f, &t.rows, "rows", "`rows` of the table, separated by commas, such as vae,hvae-k1-none,hvae-k5-free-varied\n(default the paper's 27 rows)", func(row string) (string, error) {
		_, err := parseRow(row)
		return row, err
	})
	command.List(f, &t.seeds, "seeds", "`seeds` of each row, separated by commas (default the paper's: 85547 and 12345, and 98765 for some rows)", func(s string) (uint64, error) {
		return strconv.ParseUint(s, 10, 64)
	})
	f.Range(&t.Epochs, "epochs", 2000, 1, 1_000_000, "maximum `number` of epochs")
	f.Count(&t.Patience, "patience", 100, 1, "stop after this `number` of epochs without a better validation ELBO")
	f.Count(&t.Train, "train", 0, 0, "`number` of training images; 0 for all")
	f.Count(&t.Images, "limit", 0, 0, "`number` of test images to evaluate, starting with the first; 0 for all")
	f.Count(&t.Samples, "samples", 1000, 1, "`number` of importance samples for each image")
	f.Count(&t.Runs, "runs", 3, 1, "`number` of evaluations of each run, each with freshly binarised images; ± is the standard\ndeviation over evaluations")
	dataFlag(f, &t.folder)
	f.BoolVar(&t.listOnly, "list", false, "only list the runs and their status: done, running or open")
	f.IntVar(&t.number, "task", -1, "train and evaluate only the run with this `number` in the output of -list; -1 for all runs")
	f.BoolVar(&t.asJSON, "json", false, "print a JSON object on each line: one for each finished run, then one for each row")
	return f
}

// open plans the tasks, opens the folder of the table and checks that the stored protocol equals t.protocol. If there
// is no table yet, it creates one, unless t.listOnly is true.
func (t *table) open() (err error) {
	t.tasks, t.Data = plan(t.rows, t.seeds), t.set.Name
	if n := t.set.Test.Len(); t.Images > n {
		return command.UsageError("invalid value %d for flag -limit: there are %d test images", t.Images, n)
	} else if t.Images == 0 {
		t.Images = n
	}
	open := createFolder
	if t.listOnly {
		open = os.OpenRoot
	}
	var b []byte
	if t.root, err = open(t.out); err == nil {
		b, err = atomicfile.ReadIn(t.root, tableFile)
	}
	var stored struct{ protocol }
	switch {
	case errors.Is(err, fs.ErrNotExist) && t.listOnly:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return t.write(t.report())
	case err != nil:
		return err
	case json.Unmarshal(b, &stored) != nil:
		return fmt.Errorf("%s is damaged: move it away, and the program writes it again from the results of the runs", filepath.Join(t.out, tableFile))
	}
	if wrong := differences(stored.protocol, t.protocol); wrong != "" {
		return fmt.Errorf("the table in %s was made with %s: use the same settings, or another folder with -out", t.out, wrong)
	}
	return nil
}

// run trains and evaluates the models whose runs are not finished, and prints the result of each run. If t.number is
// not negative, it does this only for the task with this number. Otherwise, it skips runs that another process is
// training, and prints the table at the end.
func (t *table) run(ctx context.Context) error {
	if t.number < -1 || t.number >= len(t.tasks) {
		return command.UsageError("invalid value %d for flag -task: it must be from 0 to %d", t.number, len(t.tasks)-1)
	}
	var failed []string
	for i, k := range t.tasks {
		if t.number >= 0 && t.number != i {
			continue
		}
		r, err := t.do(ctx, i)
		switch {
		case err != nil && ctx.Err() != nil:
			return err
		case errors.Is(err, filelock.ErrInUse) && t.number < 0:
			fmt.Fprintln(t.stderr, err)
		case err != nil:
			fmt.Fprintf(t.stderr, "%s: %v\n", k.Run, err)
			failed = append(failed, k.Run)
		default:
			r.print(t.stdout, t.asJSON)
		}
	}
	r := t.report()
	if t.number < 0 {
		r.print(t.stdout, t.asJSON)
	}
	if err := t.write(r); err != nil {
		return err
	}
	if failed != nil {
		return fmt.Errorf("%d of %d runs failed: %s", len(failed), len(t.tasks), strings.Join(failed, ", "))
	}
	return nil
}

// do returns the result of the task with the given number. Unless the run is finished, it trains and evaluates
// the model.
func (t *table) do(ctx context.Context, number int) (*result, error) {
	k := t.tasks[number]
	if err := t.root.MkdirAll(k.Run, 0o755); err != nil {
		return nil, err
	}
	f, err := lockFolder(t.root.OpenRoot(k.Run))
	if err != nil {
		return nil, err
	}
	defer f.close()
	if _, r, err := t.read(k); r != nil || err != nil {
		return r, err
	}
	training, err := t.start(k, f)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(t.stderr, "training %s, %d of %d\n", k.Run, number+1, len(t.tasks))
	if err := training.train(ctx, f, io.Discard, t.stderr, "start the same command again to continue"); err != nil {
		return nil, err
	}
	fmt.Fprintf(t.stderr, "evaluating %s, %d of %d\n", k.Run, number+1, len(t.tasks))
	images := eval.Images{Set: &t.set, N: t.Images, Seed: k.Seed}
	o := eval.Options{Samples: t.Samples, Runs: t.Runs}
	results, err := eval.Evaluate(ctx, model.Checkpoint{Config: k.config, Params: training.Best}, images, o, t.stderr)
	if err != nil {
		return nil, err
	}
	e := t.evaluation(k, training.Metrics)
	e.Settings, _ = json.Marshal(training.Settings) // cannot fail for a struct of numbers and strings
	e.ELBOs, e.NLLs, e.Seconds = results.ELBOs, results.NLLs, results.Seconds
	e.SHA256 = e.digest(training.Metrics)
	if err := f.write(evaluationFile, e.encode()); err != nil {
		return nil, err
	}
	return e.result(k, training.Metrics), t.write(t.report())
}

// start returns the training run of a task, which continues from the state in its folder if there is one. It returns an
// error if this state has settings other than the table's.
func (t *table) start(k task, f *folder) (*trainingRun, error) {
	s := model.Defaults()
	s.Config, s.Seed, s.Epochs, s.Patience, s.Train = k.config, k.Seed, t.Epochs, t.Patience, t.Train
	old, err := readState(f.Root)
	if err := unlessMissing(err); err != nil {
		return nil, err
	}
	if old != nil {
		same := s
		same.Data, same.Recompute = old.Settings.Data, old.Settings.Recompute
		if wrong := differences(old.Settings, same); wrong != "" {
			return nil, fmt.Errorf("the run does not match this table: it was started with %s", wrong)
		}
	}
	return newRun(s, t.set, old)
}
