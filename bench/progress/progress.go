// Package progress tells how far a long run is, on a stream such as stderr: on a terminal
// in one live line, which fits it, else in a plain line now and then. Under TERM=dumb and
// under NO_COLOR lines are plain on a terminal, too.
//
// The package imports the standard library only.
package progress

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"
)

// A Line is where progress is told. Its methods may be called from several goroutines.
type Line struct {
	w     io.Writer
	live  bool
	width func() int // of the terminal, in columns
	start time.Time

	mu    sync.Mutex
	part  float64 // of the work, done, from 0 to 1
	first float64 // where part began
	until float64 // what part may already be the last
	what  func(elapsed time.Duration) string
	last  time.Time
}

// New returns a line on w. what says what has been done and how fast, given the time
// since New; it is called with no lock of its own, whenever the line is told.
func New(w io.Writer, what func(elapsed time.Duration) string) *Line {
	l := &Line{w: w, what: what, start: time.Now(), until: 1}
	l.last = l.start
	if f, ok := w.(*os.File); ok && os.Getenv("TERM") != "dumb" && os.Getenv("NO_COLOR") == "" {
		if s, err := f.Stat(); err == nil && s.Mode()&os.ModeCharDevice != 0 {
			l.live, l.width = true, func() int { return widthOf(f) }
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

// Until says that the work may end when this part of it is done, because the rest may
// prove to be needless. The time left is a range then.
func (l *Line) Until(part float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = part
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
	to := func(end float64) time.Duration {
		return time.Duration(float64(elapsed) * max(0, end-part) / (part - l.first)).Round(time.Second)
	}
	left := fmt.Sprintf("%v left", to(1))
	if least := to(l.until); least < to(1) {
		left = fmt.Sprintf("%v to %s", least, left)
	}
	done, what := fmt.Sprintf("%3.0f %%", 100*part), l.what(elapsed)
	if !l.live {
		fmt.Fprintf(l.w, "%s  %s  %s\n", done, what, left)
		return
	}
	room := l.width() - 1 // in the last column, some terminals begin a new line
	what = cut(what, room-len(done)-len(left)-4)
	fmt.Fprint(l.w, "\r\x1b[K"+cut(fmt.Sprintf("%s  %s  %s", done, what, left), room))
}

// cut returns no more than the first characters of s.
func cut(s string, characters int) string {
	r := []rune(s)
	return string(r[:max(0, min(characters, len(r)))])
}

// columns is the width of a terminal that does not tell it.
func columns() int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	return 80
}

// Clear takes the live line away, for something else to be printed.
func (l *Line) Clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.live {
		fmt.Fprint(l.w, "\r\x1b[K")
	}
}
