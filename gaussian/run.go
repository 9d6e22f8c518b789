package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"hvae/bench/progress"
	"hvae/gaussian/model"
	"hvae/linalg"
)

// run executes all runs concurrently on all cores. It prints a row as soon as the runs of this
// row and of all earlier rows are complete. Except for the seconds, the output does not depend on
// the number of cores: the outcome of a run depends only on its key, and averages are computed in
// the order of the datasets.
func run(ctx context.Context, o options, stdout, stderr io.Writer) error {
	if err := checkFolder(o); err != nil {
		return err
	}
	var runs []model.Run
	total := 0.0
	for _, d := range o.dims {
		for _, m := range o.methods {
			for k := range o.datasets {
				runs = append(runs, model.Run{Dims: d, Method: m, Dataset: k})
			}
			total += model.Cost(m, d) * float64(o.datasets*o.config.Iterations)
		}
	}

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next, finished, iterations, cost atomic.Int64
	line := progress.New(stderr, func(elapsed time.Duration) string {
		return fmt.Sprintf("%d of %d runs  %.0f iterations/s", finished.Load(), len(runs), float64(iterations.Load())/elapsed.Seconds())
	})
	rep := newReport(o, stdout)
	var mu sync.Mutex // guards rep
	execute := func(i int) error {
		start := time.Now()
		outcome, err := o.config.Train(ctx, runs[i], func(n int) {
			iterations.Add(int64(n))
			done := cost.Add(int64(model.Cost(runs[i].Method, runs[i].Dims)) * int64(n))
			line.Set(float64(done) / total)
		})
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		finished.Add(1)
		line.Clear()
		return rep.add(i, &result{outcome, time.Since(start).Seconds()})
	}
	linalg.For(min(runtime.GOMAXPROCS(0), len(runs)), 1, func(int, int) {
		for i := int(next.Add(1)) - 1; i < len(runs) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
			if err := execute(i); err != nil {
				cancel(err)
			}
		}
	})
	line.Clear()
	switch err := context.Cause(ctx); {
	case errors.Is(err, context.Canceled): // an interrupt
		return fmt.Errorf("%w: %d of %d runs were finished; complete rows have been printed; nothing else was saved", err, finished.Load(), len(runs))
	case err != nil:
		return err
	}
	return writeFigures(o, rep, stderr)
}

// checkFolder returns an error if figures will be written but the folder is not writable, so
// that the program fails before minutes of work.
func checkFolder(o options) error {
	if o.out == "" && len(o.dims) == 1 && !o.twoModes {
		return nil
	}
	folder := filepath.Join(o.out, ".")
	err := os.MkdirAll(folder, 0o755)
	if err == nil {
		var f *os.File
		if f, err = os.CreateTemp(folder, ".figure-*"); err == nil {
			f.Close()
			err = os.Remove(f.Name())
		}
	}
	if err != nil {
		return fmt.Errorf("cannot write figures to the folder %s: %w; give another with -out", folder, err)
	}
	return nil
}
