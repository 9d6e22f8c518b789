// Package progress prints the progress and the remaining time of a computation. On a terminal, it
// updates one line and never wraps it. Elsewhere, and on terminals with TERM=dumb, it prints a line
// every ten seconds.
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
	terminal bool          // whether w is a terminal, on which each update replaces the line
	interval time.Duration // minimum time between updates
	start    time.Time
	first    float64 // fraction of the work done before start
	status   func(elapsed time.Duration) string

	mu   sync.Mutex
	last time.Time // time of the last update
}

// New returns a line that prints to w. The argument done is the fraction of the work that was finished
// earlier, for example by an interrupted run. The estimate of the remaining time ignores this work. Each
// update calls status with the time since the call to New and prints the result.
func New(w io.Writer, done float64, status func(elapsed time.Duration) string) *Line {
	l := &Line{w: w, interval: 10 * time.Second, start: time.Now(), first: done, status: status}
	l.last = l.start
	if f, ok := w.(*os.File); ok && os.Getenv("TERM") != "dumb" {
		if s, err := f.Stat(); err == nil && s.Mode()&os.ModeCharDevice != 0 {
			l.interval, l.terminal = 200*time.Millisecond, true
		}
	}
	return l
}

// Set sets the fraction of the work that is done, from 0 to 1. It prints the line at most once every
// 0.2 s on a terminal, and at most once every 10 s elsewhere.
func (l *Line) Set(fraction float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if now.Sub(l.last) < l.interval || fraction <= l.first {
		return
	}
	l.last = now
	elapsed := now.Sub(l.start)
	remaining := time.Duration(float64(elapsed) * (1 - fraction) / (fraction - l.first)).Round(time.Second)
	left := fmt.Sprintf("%v left", remaining)
	done, status := fmt.Sprintf("%3.0f %%", 100*fraction), l.status(elapsed)
	if l.terminal {
		// Disable line wrapping, so that the terminal cuts off a long status.
		fmt.Fprintf(l.w, "\r\x1b[K\x1b[?7l%s  %s  %s\x1b[?7h", done, left, status)
	} else {
		fmt.Fprintf(l.w, "%s  %s  %s\n", done, status, left)
	}
}

// Clear erases the line on a terminal, so that other output can follow.
func (l *Line) Clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.terminal {
		fmt.Fprint(l.w, "\r\x1b[K")
	}
}
