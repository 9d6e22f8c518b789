package linalg

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// Calls of For send chunks of their loops to helper goroutines, which stay alive between calls, so
// that a loop that runs repeatedly allocates nothing.
var (
	pending = make(chan chunk)
	busy    atomic.Int32 // chunks of running loops that were sent to helpers
	started atomic.Int32 // number of helpers started
	loops   = sync.Pool{New: func() any { return new(loop) }}
)

// A loop is the state of a running call of For.
type loop struct {
	body    func(lo, hi int)
	helpers sync.WaitGroup        // counts the chunks that helpers have not finished
	panic   atomic.Pointer[Panic] // the first panic in a helper, or nil
}

// A chunk is the range of indices [lo, hi) of a loop.
type chunk struct {
	*loop
	lo, hi int
}

// A Panic is the value with which For panics on the calling goroutine after the loop body has
// panicked on another goroutine.
type Panic struct {
	Value any    // the value of body's panic, or an error if body called runtime.Goexit
	Stack []byte // the stack of the goroutine that panicked, as debug.Stack formats it
}

// Error returns the value and the stack.
func (p *Panic) Error() string {
	return fmt.Sprintf("%v\n\nin a parallel loop:\n%s", p.Value, p.Stack)
}

func help() {
	for c := range pending {
		c.run()
	}
}

// run calls the loop body for the chunk. If the body panics, run recovers the panic and, if it is
// the first one, stores it in the loop.
func (c chunk) run() {
	returned := false
	defer func() {
		if !returned {
			v := recover()
			if v == nil { // runtime.Goexit ends this goroutine, so another replaces it
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

// For calls body(lo, hi) for contiguous chunks that together cover [0, n), on up to GOMAXPROCS
// goroutines, and returns when all calls have returned.
//
// If there are several chunks, each has at least grain elements. A single chunk runs on the
// calling goroutine. There is only one chunk if n < 2·grain, if grain is 0, or if other calls of
// For keep all cores busy, so that a loop inside a parallel loop costs nothing. The bounds of the
// chunks depend on the number of cores and their load. For results that do not, body must compute
// each index independently of the bounds.
//
// If body panics, For panics on the calling goroutine after all chunks have ended. The value is a
// *Panic if body panicked on another goroutine, and otherwise the value of body's own panic.
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
	defer func() { // also if body panics
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

// Serial reports whether For(n, grain, body) would run the loop as a single chunk. A caller that
// then runs the loop directly, without For, saves the allocation of a function value.
func Serial(n, grain int) bool { return chunks(n, grain) <= 1 }

func chunks(n, grain int) int {
	if grain <= 0 || n < 2*grain {
		return 1
	}
	return min(runtime.GOMAXPROCS(0)-int(busy.Load()), n/grain)
}
