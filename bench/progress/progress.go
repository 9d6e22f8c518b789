// Package progress implements a progress report with the remaining time: on a terminal one live
// line that fits its width, otherwise a plain line every ten seconds. TERM=dumb or NO_COLOR
// selects plain lines on terminals, too. The package imports only the standard library.
package progress

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"
)

// A Line prints the progress of a computation. Several goroutines may call its methods.
type Line struct {
	w        io.Writer
	width    func() int // of the terminal, in columns; nil for plain lines
	interval time.Duration
	start    time.Time
	status   func(elapsed time.Duration) string

	mu    sync.Mutex
	first float64 // fraction of the work done before start
	until float64 // fraction after which the work may end
	last  time.Time
}

// New returns a line that is printed to w. status returns a description of the progress, given
// the time since New; the line calls it before printing.
func New(w io.Writer, status func(elapsed time.Duration) string) *Line {
	l := &Line{w: w, interval: 10 * time.Second, start: time.Now(), status: status, until: 1}
	l.last = l.start
	if f, ok := w.(*os.File); ok && os.Getenv("TERM") != "dumb" && os.Getenv("NO_COLOR") == "" {
		if s, err := f.Stat(); err == nil && s.Mode()&os.ModeCharDevice != 0 {
			l.interval, l.width = 200*time.Millisecond, func() int {
				columns, _ := strconv.Atoi(os.Getenv("COLUMNS"))
				return cmp.Or(widthOf(f), max(0, columns), 80)
			}
		}
	}
	return l
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
	if now.Sub(l.last) < l.interval || fraction <= l.first {
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
	if l.width == nil {
		fmt.Fprintf(l.w, "%s  %s  %s\n", done, status, left)
		return
	}
	room := max(0, l.width()-1) // some terminals start a new line after the last column
	line := fmt.Sprintf("%s  %.*s  %s", done, max(0, room-len(done)-len(left)-4), status, left)
	fmt.Fprintf(l.w, "\r\x1b[K%.*s", room, line)
}

// Clear erases the live line, so that other output can follow.
func (l *Line) Clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.width != nil {
		fmt.Fprint(l.w, "\r\x1b[K")
	}
}
