package table

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"hvae/bench/filelock"
	"hvae/bench/progress"
	"hvae/mnist/eval"
	"hvae/mnist/model"
	"hvae/mnist/run"
)

// advice ends the errors of interrupted runs.
const advice = "start the same command again to continue"

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

// evaluate evaluates the best weights of a trained run, and saves each evaluation.
func (t *Table) evaluate(ctx context.Context, k task, r *run.Run, folder *run.Folder) error {
	s, err := t.status(k)
	if err != nil {
		return err
	}
	e := s.evaluation
	var done atomic.Int64
	done.Store(int64(len(e.NLLs) * e.Images))
	total := t.Runs * e.Images
	line := progress.New(t.Stderr, func(time.Duration) string {
		return fmt.Sprintf("evaluating %v: %d of %d images", k, done.Load(), total)
	})
	defer line.Clear()
	line.Begin(float64(done.Load()) / float64(total))
	for len(e.NLLs) < t.Runs {
		began := time.Now()
		indices := eval.First(e.Images)
		x, noise := eval.Binarise(t.set.Test, indices, e.Seed, len(e.NLLs)), eval.Noise(indices, e.Seed, len(e.NLLs))
		estimates, err := model.Evaluate(ctx, k.config, r.Best(), x, e.Samples, noise, func() {
			line.Set(float64(done.Add(1)) / float64(total))
		})
		if err != nil {
			line.Clear()
			return fmt.Errorf("%w: %d of %d evaluations of %v are saved in %s, %s", context.Cause(ctx), len(e.NLLs), t.Runs, k, t.folder(k), advice)
		}
		elbo, nll := eval.Means(estimates)
		if v := elbo + nll; v-v != 0 {
			return eval.NotFinite(t.path(k, run.ModelFile), elbo, nll)
		}
		e.ELBOs, e.NLLs = append(e.ELBOs, elbo), append(e.NLLs, nll)
		e.Seconds += time.Since(began).Seconds()
		b, err := json.MarshalIndent(e, "", " ")
		if err == nil {
			err = folder.Write(run.EvaluationFile, append(b, '\n'))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
