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

// train trains each method on each dataset, concurrently on all cores. For each dimension and method, it prints the
// average outcome as soon as the runs to be averaged and all earlier runs are finished. The number of cores affects
// only the running times, because each run has its own random streams, and the outcomes are averaged in a fixed order.
func (o options) train(ctx context.Context, print func(model.Outcome) error, stderr io.Writer) error {
	var runs []model.Run
	var outcomes []chan model.Outcome // one for each run
	total := 0.0
	for _, d := range o.dims {
		for _, m := range o.methods {
			for k := range o.datasets {
				r := model.Run{Method: m, Dims: d, Dataset: k}
				runs, outcomes = append(runs, r), append(outcomes, make(chan model.Outcome, 1))
				total += float64(o.config.Iterations * r.Cost())
			}
		}
	}
	var next, finished, iterations, work atomic.Int64
	line := progress.New(stderr, 0, func(elapsed time.Duration) string {
		return fmt.Sprintf("%d of %d runs  %.0f iterations/s", finished.Load(), len(runs), float64(iterations.Load())/elapsed.Seconds())
	})
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	execute := func(i int) {
		outcome, err := o.config.Train(ctx, runs[i], func(n int) {
			iterations.Add(int64(n))
			line.Set(float64(work.Add(int64(n*runs[i].Cost()))) / total)
		})
		if err != nil {
			cancel(err) // ends all runs
			return
		}
		finished.Add(1)
		outcomes[i] <- outcome
	}
	go func() {
		linalg.For(min(runtime.GOMAXPROCS(0), len(runs)), 1, func(int, int) {
			for i := int(next.Add(1)) - 1; i < len(runs) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				execute(i)
			}
		})
		for _, c := range outcomes {
			close(c)
		}
	}()
	var row []model.Outcome
	for _, c := range outcomes {
		row = append(row, <-c) // after an error, all channels are closed
		if len(row) == o.datasets && ctx.Err() == nil {
			line.Clear()
			if err := print(model.Average(row)); err != nil {
				cancel(err)
			}
			row = nil
		}
	}
	line.Clear()
	if err := context.Cause(ctx); errors.Is(err, context.Canceled) {
		return fmt.Errorf("%w: %d of %d runs were finished; the completed rows were printed; no files were written", err, finished.Load(), len(runs))
	}
	return context.Cause(ctx)
}
