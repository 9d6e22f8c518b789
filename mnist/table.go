package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"hvae/bench/command"
	"hvae/bench/filelock"
	"hvae/mnist/data"
	"hvae/mnist/eval"
	"hvae/mnist/model"
)

// A task is a run of the table: a row and a seed.
type task struct {
	row    string
	config model.Config
	seed   uint64
}

func (t task) String() string { return fmt.Sprintf("%s-%d", t.row, t.seed) }

// A table is the command's settings and what they are about. The runs of one seed share
// all that is random: the keys of the streams for the split, the order of the images,
// their binarisation and the noise, in training and in evaluation, have the seed in them
// but nothing of the model. So differences between rows have smaller errors than the rows.
type table struct {
	out, data, dataset string
	rows               []string
	seeds              []uint64
	epochs, patience   int
	train              int
	limit              int
	samples, runs      int
	list, asJSON       bool
	extend             bool
	task               int // -1 for all

	tasks          []task
	noted          bool // that table.json stays
	set            data.Set
	stdout, stderr io.Writer
}

// list defines a flag for values separated by commas.
func list[T any](f *command.Flags, p *[]T, name, usage string, parse func(string) (T, error)) {
	f.Func(name, usage, func(s string) error {
		*p = nil
		for item := range strings.SplitSeq(s, ",") {
			v, err := parse(strings.TrimSpace(item))
			if err != nil {
				return err
			}
			*p = append(*p, v)
		}
		return nil
	})
}

// makeTable is the command table.
func makeTable(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	t := &table{task: -1, stdout: stdout, stderr: stderr}
	f := command.NewFlags()
	f.String(&t.out, "out", "", "`folder` for the runs, a folder each, and the table (required)")
	list(f, &t.rows, "rows", "`rows` of the table, separated by commas, such as vae,hvae-k1-none,hvae-k5-free-varied\n(default all 27 of the paper)", func(s string) (string, error) {
		_, err := parseRow(s)
		return s, err
	})
	list(f, &t.seeds, "seeds", "`seeds` of each row, separated by commas (default the paper's: 85547 and 12345, for some rows 98765, too)", func(s string) (uint64, error) {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return 0, errors.New("a seed is a whole number")
		}
		return n, nil
	})
	f.Count(&t.epochs, "epochs", 2000, 1, "`number` of epochs at most")
	f.Count(&t.patience, "patience", 100, 1, "stop after this `number` of epochs without a better validation ELBO")
	f.Count(&t.train, "train", 0, 0, "train on this `number` of images only; 0 for all 50,000")
	f.Count(&t.limit, "limit", 0, 0, "evaluate on the first `number` of test images only; 0 for all 10,000")
	f.Count(&t.samples, "samples", 1000, 1, "`number` of importance samples for each image")
	f.Count(&t.runs, "runs", 3, 1, "`number` of evaluations, for their standard deviation")
	source(f, &t.data, &t.dataset)
	f.Bool(&t.extend, "extend", "train finished runs further, as a larger -epochs or -patience asks for, which discards\ntheir evaluations")
	f.Bool(&t.list, "list", "only list the runs: done, running, stopped, missing or refused")
	f.Func("task", "do only the run of this `number` in the list, from 0, and write only its folder", func(s string) (err error) {
		if t.task, err = strconv.Atoi(s); err != nil || t.task < 0 {
			return fmt.Errorf("it must be a number of -list")
		}
		return nil
	})
	f.Bool(&t.asJSON, "json", "print JSON objects, one a line: runs as they are finished, then rows")
	if err := f.Parse(args); err != nil {
		return err
	}
	if t.out == "" {
		return command.UsageError("-out is missing: name a folder for the runs")
	}
	if t.tasks = t.plan(); t.task >= len(t.tasks) {
		return command.UsageError("invalid value %d for flag -task: there are %d runs, from 0", t.task, len(t.tasks))
	}
	var err error
	if t.set, err = load(ctx, t.data, t.dataset, stderr); err != nil {
		return err
	}
	if n := t.set.Test.Len(); t.limit > n {
		return command.UsageError("invalid value %d for flag -limit: there are %d test images", t.limit, n)
	} else if t.limit == 0 {
		t.limit = n
	}
	if t.list {
		return t.printList()
	}
	if t.task >= 0 {
		return t.one(ctx)
	}
	return t.all(ctx)
}

// plan lists the tasks, a seed after another, so that rows can be compared early on. By
// default they are the published runs.
func (t *table) plan() (tasks []task) {
	rows := t.rows
	if rows == nil {
		for _, r := range published() {
			if !slices.Contains(rows, r.Row) {
				rows = append(rows, r.Row)
			}
		}
	}
	seeds := t.seeds
	if seeds == nil {
		seeds = []uint64{85547, 12345, 98765}
	}
	for _, seed := range seeds {
		for _, row := range rows {
			isPublished := slices.ContainsFunc(published(), func(r result) bool { return r.Row == row && r.Seed == seed })
			isRow := slices.ContainsFunc(published(), func(r result) bool { return r.Row == row })
			c, _ := parseRow(row) // checked by the flag
			if k := (task{row, c, seed}); (t.seeds != nil || isPublished || !isRow && seed != 98765) && !slices.Contains(tasks, k) {
				tasks = append(tasks, k)
			}
		}
	}
	return tasks
}

// settings returns what a task is to be trained with: what train would be told.
func (t *table) settings(k task) (settings, error) {
	var s settings
	f := s.flags()
	for name, value := range map[string]string{
		"model": k.config.Kind, "K": strconv.Itoa(k.config.K), "tempering": k.config.Tempering, "vary-eps": strconv.FormatBool(k.config.VaryEps),
		"latent": strconv.Itoa(k.config.Latent), "seed": strconv.FormatUint(k.seed, 10), "out": filepath.Join(t.out, k.String()),
		"epochs": strconv.Itoa(t.epochs), "patience": strconv.Itoa(t.patience), "train": strconv.Itoa(t.train), "data": t.data, "dataset": t.dataset,
	} {
		if value == "" {
			continue
		}
		if err := f.Set(name, value); err != nil {
			return s, err
		}
	}
	return s, s.keep(f)
}

// all does every task that is not done and that no other process is at, and prints the
// table after each.
func (t *table) all(ctx context.Context) error {
	var failed, elsewhere []string
	printed := false
	for i, k := range t.tasks {
		did, err := t.do(ctx, k, io.Discard, func(what string) {
			fmt.Fprintf(t.stderr, "%s %v, %d of %d\n", what, k, i+1, len(t.tasks))
		})
		switch {
		case errors.Is(err, filelock.ErrInUse):
			elsewhere = append(elsewhere, k.String())
		case err != nil && ctx.Err() != nil, errors.Is(err, errMoved):
			return err
		case err != nil:
			fmt.Fprintf(t.stderr, "%v: %v\n", k, err)
			failed = append(failed, k.String())
		case did:
			if err := t.tell(k); err != nil {
				return err
			}
			printed = true
		}
	}
	if elsewhere != nil {
		fmt.Fprintf(t.stderr, "at work in other processes: %s\n", strings.Join(elsewhere, ", "))
	}
	if !printed || t.asJSON {
		if err := t.tell(task{}); err != nil {
			return err
		}
	}
	if failed != nil {
		return fmt.Errorf("%d of %d runs failed: %s", len(failed), len(t.tasks), strings.Join(failed, ", "))
	}
	return nil
}

// one does a single task.
func (t *table) one(ctx context.Context) error {
	k := t.tasks[t.task]
	log := t.stdout
	if t.asJSON {
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
	if t.asJSON {
		return json.NewEncoder(t.stdout).Encode(r)
	}
	_, err = fmt.Fprintf(t.stdout, "%v  epochs %d  ELBO %s  NLL %s\n", k, r.Epochs, eval.PlusMinus(2, r.ELBO, r.ELBOSD), eval.PlusMinus(2, r.NLL, r.NLLSD))
	return err
}

// do trains and evaluates a task, as far as that has not been done, and says whether there
// was anything to do. It tells log about each epoch, and say what it begins.
func (t *table) do(ctx context.Context, k task, log io.Writer, say func(string)) (did bool, err error) {
	s, err := t.settings(k)
	if err != nil {
		return false, err
	}
	if status, err := t.status(k); err != nil || status.done() {
		return false, err
	}
	lock, err := s.take()
	if err != nil {
		return false, err
	}
	defer lock.Release()
	status, err := t.status(k) // somebody may have been faster
	if err != nil || status.done() {
		return false, err
	}
	var state *model.State
	if status.begun {
		was, err := s.readState(t.stderr)
		if err != nil {
			return false, err
		}
		if err := t.contradiction(k, s, was); err != nil {
			return false, err
		}
		state = &was
	} else if err := s.checkEmpty(); err != nil {
		return false, err
	}
	session, err := newSession(s, t.set, log, t.stderr)
	if err != nil {
		return false, err
	}
	session.again = "start the same command again to go on"
	if err := session.open(lock, state); err != nil {
		return false, err
	}
	if len(session.Rates) > 0 {
		return false, fmt.Errorf("the run in %s is not the table's %v: its learning rate was changed on the way", s.out, k)
	}
	say("training")
	if err := session.loop(ctx); err != nil {
		return true, err
	}
	say("evaluating")
	return true, t.evaluate(ctx, k, session)
}

// identity returns the settings that make a run what it is, of those that a state keeps.
func (t *table) identity(stored map[string]string) map[string]string {
	id := map[string]string{}
	for _, name := range []string{"model", "K", "tempering", "vary-eps", "latent", "batch", "lr", "seed", "train"} {
		id[name] = stored[name]
	}
	if id["train"] == "0" { // stands for all
		training, _ := data.Split(t.set.Train, 0)
		id["train"] = strconv.Itoa(len(training))
	}
	return id
}

// contradiction reports settings of a state that make it another run than the task's.
func (t *table) contradiction(k task, s settings, state model.State) error {
	was, is := t.identity(storedSettings(state)), t.identity(s.stored)
	var wrong []string
	for _, name := range slices.Sorted(maps.Keys(is)) {
		if was[name] != is[name] {
			wrong = append(wrong, fmt.Sprintf("%s = %s, not %s", name, was[name], is[name]))
		}
	}
	if wrong != nil {
		return fmt.Errorf("the run in %s is not the table's %v: it was started with %s", s.out, k, strings.Join(wrong, "; "))
	}
	return nil
}

// A status is what a run's folder says.
type status struct {
	begun      bool // there is a state to go on from
	running    bool // a process is at it
	metrics    []metrics
	best       metrics     // the best epoch's
	trained    bool        // training has ended
	evaluation *evaluating // of the best epoch; nil before it begins
	evaluated  bool        // it has ended
}

// done says that there is nothing left to do. The weights are not asked for: results may
// be kept without.
func (s status) done() bool { return s.trained && s.evaluated }

// status reads a run's folder. It returns an error for a run that has gone further than the
// settings allow, that was evaluated with other settings, or that is finished and would be
// trained further, unless -extend is set.
func (t *table) status(k task) (s status, err error) {
	set, err := t.settings(k)
	if err != nil {
		return s, err
	}
	_, err = os.Stat(set.path(stateFile))
	s.begun = err == nil
	if s.running, err = filelock.Held(set.path(lockFile)); err != nil {
		return s, err
	}
	if s.metrics, err = readMetrics(set.path(metricsFile)); err != nil {
		return s, err
	}
	for _, m := range s.metrics {
		if s.trained {
			return s, fmt.Errorf("%s was trained for %d epochs: with -epochs %d and -patience %d it ends after %d", set.out, len(s.metrics), t.epochs, t.patience, m.Epoch-1)
		}
		if m.Epoch == 1 || m.ValELBO > s.best.ValELBO {
			s.best = m
		}
		s.trained = m.Epoch >= t.epochs || m.Epoch+1-s.best.Epoch > t.patience
	}
	e, err := readEvaluation(set.path(evaluationFile))
	if err != nil || e == nil || e.Epoch != s.best.Epoch || e.ValELBO != s.best.ValELBO {
		return s, err
	}
	if want := t.evaluating(k, set, s.best); !e.continues(want, t.runs) {
		return s, fmt.Errorf("%s was evaluated by %d runs on %d images of %s with %d samples each, seed %d, of %v: the table's would be %d runs on %d of %s with %d, seed %d, of %v",
			set.path(evaluationFile), len(e.NLLs), e.Images, e.Data, e.Samples, e.Seed, e.Settings, t.runs, want.Images, want.Data, want.Samples, want.Seed, want.Settings)
	}
	if !s.trained && !t.extend {
		return s, fmt.Errorf("%s ended after %d epochs and is evaluated; with -epochs %d and -patience %d it would be trained further, and its results be lost: -extend allows this", set.out, len(s.metrics), t.epochs, t.patience)
	}
	s.evaluation, s.evaluated = e, len(e.NLLs) == t.runs
	return s, nil
}

// result returns what a run that is done came to.
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

// results returns those of all runs that are done.
func (t *table) results() (all []result) {
	for _, k := range t.tasks {
		if s, err := t.status(k); err == nil && s.done() { // errors are told when it is a run's turn
			all = append(all, s.result(k))
		}
	}
	return all
}
