package linalg

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// fourCores sets GOMAXPROCS to 4 until the test ends. It skips the test on WebAssembly, where Go uses only one core.
func fourCores(t *testing.T) {
	procs := runtime.GOMAXPROCS(4)
	t.Cleanup(func() { runtime.GOMAXPROCS(procs) })
	if runtime.GOMAXPROCS(0) == 1 {
		t.Skip("every loop runs as a single chunk because there is a single core")
	}
}

// Every outer loop must use all cores. While its four chunks run, a loop inside of one of them must run as a single
// chunk. If the other chunks have ended, it must use their cores.
func TestForDividesEveryLoopAmongTheCores(t *testing.T) {
	fourCores(t)
	if four, one := chunks(400, 100), chunks(400, 201); four != 4 || one != 1 {
		t.Errorf("chunks(400, 100) = %d and chunks(400, 201) = %d, want 4 and 1", four, one)
	}
	for loop := range 100 {
		var inner atomic.Int32
		var begun, counted sync.WaitGroup
		begun.Add(4)
		counted.Add(4)
		For(400, 100, func(lo, hi int) {
			begun.Done()
			begun.Wait() // for all four chunks
			inner.Add(int32(chunks(400, 100)))
			counted.Done()
			counted.Wait()
			for lo == loop%4*100 && chunks(400, 100) < 4 { // until the other chunks have ended
				runtime.Gosched()
			}
		})
		if inner.Load() != 4 {
			t.Fatalf("in loop %d, the inner loops have %d chunks, want 4", loop, inner.Load())
		}
	}
}

// fail panics. Tests search stack traces for its name.
func fail() { panic("the body's value") }

// recovered returns the value that f panics with, or nil if f does not panic.
func recovered(f func()) (value any) {
	done := make(chan bool)
	go func() { // runtime.Goexit ends this goroutine, not the test
		defer close(done)
		defer func() { value = recover() }()
		f()
	}()
	<-done
	return value
}

func TestAPanicInAParallelLoopReachesTheCaller(t *testing.T) {
	fourCores(t)
	in := func(chunk int, f func()) any { // calls f in a chunk of a loop and returns the value of the panic
		return recovered(func() {
			For(4, 1, func(lo, hi int) {
				if lo == chunk {
					f()
				}
			})
		})
	}
	if v := in(0, fail); v != "the body's value" {
		t.Errorf("a panic on the calling goroutine has the value %v, want the string \"the body's value\"", v)
	}
	if v := in(0, runtime.Goexit); v != nil {
		t.Errorf("runtime.Goexit on the calling goroutine became the panic %v", v)
	}
	nested := func() { // a nested loop with two chunks must pass on the stack trace of its body
		For(2, 1, func(lo, hi int) {
			if hi == 2 {
				fail()
			}
		})
	}
	for chunk := 1; chunk < 4; chunk++ {
		for _, f := range []func(){fail, nested} {
			p, ok := in(chunk, f).(*chunkPanic)
			if !ok || p.value != "the body's value" {
				t.Fatalf("chunk %d: the panic is %v, want an error with the body's value", chunk, p)
			}
			for _, part := range []string{"the body's value", "linalg.fail("} {
				if !strings.Contains(p.Error(), part) {
					t.Errorf("chunk %d: the error %q does not contain %q", chunk, p, part)
				}
			}
		}
		if p, ok := in(chunk, runtime.Goexit).(*chunkPanic); !ok || !strings.Contains(p.Error(), "runtime.Goexit") {
			t.Errorf("chunk %d: the panic %v does not contain runtime.Goexit", chunk, p)
		}
	}
	if n := chunks(4, 1); n != 4 {
		t.Fatalf("after panics, a loop is divided into %d chunks, want 4", n)
	}
}

func TestForCoversEachIndexOnce(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(5))
	for _, n := range []int{0, 1, 2, 9, 10, 11, 64, 1001} {
		for _, grain := range []int{0, 1, 2, 10, 5000} {
			seen := make([]int, n)
			For(n, grain, func(lo, hi int) {
				if hi-lo < min(grain, n) {
					panic(fmt.Sprintf("chunk [%d, %d) is smaller than the grain %d", lo, hi, grain))
				}
				for i := lo; i < hi; i++ {
					seen[i]++
				}
			})
			for i, s := range seen {
				if s != 1 {
					t.Fatalf("For(%d, %d) visits index %d %d times, want once", n, grain, i, s)
				}
			}
		}
	}
}
