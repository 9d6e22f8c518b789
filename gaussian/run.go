package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"hvae/bench/command"
	"hvae/bench/plot"
	"hvae/bench/progress"
	"hvae/gaussian/model"
	"hvae/linalg"
)

// run prints the rows of a table as soon as they are known, and then writes figures.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if o.http != "" {
		return explore(ctx, o.http, o.config.Seed, stdout)
	}
	if o.out != "" {
		if err := os.MkdirAll(o.out, 0o755); err != nil {
			return fmt.Errorf("cannot write figures to the folder %s: %w", o.out, err)
		}
	}
	var rows []model.Outcome
	if o.twoModes {
		err = compareModes(ctx, o.config.Seed, stdout)
	} else {
		rows, err = o.train(ctx, stdout, stderr)
	}
	if err != nil || o.out == "" {
		return err
	}
	for name, figure := range o.figures(rows) {
		err = cmp.Or(err, command.WriteFile(filepath.Join(o.out, name), figure, os.Rename))
	}
	return err
}

// figures returns SVG figures by file name.
func (o options) figures(rows []model.Outcome) map[string][]byte {
	switch {
	case o.twoModes:
		return map[string][]byte{"trajectory.svg": drawPaths()}
	case o.gap:
		return map[string][]byte{"gap.svg": gapChart(rows)}
	}
	return map[string][]byte{
		"figure1a.svg": errorChart("Comparison across all methods", rows, "hvae", "hvae-untied", "nf", "vb"),
		"figure1b.svg": errorChart("HVAE with and without tempering", rows, "hvae", "hvae-notemp"),
	}
}

// train trains each method on all datasets at the same time, for each dimension. It prints and returns the averages.
func (o options) train(ctx context.Context, stdout, stderr io.Writer) (rows []model.Outcome, err error) {
	var iterations atomic.Int64
	total := float64(len(o.dims) * len(o.methods) * o.datasets * o.config.Iterations)
	line := progress.New(stderr, 0, func(elapsed time.Duration) string {
		return fmt.Sprintf("%.0f iterations/s", float64(iterations.Load())/elapsed.Seconds())
	})
	count := func() { line.Set(float64(iterations.Add(1)) / total) }
	for _, d := range o.dims {
		for _, m := range o.methods {
			outcomes := make([]model.Outcome, o.datasets)
			errs := make([]error, o.datasets)
			linalg.For(o.datasets, 1, func(lo, hi int) {
				for k := lo; k < hi; k++ {
					outcomes[k], errs[k] = o.config.Train(ctx, m, d, k, count)
				}
			})
			if err := cmp.Or(errs...); err != nil {
				return rows, cmp.Or(context.Cause(ctx), err)
			}
			row := model.Average(outcomes)
			rows = append(rows, row)
			if o.json {
				err = json.NewEncoder(stdout).Encode(row)
			} else {
				_, err = io.WriteString(stdout, o.table(rows))
			}
			if err != nil {
				return rows, err
			}
		}
	}
	return rows, nil
}

// table returns the text to print for the last element of rows. The first row for a dimension has a header. After the
// last row, the text has the maximum-likelihood estimate.
func (o options) table(rows []model.Outcome) (text string) {
	n := len(rows)
	r := rows[n-1]
	sum := strings.TrimSuffix(fmt.Sprintf("%.4g ± %.2g", r.Err, r.ErrSE), " ± 0") // one dataset has no s.e.
	if (n-1)%len(o.methods) == 0 {
		c := o.config
		text = fmt.Sprintf("d = %d: datasets %d, points %d, iterations %d, draws %d, learning rate %g, seed %d\n",
			r.Dims, r.Datasets, c.Points, c.Iterations, c.Draws, c.Rate, c.Seed)
		text += fmt.Sprintf("%-16s %10s %10s %20s %12s %12s %10s %8s\n",
			"method", "Δ error", "σ error", "sum ± s.e.", "ELBO", "log p(D)", "gap", "seconds")
	}
	text += fmt.Sprintf("%-16s %10.4g %10.4g %20s %12.1f %12.1f %10.1f %8.1f\n",
		r.Method, r.DeltaErr, r.SigmaErr, sum, r.ELBO, r.LogEvidence, r.Gap, r.Seconds)
	if n%len(o.methods) == 0 {
		text += fmt.Sprintf("%-16s %10.4g %10.4g %20.4g %12s %12.1f\n\n",
			"max. likelihood", r.MLEDeltaErr, r.MLESigmaErr, r.MLEDeltaErr+r.MLESigmaErr, "", r.MLEEvidence)
	}
	return text
}

// errorChart shows the error of θ as a function of the dimension, for the methods of the given families and for the
// maximum-likelihood estimate.
func errorChart(title string, rows []model.Outcome, families ...string) []byte {
	c := plot.Chart{Title: title, XLabel: "dimension d", YLabel: "mean of ‖θ − θ̂‖² ± s.e.", LogX: true, LogY: true}
	rows = slices.SortedStableFunc(slices.Values(rows), func(a, b model.Outcome) int { return a.Dims - b.Dims })
	for _, r := range rows {
		if family, _ := model.Parse(r.Method); slices.Contains(families, family) {
			addPoint(&c, r.Method, plot.Line, float64(r.Dims), r.Err, r.ErrSE)
		}
		if r.Method == rows[len(rows)-1].Method { // one row for each dimension
			c.XTicks = addPoint(&c, "max. likelihood", plot.Dashed, float64(r.Dims), r.MLEDeltaErr+r.MLESigmaErr).X
		}
	}
	return c.SVG()
}

// gapChart plots the gap of HVAE with tied and with untied tempering against K, and the limit for tied tempering.
func gapChart(rows []model.Outcome) []byte {
	c := plot.Chart{Title: "Does the bound tighten with K?", LogX: true, LogY: true}
	c.XLabel = "number of leapfrog steps K"
	c.YLabel = "log p(D) − ELBO (nats)"
	for _, r := range rows {
		d := fmt.Sprintf("d = %d, ", r.Dims)
		switch family, K := model.Parse(r.Method); family {
		case "hvae":
			c.XTicks = addPoint(&c, d+"tied", plot.Line, float64(K), r.Gap).X
			addPoint(&c, d+"limit for tied flows", plot.Dashed, float64(K), r.TiedLimit)
		case "hvae-untied":
			addPoint(&c, d+"untied", plot.Line, float64(K), r.Gap)
		}
	}
	return c.SVG()
}

// addPoint adds a point, and possibly an error bar, to the series with the given label, which may be new.
func addPoint(c *plot.Chart, label string, style plot.Style, x, y float64, se ...float64) *plot.Series {
	i := slices.IndexFunc(c.Series, func(s plot.Series) bool { return s.Label == label })
	if i < 0 {
		i = len(c.Series)
		c.Series = append(c.Series, plot.Series{Label: label, Style: style})
	}
	s := &c.Series[i]
	s.X = append(s.X, x)
	s.Y = append(s.Y, y)
	s.Error = append(s.Error, se...)
	return s
}
