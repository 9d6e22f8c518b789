package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"hvae/hvae"
	"hvae/linalg"
	"hvae/mnist/data"
	"hvae/mnist/model"
)

// A listed is a run in the list.
type listed struct {
	Task   int     `json:"task"`
	Run    string  `json:"run"`
	State  string  `json:"state"`  // done, running, stopped, missing or refused
	Epochs int     `json:"epochs"` // that are done
	Hours  float64 `json:"hours"`  // that are left on this machine, about
	Why    string  `json:"why,omitempty"`
}

// printList prints what is done and what is not. The hours that are left follow from the
// epochs on record of the run or of another one with as many leapfrog steps, else from a
// short measurement. How many epochs early stopping will allow is taken from the paper.
func (t *table) printList(ctx context.Context) error {
	var all []listed
	statuses := map[string]status{}
	for i, k := range t.tasks {
		l := listed{Task: i, Run: k.String(), State: "missing"}
		s, err := t.status(k)
		switch {
		case err != nil:
			l.State, l.Why = "refused", err.Error()
		case s.done():
			l.State = "done"
		case s.running:
			l.State = "running"
		case s.begun:
			l.State = "stopped"
		}
		l.Epochs = len(s.metrics)
		statuses[k.String()] = s
		all = append(all, l)
	}

	costs := map[int]cost{}
	for i := range all {
		k, s := t.tasks[i], statuses[all[i].Run]
		if all[i].State == "done" || all[i].State == "refused" {
			continue
		}
		if _, ok := costs[k.config.K]; !ok {
			c, err := t.measure(ctx, k)
			if err != nil {
				return err
			}
			for _, other := range t.tasks {
				if other.config.K == k.config.K {
					c.record(statuses[other.String()].metrics)
				}
			}
			costs[k.config.K] = c
		}
		c := costs[k.config.K]
		c.record(s.metrics)
		left := t.evaluations(s) * c.image
		if !s.trained {
			left += float64(max(1, t.expected(k)-len(s.metrics))) * c.epoch
		}
		all[i].Hours = left / 3600
	}
	return t.writeList(all)
}

func (t *table) writeList(all []listed) error {
	count, hours := map[string]int{}, 0.0
	for _, l := range all {
		count[l.State]++
		hours += l.Hours
		var err error
		if t.asJSON {
			err = json.NewEncoder(t.stdout).Encode(l)
		} else {
			line := fmt.Sprintf("%3d  %-30s %-8s %5d epochs", l.Task, l.Run, l.State, l.Epochs)
			if l.State == "refused" {
				line += "  " + l.Why
			} else if l.State != "done" {
				line += fmt.Sprintf("  %8.2f h left", l.Hours)
			}
			_, err = fmt.Fprintln(t.stdout, line)
		}
		if err != nil {
			return fmt.Errorf("cannot write results: %w", err)
		}
	}
	if t.asJSON {
		return nil
	}
	_, err := fmt.Fprintf(t.stdout, "%d runs: %d done, %d running, %d stopped, %d missing, %d refused; about %.1f h left on this machine\n",
		len(all), count["done"], count["running"], count["stopped"], count["missing"], count["refused"], hours)
	return err
}

// evaluations returns how many images are left to evaluate, each as often as there are
// runs.
func (t *table) evaluations(s status) float64 {
	n := t.runs * t.limit
	if s.evaluation != nil {
		n -= s.evaluation.done()
	}
	return float64(n)
}

// expected returns about how many epochs a task will train: as many as the published run
// of that row and seed did, or those of the row, or all, if the settings allow it.
func (t *table) expected(k task) int {
	mean := func(is func(result) bool) int {
		sum, n := 0, 0
		for _, r := range published() {
			if is(r) {
				sum, n = sum+r.Epochs, n+1
			}
		}
		return sum / max(1, n)
	}
	return min(t.epochs, cmp.Or(
		mean(func(r result) bool { return r.Run == k.String() }),
		mean(func(r result) bool { return r.Row == k.row }),
		mean(func(result) bool { return true })))
}

// A cost is in seconds, of an epoch and of the evaluation of an image.
type cost struct{ epoch, image float64 }

// record takes the median epoch of a run in place of what was measured.
func (c *cost) record(all []metrics) {
	if len(all) == 0 {
		return
	}
	var seconds []float64
	for _, m := range all {
		seconds = append(seconds, m.Seconds)
	}
	slices.Sort(seconds)
	c.epoch = seconds[len(seconds)/2]
}

// measure times a few steps of training and a little evaluation.
func (t *table) measure(ctx context.Context, k task) (c cost, err error) {
	s, err := t.settings(k)
	if err != nil {
		return c, err
	}
	r, err := newSession(s, t.set, io.Discard, io.Discard)
	if err != nil {
		return c, err
	}
	b := &batch{images: r.pixels, which: r.training[:s.batch], seed: s.seed}
	// fastest returns the shorter time of two calls, in seconds; the first finds no memory.
	fastest := func(f func() error) (float64, error) {
		var times []float64
		for range 2 {
			began := time.Now()
			if err := f(); err != nil {
				return 0, context.Cause(ctx)
			}
			times = append(times, time.Since(began).Seconds())
		}
		return min(times[0], times[1]), nil
	}
	step, err := fastest(func() error { _, err := r.trainer.Step(ctx, b); return err })
	if err != nil {
		return c, err
	}
	validation, err := fastest(func() error { _, err := r.trainer.ELBO(ctx, b); return err })
	if err != nil {
		return c, err
	}
	const images, draws = 4, 48
	image, err := fastest(func() error {
		_, err := model.Evaluate(ctx, s.config, r.trainer.Params, images, draws, func(image int, x linalg.Matrix[float32], k *hvae.Keyed) {
			data.Binarise(x, 0, r.pixels.Image(image), k.Reset(s.seed, "mnist table measurement", image))
		}, func() {})
		return err
	})
	return cost{
		epoch: float64(r.batches())*step + float64(r.validationImages)/float64(s.batch)*validation,
		image: image / images / draws * float64(t.samples),
	}, err
}
