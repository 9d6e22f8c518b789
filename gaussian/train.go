package main

import (
	"context"
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

// train trains each method on each dataset, concurrently on all cores. For each dimension and method, it prints the
// average outcome as soon as the runs to be averaged and all earlier runs are finished, and returns these averages. The
// number of cores affects only the running times, because each run has its own random streams, and the outcomes are
// averaged in a fixed order.
func (o options) train(ctx context.Context, stdout, stderr io.Writer) (rows []model.Outcome, err error) {
	var runs []model.Run
	total := 0.0
	for _, d := range o.dims {
		for _, m := range o.methods {
			for k := range o.datasets {
				runs = append(runs, model.Run{Method: m, Dims: d, Dataset: k})
				total += float64(o.config.Iterations * runs[len(runs)-1].Cost())
			}
		}
	}
	var next, finished, iterations, work atomic.Int64
	line := progress.New(stderr, 0, func(elapsed time.Duration) string {
		return fmt.Sprintf("%d of %d runs  %.0f iterations/s", finished.Load(), len(runs), float64(iterations.Load())/elapsed.Seconds())
	})
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	outcomes, unfinished := make([]model.Outcome, len(runs)), slices.Repeat([]int{o.datasets}, len(runs)/o.datasets)
	var mu sync.Mutex // protects outcomes, unfinished and rows
	linalg.For(min(runtime.GOMAXPROCS(0), len(runs)), 1, func(int, int) {
		for i := int(next.Add(1)) - 1; i < len(runs) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
			outcome, err := o.config.Train(ctx, runs[i], func(n int) {
				iterations.Add(int64(n))
				line.Set(float64(work.Add(int64(n*runs[i].Cost()))) / total)
			})
			if err != nil {
				cancel(err) // ends all runs
				return
			}
			mu.Lock()
			finished.Add(1)
			outcomes[i] = outcome
			unfinished[i/o.datasets]--
			for n := len(rows); n < len(unfinished) && unfinished[n] == 0 && ctx.Err() == nil; n++ {
				rows = append(rows, model.Average(outcomes[n*o.datasets:][:o.datasets]))
				line.Clear()
				if err := o.print(stdout, rows[n], o.table(rows)); err != nil {
					cancel(err)
				}
			}
			mu.Unlock()
		}
	})
	line.Clear()
	return rows, context.Cause(ctx)
}
