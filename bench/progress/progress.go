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
	first  int // units of work finished before start
	total  int // units of work in all
	status func(rate float64) string

	mu   sync.Mutex
	done int
	next time.Duration // time from start to the next line
}

// New returns a Line that prints to w. The argument total is the number of units of work, and done is the number of
// units that were finished earlier, for example by an interrupted run. Each printed line contains status(rate), where
// rate is the number of units per second since the call to New. The remaining time is estimated from this rate.
func New(w io.Writer, done, total int, status func(rate float64) string) *Line {
	return &Line{w: w, start: time.Now(), first: done, total: total, status: status, done: done, next: time.Second}
}

// Add adds n > 0 units of finished work. It prints a line if one is due: 1, 2, 4, … s after New, then once a minute.
func (l *Line) Add(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done += n
	elapsed := time.Since(l.start)
	if elapsed < l.next {
		return
	}
	l.next = min(2*elapsed, elapsed+time.Minute)
	rate := float64(l.done-l.first) / elapsed.Seconds()
	left := time.Duration(float64(l.total-l.done) / rate * float64(time.Second)).Round(time.Second)
	fmt.Fprintf(l.w, "%3.0f %%  %s  %v left\n", 100*float64(l.done)/float64(l.total), l.status(rate), left)
}
