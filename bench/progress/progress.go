// Package progress tells how far a long run is, on a stream such as stderr: on a terminal
// in one live line, else in a plain line now and then.
//
// The package imports the standard library only.
package progress

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// A Line is where progress is told. Its methods may be called from several goroutines.
type Line struct {
	w     io.Writer
	live  bool
	start time.Time

	mu    sync.Mutex
	part  float64 // of the work, done, from 0 to 1
	first float64 // where part began
	what  func(elapsed time.Duration) string
	last  time.Time
}

// New returns a line on w. what says what has been done and how fast, given the time
// since New; it is called with no lock of its own, whenever the line is told.
func New(w io.Writer, what func(elapsed time.Duration) string) *Line {
	l := &Line{w: w, what: what, start: time.Now()}
	l.last = l.start
	if f, ok := w.(*os.File); ok {
		if s, err := f.Stat(); err == nil && s.Mode()&os.ModeCharDevice != 0 {
			l.live = true
		}
	}
	return l
}

// every is the time between two lines.
func (l *Line) every() time.Duration {
	if l.live {
		return 200 * time.Millisecond
	}
	return 10 * time.Second
}

// Begin says that a part of the work was done before New, by a run that this one
// resumes: the rate leaves it out.
func (l *Line) Begin(part float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.part, l.first = part, part
}

// Set says that a part of the work, from 0 to 1, is done, and tells it if the last line
// is old enough.
func (l *Line) Set(part float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.part = part
	now := time.Now()
	if now.Sub(l.last) < l.every() || part <= l.first {
		return
	}
	l.last = now
	elapsed := now.Sub(l.start)
	left := time.Duration(float64(elapsed) * (1 - part) / (part - l.first)).Round(time.Second)
	line := fmt.Sprintf("%3.0f %%  %s  %v left", 100*part, l.what(elapsed), left)
	if l.live {
		fmt.Fprint(l.w, "\r\x1b[K"+line)
	} else {
		fmt.Fprintln(l.w, line)
	}
}

// Clear takes the live line away, for something else to be printed.
func (l *Line) Clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.live {
		fmt.Fprint(l.w, "\r\x1b[K")
	}
}
