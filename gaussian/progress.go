package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// progress tells how far the runs are: on a terminal in one live line, else in a plain
// line now and then.
type progress struct {
	w     io.Writer
	live  bool
	every time.Duration

	start      time.Time
	total      float64 // cost of all runs
	jobs, runs int     // runs to do and done

	mu         sync.Mutex
	spent      float64 // cost of the iterations done
	iterations int
}

func newProgress(w io.Writer, total float64, jobs int) *progress {
	p := &progress{w: w, total: total, jobs: jobs, start: time.Now(), every: 10 * time.Second}
	if f, ok := w.(*os.File); ok {
		if s, err := f.Stat(); err == nil && s.Mode()&os.ModeCharDevice != 0 {
			p.live, p.every = true, 200*time.Millisecond
		}
	}
	return p
}

// add counts iterations of a run whose iterations have a given cost.
func (p *progress) add(n int, cost float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.iterations += n
	p.spent += float64(n) * cost
}

func (p *progress) show() {
	p.mu.Lock()
	iterations, part := p.iterations, p.spent/p.total
	p.mu.Unlock()
	elapsed := time.Since(p.start)
	if part == 0 {
		return
	}
	left := time.Duration(float64(elapsed) * (1 - part) / part).Round(time.Second)
	line := fmt.Sprintf("%3.0f %%  %d of %d runs  %.0f iterations/s  %v left", 100*part, p.runs, p.jobs, float64(iterations)/elapsed.Seconds(), left)
	if p.live {
		fmt.Fprint(p.w, "\r\x1b[K"+line)
	} else {
		fmt.Fprintln(p.w, line)
	}
}

// clear takes the live line away, for something else to be printed.
func (p *progress) clear() {
	if p.live {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
