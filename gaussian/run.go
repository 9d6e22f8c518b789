package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"hvae/bench/progress"
	"hvae/gaussian/model"
	"hvae/linalg"
)

// runExperiment trains each method on each dataset and prints a table, or reads the rows of the table from
// the file of -redraw. With several dimensions, it also draws the figures.
func runExperiment(ctx context.Context, o options, stdout, stderr io.Writer) (err error) {
	draw := len(o.dims) > 1 || o.redraw != ""
	if draw {
		names := []string{"figure1a.svg", "figure1b.svg", "figure1c.svg"}
		if o.gap {
			names = []string{"gap.svg"}
		}
		if err := o.checkFolder(stderr, names...); err != nil {
			return err
		}
	}
	t := table{options: o, stdout: stdout}
	if o.redraw != "" {
		t.rows, err = readRows[row](o.redraw)
	} else {
		err = t.train(ctx, stderr)
	}
	if err != nil || !draw {
		return err
	}
	if o.gap {
		return o.writeFigures(stderr, map[string][]byte{"gap.svg": gapChart(t.rows).SVG()})
	}
	return o.writeFigures(stderr, figure1(t.rows))
}

// train executes all runs, concurrently on all cores. The number of cores affects only the running times,
// because each run has separate random streams, and the datasets are averaged in a fixed order.
func (t *table) train(ctx context.Context, stderr io.Writer) error {
	total := 0.0
	for _, d := range t.dims {
		for _, m := range t.methods {
			for k := range t.datasets {
				r := model.Run{Dims: d, Method: m, Dataset: k}
				t.runs = append(t.runs, r)
				total += t.config.Work(r)
			}
		}
	}
	t.results = make([]*result, len(t.runs))
	var next, finished, iterations, work atomic.Int64
	line := progress.New(stderr, 0, func(elapsed time.Duration) string {
		return fmt.Sprintf("%d of %d runs  %.0f iterations/s", finished.Load(), len(t.runs), float64(iterations.Load())/elapsed.Seconds())
	})
	defer line.Clear()
	execute := func(ctx context.Context, i int) error {
		start := time.Now()
		outcome, err := t.config.Train(ctx, t.runs[i], func(n int, w float64) {
			iterations.Add(int64(n))
			line.Set(float64(work.Add(int64(w))) / total)
		})
		if err != nil {
			return err
		}
		finished.Add(1)
		line.Clear()
		return t.add(i, &result{outcome, time.Since(start).Seconds()})
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	linalg.For(min(runtime.GOMAXPROCS(0), len(t.runs)), 1, func(int, int) {
		for i := int(next.Add(1)) - 1; i < len(t.runs) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
			if err := execute(ctx, i); err != nil {
				cancel(err) // ends all runs
			}
		}
	})
	err := context.Cause(ctx)
	if errors.Is(err, context.Canceled) { // an interrupt
		return fmt.Errorf("%w: %d of %d runs were finished; the completed rows were printed; no files were written", err, finished.Load(), len(t.runs))
	}
	return err
}

// A table collects the results of all runs and prints each row as soon as this row and all earlier rows
// are complete.
type table struct {
	options
	runs   []model.Run // by dimension, method and dataset
	stdout io.Writer

	mu      sync.Mutex
	results []*result // results[i] is nil until runs[i] is finished
	rows    []row     // printed rows
}

// add adds the result of runs[i] and prints the rows that are now complete.
func (t *table) add(i int, r *result) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.results[i] = r
	for n := len(t.rows) * t.datasets; n < len(t.runs) && !slices.Contains(t.results[n:n+t.datasets], nil); n += t.datasets {
		t.rows = append(t.rows, average(t.runs[n].Method, t.runs[n].Dims, t.results[n:n+t.datasets]))
		if err := t.print(t.stdout, t.rows); err != nil {
			return fmt.Errorf("cannot write results: %w", err)
		}
	}
	return nil
}
