// Package progress implements a progress report with the remaining time: on a terminal one live
// line that fits its width, otherwise a plain line every ten seconds. TERM=dumb or NO_COLOR
// selects plain lines on terminals, too. The package imports only the standard library.
package progress

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"
)

// A Line prints the progress of a computation. Several goroutines may call its methods.
type Line struct {
	w      io.Writer
	live   bool
	width  func() int // of the terminal, in columns
	start  time.Time
	status func(elapsed time.Duration) string

	mu    sync.Mutex
	first float64 // fraction of the work done before start
	until float64 // fraction after which the work may end
	last  time.Time
}

// New returns a line that is printed to w. status returns a description of the progress, given
// the time since New; the line calls it before printing.
func New(w io.Writer, status func(elapsed time.Duration) string) *Line {
	l := &Line{w: w, status: status, start: time.Now(), until: 1}
	l.last = l.start
	if f, ok := w.(*os.File); ok && os.Getenv("TERM") != "dumb" && os.Getenv("NO_COLOR") == "" {
		if s, err := f.Stat(); err == nil && s.Mode()&os.ModeCharDevice != 0 {
			l.live, l.width = true, func() int { return widthOf(f) }
		}
	}
	return l
}

// every returns the time between two lines.
func (l *Line) every() time.Duration {
	if l.live {
		return 200 * time.Millisecond
	}
	return 10 * time.Second
}

// Begin sets the fraction of the work that an interrupted run had done before this run resumed
// it. The rate excludes this work.
func (l *Line) Begin(done float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.first = done
}

// Until sets the fraction of the work after which the run may end early. The line then prints
// the remaining time as a range.
func (l *Line) Until(fraction float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = fraction
}

// Set reports that a fraction of the work, from 0 to 1, is done. It prints the line if the
// previous one is old enough.
func (l *Line) Set(fraction float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if now.Sub(l.last) < l.every() || fraction <= l.first {
		return
	}
	l.last = now
	elapsed := now.Sub(l.start)
	timeTo := func(end float64) time.Duration {
		return time.Duration(float64(elapsed) * max(0, end-fraction) / (fraction - l.first)).Round(time.Second)
	}
	left := fmt.Sprintf("%v left", timeTo(1))
	if least := timeTo(l.until); least < timeTo(1) {
		left = fmt.Sprintf("%v to %s", least, left)
	}
	done, status := fmt.Sprintf("%3.0f %%", 100*fraction), l.status(elapsed)
	if !l.live {
		fmt.Fprintf(l.w, "%s  %s  %s\n", done, status, left)
		return
	}
	room := l.width() - 1 // some terminals start a new line after the last column
	status = cut(status, room-len(done)-len(left)-4)
	fmt.Fprint(l.w, "\r\x1b[K"+cut(fmt.Sprintf("%s  %s  %s", done, status, left), room))
}

// cut returns the first characters of s, at most the given number.
func cut(s string, characters int) string {
	r := []rune(s)
	return string(r[:max(0, min(characters, len(r)))])
}

// columns returns the width of a terminal that does not report it: $COLUMNS, or 80.
func columns() int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	return 80
}

// Clear erases the live line, so that other output can follow.
func (l *Line) Clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.live {
		fmt.Fprint(l.w, "\r\x1b[K")
	}
}
