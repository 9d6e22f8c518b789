//go:build (amd64 || arm64) && !purego

package bench

import (
	"sync"
	"time"

	"hvae/linalg"
)

// Peak measures how many float32 operations a second a number of goroutines reach
// together when they do nothing but multiply-adds, with the widest vectors that linalg
// uses: two operations for each lane. It takes some 50 ms, and returns 0 where linalg
// uses none.
func Peak(goroutines int) float64 {
	lanes := linalg.Lanes()
	if lanes == 0 {
		return 0
	}
	loop, sums := peakLoop(lanes)
	const iterations = 1 << 20
	best := 0.0
	for range 5 {
		start := time.Now()
		var wg sync.WaitGroup
		for range goroutines {
			wg.Go(func() { loop(iterations) })
		}
		wg.Wait()
		rate := 2 * float64(goroutines*lanes*sums*iterations) / time.Since(start).Seconds()
		best = max(best, rate)
	}
	return best
}
