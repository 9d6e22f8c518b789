package linalg

import (
	"runtime"
	"sync"
)

// For calls body(lo, hi) for contiguous pieces that together cover [0, n), on up to
// GOMAXPROCS goroutines, and returns when all are done. Each of several pieces has at
// least grain elements; a single piece (always, if grain is 0) runs on the calling
// goroutine. The pieces depend on GOMAXPROCS: for results that do not, body must
// compute each index independently of where its piece begins and ends.
func For(n, grain int, body func(lo, hi int)) {
	pieces := 1
	if grain > 0 {
		pieces = min(runtime.GOMAXPROCS(0), n/grain)
	}
	if pieces <= 1 {
		if n > 0 {
			body(0, n)
		}
		return
	}
	var wg sync.WaitGroup
	for p := 1; p < pieces; p++ {
		wg.Go(func() { body(p*n/pieces, (p+1)*n/pieces) })
	}
	body(0, n/pieces)
	wg.Wait()
}
