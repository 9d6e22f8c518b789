// Package progress prints the progress of a computation and its estimated remaining time.
package progress

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// A Line prints the progress of a computation at intervals. Its methods may be called concurrently.
type Line struct {
	w      io.Writer
	start  time.Time
	first  float64 // fraction of the work done before start
	status func(elapsed time.Duration) string

	mu   sync.Mutex
	next time.Duration // time from start to the next line
}

// New returns a Line that prints to w. The argument done is the fraction of the work that was finished earlier, for
// example by an interrupted run. Each printed line contains status(elapsed), where elapsed is the time since the call
// to New. The remaining time is estimated from the speed since then.
func New(w io.Writer, done float64, status func(elapsed time.Duration) string) *Line {
	return &Line{w: w, start: time.Now(), first: done, status: status, next: time.Second}
}

// Set sets the fraction of the work that is done, from 0 to 1. It prints a line if one is due: about 1, 2, 4, … s after
// New, and then once a minute.
func (l *Line) Set(fraction float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	elapsed := time.Since(l.start)
	if elapsed < l.next || fraction <= l.first {
		return
	}
	l.next = min(2*elapsed, elapsed+time.Minute)
	left := time.Duration(float64(elapsed) * (1 - fraction) / (fraction - l.first)).Round(time.Second)
	fmt.Fprintf(l.w, "%3.0f %%  %s  %v left\n", 100*fraction, l.status(elapsed), left)
}
