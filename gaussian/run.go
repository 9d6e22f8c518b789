package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"hvae/bench/atomicfile"
	"hvae/bench/plot"
	"hvae/bench/progress"
	"hvae/gaussian/model"
	"hvae/linalg"
)

// run executes the program. It prints the rows of a table as soon as they are known, and then draws figures. With
// -redraw, it reads the rows from a file and prints nothing. It checks the folder of the figures before any other work.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	var names []string // of the figures
	switch {
	case o.http != "":
		return explore(ctx, o.http, o.config.Seed, stdout)
	case o.twoModes:
		names = []string{"trajectory.svg"}
	case o.gap:
		names = []string{"gap.svg"}
	case len(o.dims) > 1 || o.redraw != "" || o.out != "":
		names = []string{"figure1a.svg", "figure1b.svg"}
	}
	folder := filepath.Clean(o.out)
	if names != nil {
		if err := o.prepare(folder, names); err != nil {
			return err
		}
		fmt.Fprintf(stderr, "%s will be written to the folder %s\n", strings.Join(names, ", "), folder)
	}
	var rows []model.Outcome
	switch {
	case o.twoModes:
		err = o.drawModes(ctx, stdout)
	case o.redraw != "":
		rows, err = readRows(o.redraw)
	default:
		rows, err = o.train(ctx, stdout, stderr)
	}
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("%w: the completed rows were printed; no files were written", err)
	}
	for _, name := range names {
		if err == nil {
			err = atomicfile.Write(filepath.Join(folder, name), figures[name](rows))
		}
	}
	return err
}

// prepare creates a folder. It returns an error if the named files cannot be created in the folder. Without -out, it
// also returns an error if one of the files exists.
func (o options) prepare(folder string, names []string) error {
	err := os.MkdirAll(folder, 0o755)
	probe, probeErr := os.MkdirTemp(folder, ".figure-*")
	if err = cmp.Or(err, probeErr, os.Remove(probe)); err != nil {
		return fmt.Errorf("cannot write figures to the folder %s: %w; select another folder with -out", folder, err)
	}
	for _, name := range names {
		if _, err := os.Lstat(name); err == nil && o.out == "" {
			return fmt.Errorf("%s exists: choose a folder for the figures with -out (-out . replaces the figures in the current folder)", name)
		}
	}
	return nil
}

// print prints a row as a JSON object or as the given text.
func (o options) print(w io.Writer, row any, text string) error {
	if o.json {
		return json.NewEncoder(w).Encode(row)
	}
	_, err := io.WriteString(w, text)
	return err
}

// readRows reads a file that was written with -json and contains one JSON object on each line.
func readRows(name string) (rows []model.Outcome, err error) {
	b, err := os.ReadFile(name)
	for line := range bytes.Lines(b) {
		var r model.Outcome
		err = cmp.Or(err, json.Unmarshal(line, &r))
		rows = append(rows, r)
	}
	if err != nil || rows == nil || rows[0].Method == "" {
		return nil, fmt.Errorf("%s is not the output of -json without -two-modes: %w", name, cmp.Or(err, io.ErrUnexpectedEOF))
	}
	return rows, nil
}

// train trains each method on each dataset and returns the average outcome for each dimension and method. It prints an
// average as soon as its runs are finished. These runs are concurrent. The number of cores affects only the running
// times, because each run has its own random streams.
func (o options) train(ctx context.Context, stdout, stderr io.Writer) (rows []model.Outcome, err error) {
	var iterations atomic.Int64
	total := float64(len(o.dims) * len(o.methods) * o.datasets * o.config.Iterations)
	line := progress.New(stderr, 0, func(elapsed time.Duration) string {
		return fmt.Sprintf("%.0f iterations/s", float64(iterations.Load())/elapsed.Seconds())
	})
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for _, d := range o.dims {
		for _, m := range o.methods {
			outcomes := make([]model.Outcome, o.datasets)
			linalg.For(o.datasets, 1, func(lo, hi int) {
				for k := lo; k < hi; k++ {
					outcome, err := o.config.Train(ctx, m, d, k, func(n int) {
						line.Set(float64(iterations.Add(int64(n))) / total)
					})
					if err != nil {
						cancel(err) // ends all runs
						return
					}
					outcomes[k] = outcome
				}
			})
			if ctx.Err() != nil {
				return rows, context.Cause(ctx)
			}
			rows = append(rows, model.Average(outcomes))
			if err := o.print(stdout, rows[len(rows)-1], o.table(rows)); err != nil {
				return rows, err
			}
		}
	}
	return rows, nil
}

// table returns the text to print for the last element of rows. If this is the first row for its dimension d, the text
// begins with a header. If it is the last row for d, the text ends with the maximum-likelihood estimate.
func (o options) table(rows []model.Outcome) (lines string) {
	n := len(rows)
	r, beta0 := rows[n-1], "–"
	sum := strings.TrimSuffix(fmt.Sprintf("%.4g ± %.2g", r.Err, r.ErrSE), " ± 0") // there is no s.e. for a single dataset
	if r.Beta0 > 0 {
		beta0 = fmt.Sprintf("%.4g", r.Beta0)
	}
	if (n-1)%len(o.methods) == 0 {
		lines = fmt.Sprintf("d = %d: datasets %d, points %d, iterations %d, draws %d, learning rate %g, seed %d\n",
			r.Dims, r.Datasets, o.config.Points, o.config.Iterations, o.config.Draws, o.config.Rate, o.config.Seed)
		lines += fmt.Sprintf("%-16s %10s %10s %20s %10s %12s %12s %10s %8s\n",
			"method", "Δ error", "σ error", "sum ± s.e.", "β₀", "ELBO", "log p(D)", "gap", "seconds")
	}
	lines += fmt.Sprintf("%-16s %10.4g %10.4g %20s %10s %12.1f %12.1f %10.1f %8.1f\n",
		r.Method, r.DeltaErr, r.SigmaErr, sum, beta0, r.ELBO, r.LogEvidence, r.Gap, r.Seconds)
	if n%len(o.methods) == 0 {
		lines += fmt.Sprintf("%-16s %10.4g %10.4g %20.4g %10s %12s %12.1f %10s %8s\n\n",
			"max. likelihood", r.MLEDeltaErr, r.MLESigmaErr, r.MLEDeltaErr+r.MLESigmaErr, "", "", r.MLEEvidence, "", "")
	}
	return lines
}

// figures maps file names to functions that draw figures for the rows of the table.
var figures = map[string]func(rows []model.Outcome) []byte{
	"figure1a.svg":   panel("Comparison across all methods", "hvae-k1 hvae-k10 hvae-untied-k1 hvae-untied-k10 nf-k1 nf-k30 vb"),
	"figure1b.svg":   panel("HVAE with and without tempering", "hvae-k1 hvae-k10 hvae-notemp-k1 hvae-notemp-k10"),
	"gap.svg":        gapChart,
	"trajectory.svg": drawPaths,
}

// panel returns a figure that shows the error of θ as a function of the dimension. It draws one line for each of the
// given methods that have results, and one for the maximum-likelihood estimate.
func panel(title, methods string) func(rows []model.Outcome) []byte {
	return func(rows []model.Outcome) []byte {
		c := plot.Chart{Title: title, XLabel: "dimension d", YLabel: "mean of ‖θ − θ̂‖² ± s.e.", LogX: true, LogY: true}
		rows = slices.SortedStableFunc(slices.Values(rows), func(a, b model.Outcome) int { return a.Dims - b.Dims })
		for _, m := range strings.Fields(methods) {
			for _, r := range rows {
				if r.Method == m {
					addPoint(&c, m, plot.Line, float64(r.Dims), r.Err, r.ErrSE)
				}
			}
		}
		for i, r := range rows {
			if i == 0 || r.Dims > rows[i-1].Dims {
				c.XTicks = addPoint(&c, "max. likelihood", plot.Dashed, float64(r.Dims), r.MLEDeltaErr+r.MLESigmaErr).X
			}
		}
		return c.SVG()
	}
}

// gapChart plots the gap log p(D) − ELBO of HVAE with tied and with untied tempering against K, and the lower limit of
// the gap with tied tempering. It ignores other methods.
func gapChart(rows []model.Outcome) []byte {
	c := plot.Chart{Title: "Does the bound tighten with K?", XLabel: "number of leapfrog steps K", YLabel: "log p(D) − ELBO (nats)", LogX: true, LogY: true}
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

// addPoint adds a point, and possibly an error bar, to the series with the given label and returns the series. If the
// chart has no such series, addPoint creates it in the given style.
func addPoint(c *plot.Chart, label string, style plot.Style, x, y float64, se ...float64) *plot.Series {
	i := slices.IndexFunc(c.Series, func(s plot.Series) bool { return s.Label == label })
	if i < 0 {
		i, c.Series = len(c.Series), append(c.Series, plot.Series{Label: label, Style: style})
	}
	s := &c.Series[i]
	s.X, s.Y, s.Error = append(s.X, x), append(s.Y, y), append(s.Error, se...)
	return s
}
