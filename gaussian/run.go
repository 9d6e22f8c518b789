package main

import (
	"context"
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
)

// A finished run, or what ended it.
type result struct {
	job     int
	outcome model.Outcome
	seconds float64
	err     error
}

// run does every run that o asks for, side by side on all cores, and prints a row as
// soon as it and those before it are complete. Each run depends on its key alone, and
// averages are taken in the order of the datasets, so what it prints does not depend
// on the number of cores.
func run(ctx context.Context, o options, stdout, stderr io.Writer) error {
	if err := checkFolder(o); err != nil {
		return err
	}
	var jobs []model.Run
	total := 0.0
	for _, d := range o.dims {
		for _, m := range o.methods {
			for k := range o.datasets {
				jobs = append(jobs, model.Run{Dims: d, Method: m, Dataset: k})
			}
			total += model.Cost(m, d) * float64(o.datasets*o.config.Iterations)
		}
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var done counts
	line := progress.New(stderr, func(elapsed time.Duration) string {
		return fmt.Sprintf("%d of %d runs  %.0f iterations/s", done.runs.Load(), len(jobs), float64(done.iterations.Load())/elapsed.Seconds())
	})
	results := make(chan result)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(jobs)) {
		workers.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(jobs) || ctx.Err() != nil {
					return
				}
				cost := model.Cost(jobs[i].Method, jobs[i].Dims)
				start := time.Now()
				outcome, err := o.config.Train(ctx, jobs[i], func(n int) {
					done.iterations.Add(int64(n))
					line.Set(float64(done.cost.Add(int64(cost)*int64(n))) / total)
				})
				results <- result{i, outcome, time.Since(start).Seconds(), err}
			}
		})
	}
	go func() { workers.Wait(); close(results) }()

	rep := newReport(o, stdout)
	var failed error
	for r := range results {
		switch {
		case r.err == nil:
			done.runs.Add(1)
			line.Clear()
			if err := rep.add(r); err != nil && failed == nil {
				failed = err
				cancel()
			}
		case failed == nil && ctx.Err() == nil:
			failed = r.err
			cancel()
		}
	}
	line.Clear()
	switch {
	case failed != nil:
		return failed
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %d of %d runs were finished; complete rows have been printed, nothing else is kept", context.Cause(ctx), done.runs.Load(), len(jobs))
	}
	return writeFigures(o, rep, stderr)
}

// counts is what has been done so far.
type counts struct{ runs, iterations, cost atomic.Int64 }

// checkFolder makes sure, before minutes of work, that figures can be written.
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
