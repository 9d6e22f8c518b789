package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
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
	var rows []row
	if o.redraw != "" {
		rows, err = readRows[row](o.redraw)
	} else {
		rows, err = o.train(ctx, stdout, stderr)
	}
	if err != nil || !draw {
		return err
	}
	if o.gap {
		return o.writeFigures(stderr, map[string][]byte{"gap.svg": gapChart(rows).SVG()})
	}
	return o.writeFigures(stderr, figure1(rows))
}

// runs returns all runs by dimension, method and dataset, and their total work.
func (o options) runs() (runs []model.Run, work float64) {
	for _, d := range o.dims {
		for _, m := range o.methods {
			for k := range o.datasets {
				r := model.Run{Dims: d, Method: m, Dataset: k}
				runs, work = append(runs, r), work+o.config.Work(r)
			}
		}
	}
	return runs, work
}

// train executes all runs, concurrently on all cores. It prints each row as soon as this row and all earlier
// rows are complete. The number of cores affects only the running times, because each run has separate
// random streams, and the datasets are averaged in a fixed order.
func (o options) train(ctx context.Context, stdout, stderr io.Writer) (rows []row, err error) {
	runs, total := o.runs()
	results := make([]chan result, len(runs))
	for i := range results {
		results[i] = make(chan result, 1)
	}
	var next, finished, iterations, work atomic.Int64
	line := progress.New(stderr, 0, func(elapsed time.Duration) string {
		return fmt.Sprintf("%d of %d runs  %.0f iterations/s", finished.Load(), len(runs), float64(iterations.Load())/elapsed.Seconds())
	})
	ctx, cancel := context.WithCancelCause(ctx)
	execute := func(i int) {
		start := time.Now()
		outcome, err := o.config.Train(ctx, runs[i], func(n int, w float64) {
			iterations.Add(int64(n))
			line.Set(float64(work.Add(int64(w))) / total)
		})
		if err != nil {
			cancel(err) // ends all runs
			return
		}
		finished.Add(1)
		results[i] <- result{outcome, time.Since(start).Seconds()}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		linalg.For(min(runtime.GOMAXPROCS(0), len(runs)), 1, func(int, int) {
			for i := int(next.Add(1)) - 1; i < len(runs) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				execute(i)
			}
		})
	}()
	defer func() { cancel(nil); <-ended; line.Clear() }()
	for n := 0; n < len(runs); n += o.datasets {
		var all []result
		for _, c := range results[n : n+o.datasets] {
			select {
			case r := <-c:
				all = append(all, r)
			case <-ctx.Done():
				if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
					return nil, err
				}
				return nil, fmt.Errorf("%w: %d of %d runs were finished; the completed rows were printed; no files were written", context.Cause(ctx), finished.Load(), len(runs))
			}
		}
		rows = append(rows, average(runs[n], all))
		line.Clear()
		if err := o.print(stdout, rows); err != nil {
			return nil, fmt.Errorf("cannot write results: %w", err)
		}
	}
	return rows, nil
}
