package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hvae/bench/atomicfile"
	"hvae/bench/plot"
	"hvae/gaussian/model"
)

// A figure shows the errors of several methods as functions of the dimension.
type figure struct {
	file, title, yLabel string
	sigma               bool // whether the figure shows ‖σ − σ̂‖² instead of ‖θ − θ̂‖²
	methods             []string
}

// figures lists the two panels of figure 1 of the paper, and a third panel that shows the error of
// σ alone. In the second panel, the larger error of Δ hides the error of σ with tempering.
var figures = []figure{
	{"figure1a.svg", "Comparison across all methods", "mean of ‖θ − θ̂‖² ± s.e.", false, []string{"hvae-k1", "hvae-k10", "hvae-untied-k1", "hvae-untied-k10", "nf-k1", "nf-k30", "vb"}},
	{"figure1b.svg", "HVAE with and without tempering", "mean of ‖θ − θ̂‖² ± s.e.", false, []string{"hvae-k1", "hvae-k10", "hvae-notemp-k1", "hvae-notemp-k10"}},
	{"figure1c.svg", "HVAE with and without tempering: σ alone", "mean of ‖σ − σ̂‖² ± s.e.", true, []string{"hvae-k1", "hvae-k10", "hvae-untied-k1", "hvae-untied-k10", "hvae-notemp-k1", "hvae-notemp-k10"}},
}

// figure1 returns the panels of figure 1 by file name.
func figure1(rows []row) map[string][]byte {
	all := map[string][]byte{}
	for _, f := range figures {
		all[f.file] = f.chart(rows).SVG()
	}
	return all
}

// chart returns a chart with a series for each method in f.methods that has rows, and a series for
// maximum likelihood, whose errors are the same in the rows of all methods.
func (f figure) chart(rows []row) plot.Chart {
	series, likelihood := map[string]plot.Series{}, plot.Series{Label: "max. likelihood", Style: plot.Dashed}
	for _, r := range slices.SortedStableFunc(slices.Values(rows), func(a, b row) int { return a.Dims - b.Dims }) {
		d, mean, standardError, mle := float64(r.Dims), r.Err, r.ErrSE, r.MLEDeltaErr+r.MLESigmaErr
		if f.sigma {
			mean, standardError, mle = r.SigmaErr, r.SigmaErrSE, r.MLESigmaErr
		}
		s := series[r.Method]
		series[r.Method] = plot.Series{Label: model.Label(r.Method), X: append(s.X, d), Y: append(s.Y, mean), Error: append(s.Error, standardError)}
		if !slices.Contains(likelihood.X, d) {
			likelihood.X, likelihood.Y = append(likelihood.X, d), append(likelihood.Y, mle)
		}
	}
	c := plot.Chart{Title: f.title, XLabel: "dimension d", YLabel: f.yLabel, LogX: true, LogY: true, Dodge: true, XTicks: likelihood.X}
	for _, m := range f.methods {
		if s, ok := series[m]; ok {
			c.Series = append(c.Series, s)
		}
	}
	c.Series = append(c.Series, likelihood)
	return c
}

// addPoint adds a point to the series with the given label, or to a new series in the given style.
func addPoint(c *plot.Chart, label string, style plot.Style, x, y float64) {
	i := slices.IndexFunc(c.Series, func(s plot.Series) bool { return s.Label == label })
	if i < 0 {
		i, c.Series = len(c.Series), append(c.Series, plot.Series{Label: label, Style: style})
	}
	c.Series[i].X, c.Series[i].Y = append(c.Series[i].X, x), append(c.Series[i].Y, y)
}

// gapChart returns a chart of the gap log p(D) − ELBO against K, for HVAE with tied and with untied tempering, and of the
// limit for tied tempering. It ignores other methods.
func gapChart(rows []row) plot.Chart {
	c := plot.Chart{Title: "Does the bound tighten with K?", XLabel: "number of leapfrog steps K", YLabel: "log p(D) − ELBO (nats)", LogX: true, LogY: true}
	for _, r := range rows {
		var K int
		d := fmt.Sprintf("d = %d, ", r.Dims)
		if _, err := fmt.Sscanf(r.Method, "hvae-k%d", &K); err == nil {
			addPoint(&c, d+"tied", plot.Line, float64(K), r.Gap)
			addPoint(&c, d+"limit for tied flows", plot.Dashed, float64(K), r.TiedLimit)
		} else if _, err := fmt.Sscanf(r.Method, "hvae-untied-k%d", &K); err == nil {
			addPoint(&c, d+"untied", plot.Line, float64(K), r.Gap)
		}
	}
	if len(c.Series) > 0 {
		c.XTicks = c.Series[0].X
	}
	return c
}

// checkFolder prints where the figures will be written. It returns an error if it is not possible to write
// them, so that the program fails before training rather than after it. Without -out, it also returns an
// error if one of the files exists.
func (o options) checkFolder(stderr io.Writer, names ...string) error {
	for _, name := range names {
		if _, err := os.Lstat(name); err == nil && o.out == "" {
			return fmt.Errorf("%s exists: choose a folder for the figures with -out (-out . replaces the figures in the current folder)", name)
		}
	}
	folder := filepath.Clean(o.out)
	existing := folder // or its first ancestor that exists
	for _, err := os.Stat(existing); os.IsNotExist(err); _, err = os.Stat(existing) {
		existing = filepath.Dir(existing)
	}
	probe, err := os.MkdirTemp(existing, ".figure-*")
	if err := cmp.Or(err, os.Remove(probe)); err != nil {
		return fmt.Errorf("cannot write figures to the folder %s: %w; select another folder with -out", folder, err)
	}
	fmt.Fprintf(stderr, "%s will be written to the folder %s\n", strings.Join(names, ", "), folder)
	return nil
}

// writeFigures writes the figures, by file name, and prints their names to stderr.
func (o options) writeFigures(stderr io.Writer, figures map[string][]byte) error {
	if err := os.MkdirAll(filepath.Clean(o.out), 0o755); err != nil {
		return fmt.Errorf("cannot create the folder of -out: %w", err)
	}
	for _, file := range slices.Sorted(maps.Keys(figures)) {
		name := filepath.Join(o.out, file)
		if err := atomicfile.Write(name, figures[file]); err != nil {
			return err
		}
		fmt.Fprintf(stderr, "wrote %s\n", name)
	}
	return nil
}

// readRows reads a file with a JSON object for each row, the output of -json.
func readRows[T any](name string) (rows []T, err error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("cannot read the results: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(b))
	decoder.DisallowUnknownFields()
	for decoder.More() || len(rows) == 0 {
		var r T
		if err := decoder.Decode(&r); err != nil {
			return nil, fmt.Errorf("%s, row %d: %w; the file must be the output of -json, with the same -two-modes", name, len(rows)+1, err)
		}
		rows = append(rows, r)
	}
	return rows, nil
}
