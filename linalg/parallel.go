package linalg

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// For sends chunks of its loop to helper goroutines through the channel pending. Calls to For reuse the
// helpers and the loop structs, so most calls allocate no memory.
var (
	pending = make(chan chunk)
	busy    atomic.Int32 // number of chunks sent to helpers by unfinished calls to For
	started atomic.Int32 // number of helpers started
	loops   = sync.Pool{New: func() any { return new(loop) }}
)

// A loop is the state of a running call to For.
type loop struct {
	body    func(lo, hi int)
	helpers sync.WaitGroup        // counts the unfinished chunks of helpers
	panic   atomic.Pointer[Panic] // the first panic in a helper, or nil
}

// A chunk is a part of a loop: the indices from lo to hi-1.
type chunk struct {
	*loop
	lo, hi int
}

// A Panic describes a panic of a loop body on a goroutine other than the caller's.
type Panic struct {
	Value any    // value of the body's panic, or an error if the body called runtime.Goexit
	Stack []byte // stack trace of the goroutine that panicked, from debug.Stack
}

// Error returns the value and the stack trace.
func (p *Panic) Error() string {
	return fmt.Sprintf("%v\n\nin a parallel loop:\n%s", p.Value, p.Stack)
}

func help() {
	for c := range pending {
		c.run()
	}
}

// run calls the loop body for the chunk. If the body panics, run recovers the panic and stores it in
// the loop, unless another chunk has panicked before.
func (c chunk) run() {
	returned := false
	defer func() {
		if !returned {
			v := recover()
			if v == nil { // runtime.Goexit ends this goroutine; start another helper
				v = errors.New("linalg: the body of a parallel loop called runtime.Goexit")
				go help()
			}
			p, ok := v.(*Panic)
			if !ok {
				p = &Panic{v, debug.Stack()}
			}
			c.panic.CompareAndSwap(nil, p)
		}
		c.helpers.Done()
	}()
	c.body(c.lo, c.hi)
	returned = true
}

// For divides the indices 0 to n-1 into chunks and calls body(lo, hi) for each chunk, which consists of
// the indices lo to hi-1. The calls run on up to GOMAXPROCS goroutines. For returns when all calls have
// returned.
//
// If n < 2·grain, if grain is 0, or if other calls to For use all cores, there is a single chunk, which
// runs on the calling goroutine. A nested loop is therefore cheap. Otherwise, each chunk has at least
// grain indices. The chunk bounds depend on the number of cores and their load. For reproducible
// results, the computation for an index must not depend on the chunk bounds.
//
// If body panics, For waits for all chunks. It then panics with the same value, or with a *Panic if
// body panicked on a goroutine other than the caller's.
func For(n, grain int, body func(lo, hi int)) {
	chunks := chunks(n, grain)
	if chunks <= 1 {
		if n > 0 {
			body(0, n)
		}
		return
	}
	for n := busy.Add(int32(chunks - 1)); started.Load() < n; {
		started.Add(1)
		go help()
	}
	l := loops.Get().(*loop)
	l.body = body
	l.helpers.Add(chunks - 1)
	for c := 1; c < chunks; c++ {
		pending <- chunk{l, c * n / chunks, (c + 1) * n / chunks}
	}
	defer func() { // runs even if body panics
		l.helpers.Wait()
		busy.Add(int32(1 - chunks))
		p := l.panic.Swap(nil)
		l.body = nil
		loops.Put(l)
		if p != nil {
			panic(p)
		}
	}()
	body(0, n/chunks)
}

// Serial reports whether For(n, grain, body) would run the loop as a single chunk. Callers can then run
// the loop without For, to avoid allocating a closure.
func Serial(n, grain int) bool { return chunks(n, grain) <= 1 }

// chunks returns the number of chunks into which For divides a loop. If it is below 1, For uses one chunk.
func chunks(n, grain int) int {
	if grain <= 0 || n < 2*grain {
		return 1
	}
	return min(runtime.GOMAXPROCS(0)-int(busy.Load()), n/grain)
}
