package linalg

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// fourCores sets GOMAXPROCS to 4 until the test ends. It skips the test in WebAssembly, which has one core.
func fourCores(t *testing.T) {
	procs := runtime.GOMAXPROCS(4)
	t.Cleanup(func() { runtime.GOMAXPROCS(procs) })
	if runtime.GOMAXPROCS(0) == 1 {
		t.Skip("loops are serial because there is a single core")
	}
}

// A loop must use all cores, and a loop inside it must run as a single chunk.
func TestForDividesEveryLoopAmongTheCores(t *testing.T) {
	fourCores(t)
	if Serial(400, 100) || !Serial(400, 201) {
		t.Errorf("Serial is %v for parts of 100 of 400 indices and %v for 201, want false and true", Serial(400, 100), Serial(400, 201))
	}
	for loop := range 100 {
		var outer, inner atomic.Int32
		For(400, 100, func(lo, hi int) {
			outer.Add(1)
			inner.Add(int32(chunks(400, 100)))
		})
		if outer.Load() != 4 || inner.Load() != 4 {
			t.Fatalf("loop %d is divided into %d chunks and loops inside it into %d, want 4 and 4·1", loop, outer.Load(), inner.Load())
		}
	}
}

// fail panics. Tests search stack traces for its name.
func fail() { panic("the body's value") }

// recovered returns the value of the panic of f, or nil.
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
	in := func(chunk int, f func()) any { // runs f in a chunk of a loop
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
			if !ok || p.value != "the body's value" || !strings.Contains(p.Error(), "linalg.fail(") || !strings.Contains(p.Error(), "the body's value") {
				t.Errorf("chunk %d: the panic is %v, want an error with the body's value and a stack trace that contains linalg.fail", chunk, p)
			}
		}
		if p, ok := in(chunk, runtime.Goexit).(*chunkPanic); !ok || !strings.Contains(p.Error(), "runtime.Goexit") {
			t.Errorf("chunk %d: the panic %v does not contain runtime.Goexit", chunk, p)
		}
	}
	// After the panics, the four chunks of a loop must still run concurrently. Each chunk waits for the others.
	if n := chunks(4, 1); n != 4 {
		t.Fatalf("after panics, a loop is divided into %d chunks, want 4", n)
	}
	var meet sync.WaitGroup
	meet.Add(4)
	For(4, 1, func(lo, hi int) {
		meet.Done()
		meet.Wait()
	})
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
