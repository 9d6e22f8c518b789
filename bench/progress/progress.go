// Package progress prints the progress and the remaining time of a computation. On a terminal, it updates one line and
// never wraps it. Elsewhere, and on terminals with TERM=dumb, it prints a line every ten seconds.
package progress

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// A Line prints the progress of a computation. Its methods may be called concurrently.
type Line struct {
	w        io.Writer
	terminal bool // whether w is a terminal, on which each update replaces the line
	start    time.Time
	first    float64 // fraction of the work done before start
	status   func(elapsed time.Duration) string

	mu   sync.Mutex
	last time.Duration // time from start to the last update
}

// New returns a Line that prints to w. The argument done is the fraction of the work that was finished earlier, for
// example by an interrupted run. The estimate of the remaining time ignores this work. Each update calls status with
// the time since the call to New and prints the result.
func New(w io.Writer, done float64, status func(elapsed time.Duration) string) *Line {
	l := &Line{w: w, start: time.Now(), first: done, status: status}
	if f, ok := w.(*os.File); ok && os.Getenv("TERM") != "dumb" {
		s, err := f.Stat()
		l.terminal = err == nil && s.Mode()&os.ModeCharDevice != 0
	}
	return l
}

// Set sets the fraction of the work that is done, from 0 to 1. It prints the line at most once every 0.2 s on a
// terminal, and at most once every 10 s elsewhere.
func (l *Line) Set(fraction float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	interval, format := 10*time.Second, "%3.0[1]f %%  %[3]s  %[2]v left\n"
	if l.terminal {
		// Disable line wrapping, so that the terminal cuts off a long status.
		interval, format = 200*time.Millisecond, "\r\x1b[K\x1b[?7l%3.0f %%  %v left  %s\x1b[?7h"
	}
	elapsed := time.Since(l.start)
	if elapsed-l.last < interval || fraction <= l.first {
		return
	}
	l.last = elapsed
	left := time.Duration(float64(elapsed) * (1 - fraction) / (fraction - l.first)).Round(time.Second)
	fmt.Fprintf(l.w, format, 100*fraction, left, l.status(elapsed))
}

// Clear erases the line on a terminal, so that other output can follow.
func (l *Line) Clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.terminal {
		fmt.Fprint(l.w, "\r\x1b[K")
	}
}
