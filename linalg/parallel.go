package linalg

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Calls of For hand pieces of their loops to helpers, goroutines that stay for the next
// call: a loop that is run again and again allocates nothing.
var (
	pending = make(chan piece)
	busy    atomic.Int32 // helpers that have a piece
	started atomic.Int32 // helpers that there are
	groups  = sync.Pool{New: func() any { return new(sync.WaitGroup) }}
)

// A piece is part of a loop.
type piece struct {
	body   func(lo, hi int)
	lo, hi int
	done   *sync.WaitGroup
}

func help() {
	for p := range pending {
		p.body(p.lo, p.hi)
		p.done.Done()
	}
}

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
	for n := busy.Add(int32(pieces - 1)); started.Load() < n; {
		started.Add(1)
		go help()
	}
	done := groups.Get().(*sync.WaitGroup)
	done.Add(pieces - 1)
	for p := 1; p < pieces; p++ {
		pending <- piece{body, p * n / pieces, (p + 1) * n / pieces, done}
	}
	body(0, n/pieces)
	done.Wait()
	groups.Put(done)
	busy.Add(int32(1 - pieces))
}

// Serial reports whether For would make the loop one piece: a caller that then runs it
// without For spares the allocation of a function value.
func Serial(n, grain int) bool { return pieces(n, grain) <= 1 }

func pieces(n, grain int) int {
	if grain <= 0 || n < 2*grain {
		return 1
	}
	return min(runtime.GOMAXPROCS(0)-int(busy.Load()), n/grain)
}
