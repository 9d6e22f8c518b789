package linalg

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// helpers counts the goroutines that calls of For have started and not yet finished.
var helpers atomic.Int32

// For calls body(lo, hi) for contiguous pieces that together cover [0, n), on up to
// GOMAXPROCS goroutines, and returns when all are done. Each of several pieces has at
// least grain elements; a single piece (always, if grain is 0) runs on the calling
// goroutine, and so does everything while other calls keep all cores busy: a loop
// inside a parallel loop costs nothing. The pieces depend on all that: for results that
// do not, body must compute each index independently of where its piece begins and ends.
func For(n, grain int, body func(lo, hi int)) {
	pieces := pieces(n, grain)
	if pieces <= 1 {
		if n > 0 {
			body(0, n)
		}
		return
	}
	helpers.Add(int32(pieces - 1))
	var wg sync.WaitGroup
	for p := 1; p < pieces; p++ {
		wg.Go(func() { body(p*n/pieces, (p+1)*n/pieces) })
	}
	body(0, n/pieces)
	wg.Wait()
	helpers.Add(int32(1 - pieces))
}

// Serial reports whether For would make the loop one piece: a caller that then runs it
// without For spares the allocation of a function value.
func Serial(n, grain int) bool { return pieces(n, grain) <= 1 }

func pieces(n, grain int) int {
	if grain <= 0 || n < 2*grain {
		return 1
	}
	return min(runtime.GOMAXPROCS(0)-int(helpers.Load()), n/grain)
}
