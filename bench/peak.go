// Package bench is the bench on which the experiments are measured, drawn and told. The
// package itself measures the hot paths; nothing else in the repository makes claims
// about speed. Run it with
//
//	go test -run '^$' -bench . ./bench
//
// Its folders know nothing of the paper. They are what both experiments need around it:
// command is the outside of a program (commands, flags, signals, exit statuses), progress
// tells how far a run is, plot draws figures, atomicfile writes files that are never seen
// half-written, and filelock lets one process own a run.
package bench

import (
	"sync"
	"time"

	"hvae/linalg"
)

// Peak measures how many float32 operations a second the given number of goroutines reach
// together when they do nothing but multiply-adds, with the widest vectors that linalg uses.
// It takes about 50 ms, and returns 0 if linalg uses plain Go.
func Peak(goroutines int) float64 {
	const rounds = 1 << 20
	operations := float64(goroutines * rounds * linalg.PeakLoop(1))
	best := 0.0
	for range 5 {
		start := time.Now()
		var wg sync.WaitGroup
		for range goroutines {
			wg.Go(func() { linalg.PeakLoop(rounds) })
		}
		wg.Wait()
		best = max(best, operations/time.Since(start).Seconds())
	}
	return best
}
