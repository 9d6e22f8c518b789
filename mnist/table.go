package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// A table holds the data of the table command, which trains and evaluates the models of Table 1. Runs with the same
// seed use the same random numbers, so the difference between their NLLs has a smaller standard error than each NLL.
type table struct {
	protocol
	out    string   // folder of the table, which contains a folder for each run
	rows   []string // nil for the published rows
	seeds  []uint64
	folder string // folder of the images
	number int    // number of the task to run; -1 for all tasks

	listOnly, asJSON bool
	stdout, stderr   io.Writer

	set   *data.Set
	tasks []task
	root  *os.Root // the open folder out; nil if listOnly is true and the folder does not exist
}

// A protocol holds the settings that are the same for all results of a table. They are stored in table.json.
type protocol struct {
	Data     string `json:"data"`       // name of the dataset, set by the method open
	Epochs   int    `json:"max_epochs"` // maximum number of epochs
	Patience int    `json:"patience"`   // training ends after this number of epochs without a better validation ELBO
	Train    int    `json:"train"`      // number of training images; 0 for all
	Images   int    `json:"images"`     // number of test images; the method open replaces 0 by all
	Samples  int    `json:"samples"`    // number of importance samples for each image
	Runs     int    `json:"runs"`       // number of evaluations of each run
}

// makeTable runs the table command.
func makeTable(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	t := &table{seeds: defaultSeeds, stdout: stdout, stderr: stderr}
	if err := t.flags().Parse(args); err != nil {
		return err
	}
	if t.out == "" {
		return command.UsageError("-out is missing: specify a folder for the runs")
	}
	if t.set, err = loadTestImages(data.Load, t.folder, model.Checkpoint{}, t.Images, "limit", stderr); err != nil {
		return err
	}
	if err := t.open(); err != nil {
		return err
	}
	if t.listOnly {
		t.list()
		return nil
	}
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
	command.List(f, &t.seeds, "seeds", "`seeds` of each row, separated by commas (default the paper's: 85547,12345,98765)", func(s string) (uint64, error) {
		return strconv.ParseUint(s, 10, 64)
	})
	f.Range(&t.Epochs, "epochs", 2000, 1, 1_000_000, "maximum `number` of epochs")
	f.Range(&t.Patience, "patience", 100, 1, 1_000_000, "stop after this `number` of epochs without a better validation ELBO")
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

// open plans the tasks, opens the folder of the table and checks that the stored protocol, if any, equals t.protocol.
func (t *table) open() (err error) {
	t.tasks, t.Data, t.Images = plan(t.rows, t.seeds), t.set.Name, cmp.Or(t.Images, t.set.Test.Len())
	if t.number < -1 || t.number >= len(t.tasks) {
		return command.UsageError("invalid value %d for flag -task: it must be from 0 to %d", t.number, len(t.tasks)-1)
	}
	open := createFolder
	if t.listOnly {
		open = os.OpenRoot
	}
	if t.root, err = open(t.out); err != nil {
		return unlessMissing(err)
	}
	b, err := atomicfile.ReadIn(t.root, tableFile)
	if err != nil {
		return unlessMissing(err)
	}
	var stored protocol
	if json.Unmarshal(b, &stored) != nil {
		return fmt.Errorf("%s is damaged: move it away, and the program writes it again from the results of the runs", filepath.Join(t.out, tableFile))
	}
	if wrong := differences(stored, t.protocol); wrong != "" {
		return fmt.Errorf("the table in %s was made with %s: use the same settings, or another folder with -out", t.out, wrong)
	}
	return nil
}

// print prints v as a line of JSON or text. It ignores write errors, because the table's files contain all results.
func (t *table) print(v fmt.Stringer) {
	if t.asJSON {
		json.NewEncoder(t.stdout).Encode(v)
	} else {
		fmt.Fprintln(t.stdout, v)
	}
}

// list prints a line for each run. If t.asJSON is false, it also prints how many runs are done, running and open.
func (t *table) list() {
	count := map[string]int{}
	for i := range t.tasks {
		s, err := t.read(i)
		if err != nil {
			s.Error = err.Error()
		}
		count[s.State]++
		t.print(s)
	}
	if !t.asJSON {
		const format = "%d runs: %d done, %d running, %d open\n"
		fmt.Fprintf(t.stdout, format, len(t.tasks), count["done"], count["running"], count["open"])
	}
}

// run does all tasks, or only the task t.number if it is not negative, and prints their results. With all tasks, it
// skips runs that another process is training, and prints the table at the end.
func (t *table) run(ctx context.Context) error {
	if err := t.write(); err != nil { // from now on, a command with another protocol is refused
		return err
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
			t.print(r)
		}
	}
	if t.number < 0 {
		t.printRows(t.report())
	}
	if failed != nil {
		return fmt.Errorf("%d of %d runs failed: %s", len(failed), len(t.tasks), strings.Join(failed, ", "))
	}
	return nil
}

// do returns the result of a task. Unless its run is finished, it trains and evaluates the model.
func (t *table) do(ctx context.Context, number int) (r result, err error) {
	k := t.tasks[number]
	if err := t.root.MkdirAll(k.Run, 0o755); err != nil {
		return r, err
	}
	f, err := lockFolder(t.root.OpenRoot(k.Run))
	if err != nil {
		return r, err
	}
	defer f.close()
	if s, err := t.read(number); err != nil || s.State == "done" {
		return s.result, err
	}
	training, err := t.start(k, f)
	if err != nil {
		return r, err
	}
	fmt.Fprintf(t.stderr, "training %s, %d of %d\n", k.Run, number+1, len(t.tasks))
	if err := training.train(ctx, f, io.Discard, t.stderr, "start the same command again to continue"); err != nil {
		return r, err
	}
	fmt.Fprintf(t.stderr, "evaluating %s, %d of %d\n", k.Run, number+1, len(t.tasks))
	c := model.Checkpoint{Config: training.Settings.Config, Params: training.Best}
	images, o := eval.Images{Set: t.set, N: t.Images, Seed: k.Seed}, eval.Options{Samples: t.Samples, Runs: t.Runs}
	e, err := eval.Evaluate(ctx, c, images, o, t.stderr)
	if err != nil {
		return r, err
	}
	r = result{task: k, Epochs: len(training.Metrics), Seconds: e.Seconds, metrics: training.Metrics}
	r.ELBO, r.ELBOSD, r.ELBOs = e.ELBO, e.ELBOSD, e.ELBOs
	r.NLL, r.NLLSD, r.NLLs = e.NLL, e.NLLSD, e.NLLs
	for _, m := range r.metrics {
		r.Seconds += m.Seconds
	}
	x := record{protocol: t.protocol, result: r}
	x.SHA256 = x.digest()
	if err := f.write(evaluationFile, encode(x)); err != nil {
		return r, err
	}
	return r, t.write()
}

// start returns the training run of a task, which continues from the state in its folder if there is one. It returns an
// error if this state has settings other than the table's.
func (t *table) start(k task, f *folder) (*trainingRun, error) {
	s := model.Defaults()
	s.Config, _ = parseRow(k.Row)
	s.Seed, s.Epochs, s.Patience, s.Train = k.Seed, t.Epochs, t.Patience, t.Train
	old, err := readState(f.Root)
	if err := unlessMissing(err); err != nil {
		return nil, err
	}
	if old != nil {
		s.Data, s.Recompute = old.Settings.Data, old.Settings.Recompute // do not affect the results
		if wrong := differences(old.Settings, s); wrong != "" || old.RateChanged {
			return nil, fmt.Errorf("the run does not match this table: it was started with %s", cmp.Or(wrong, "another lr"))
		}
	}
	return newRun(s, *t.set, old)
}

// A record holds the contents of evaluationFile.
type record struct {
	protocol
	result
	SHA256 string `json:"sha256"` // digest of the other fields and of the metrics
}

// digest returns the SHA-256 of the file with an empty digest, followed by the metrics.
func (x record) digest() string {
	x.SHA256 = ""
	return fmt.Sprintf("%x", sha256.Sum256(append(encode(x), encodeMetrics(x.metrics)...)))
}

// encode returns v as JSON. All numbers in v must be finite.
func encode(v any) []byte {
	b, _ := json.MarshalIndent(v, "", " ")
	return append(b, '\n')
}

// read returns the status of the task with the given number. It returns an error if a file is damaged or does not
// belong to the table. It does not need the weights of a finished run. Only -list tests whether a run is locked.
func (t *table) read(number int) (s status, err error) {
	k := t.tasks[number]
	s = status{Task: number, State: "open", result: result{task: k}}
	if t.root == nil {
		return s, nil
	}
	root, err := t.root.OpenRoot(k.Run)
	if err != nil {
		return s, unlessMissing(err)
	}
	defer root.Close()
	if t.listOnly && filelock.Held(root, lockFile) {
		s.State = "running"
	}
	if s.metrics, err = readMetrics(root); err != nil {
		return s, err
	}
	s.Epochs = len(s.metrics)
	b, err := atomicfile.ReadIn(root, evaluationFile)
	if err != nil {
		return s, unlessMissing(err)
	}
	x := record{result: result{metrics: s.metrics}}
	err = json.Unmarshal(b, &x)
	if err != nil || x.task != k || x.protocol != t.protocol || x.SHA256 != x.digest() {
		return s, fmt.Errorf("%s is damaged, or does not match this table and the metrics of the run; move the file away to evaluate the run again from its %s",
			filepath.Join(root.Name(), evaluationFile), stateFile)
	}
	s.State, s.result = "done", x.result
	return s, nil
}

// write writes the files of the table. If two processes write at the same time, the table may lack the latest result
// until the next command writes it.
func (t *table) write() error {
	for name, content := range t.report().files() {
		if err := atomicfile.WriteIn(t.root, "", name, content); err != nil {
			return err
		}
	}
	return nil
}
