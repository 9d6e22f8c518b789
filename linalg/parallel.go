package linalg

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// busy is the number of goroutines that calls to For have started and that still run, minus the number of callers that
// only wait for such goroutines.
var busy atomic.Int32

// For divides the indices 0 to n-1 into chunks and calls body(lo, hi) for each chunk, which consists of the indices lo
// to hi-1. The calls run on up to GOMAXPROCS goroutines. For returns when all calls have returned.
//
// The argument grain is the smallest number of indices that justifies a goroutine. If n < 2·grain, if grain is 0, or if
// other calls to For already occupy all cores, For runs a single chunk on the calling goroutine, so nested loops are
// cheap. Otherwise, each chunk has at least grain indices. The bounds lo and hi depend on the number of cores and on
// the other calls in progress. For reproducible results, the computation for an index must not depend on lo or hi.
//
// If body panics, For waits for all chunks. It then panics with the same value or, if body panicked on a goroutine
// other than the caller's, with an error that contains the value and the stack trace of that goroutine.
func For(n, grain int, body func(lo, hi int)) {
	chunks := chunks(n, grain)
	if chunks <= 1 {
		if n > 0 {
			body(0, n)
		}
		return
	}
	busy.Add(int32(chunks - 1))
	var helpers sync.WaitGroup
	var first atomic.Pointer[chunkPanic] // the first panic on another goroutine, or nil
	for c := 1; c < chunks; c++ {
		helpers.Go(func() {
			defer busy.Add(-1) // so that loops inside of other chunks can use this core
			returned := false
			defer func() {
				if !returned {
					first.CompareAndSwap(nil, newChunkPanic(recover()))
				}
			}()
			body(c*n/chunks, (c+1)*n/chunks)
			returned = true
		})
	}
	defer func() { // runs even if body panics
		busy.Add(-1)
		helpers.Wait()
		busy.Add(1)
		if p := first.Load(); p != nil {
			panic(p)
		}
	}()
	body(0, n/chunks)
}

// chunks returns the number of chunks into which For would currently divide a loop. If the result is less than 1, For
// uses one chunk.
func chunks(n, grain int) int {
	if grain <= 0 {
		return 1
	}
	return min(runtime.GOMAXPROCS(0)-int(busy.Load()), n/grain)
}

// A chunkPanic describes a panic in a loop body on a goroutine other than the caller's.
type chunkPanic struct {
	value any
	stack []byte // stack trace of the goroutine that panicked
}

// newChunkPanic returns a chunkPanic for a value that recover returned on the current goroutine. The value is nil if
// the body called runtime.Goexit, and a *chunkPanic if the panic comes from a nested loop.
func newChunkPanic(value any) *chunkPanic {
	if p, ok := value.(*chunkPanic); ok {
		return p
	}
	if value == nil {
		value = "linalg: the body of a parallel loop called runtime.Goexit"
	}
	return &chunkPanic{value, debug.Stack()}
}

// Error returns the value of the panic and the stack trace as text.
func (p *chunkPanic) Error() string {
	return fmt.Sprintf("%v\n\nin a parallel loop:\n%s", p.value, p.stack)
}
