//go:build !purego

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
	lanes, loop := linalg.Lanes(), peakAVX2
	switch lanes {
	case 0:
		return 0
	case 16:
		loop = peakAVX512
	}
	const chains, iterations = 12, 1 << 20
	best := 0.0
	for range 5 {
		start := time.Now()
		var wg sync.WaitGroup
		for range goroutines {
			wg.Go(func() { loop(iterations) })
		}
		wg.Wait()
		rate := 2 * float64(goroutines*lanes*chains*iterations) / time.Since(start).Seconds()
		best = max(best, rate)
	}
	return best
}

// peakAVX512 and peakAVX2 run n rounds of multiply-adds on twelve vectors.

func peakAVX512(n int)

func peakAVX2(n int)
