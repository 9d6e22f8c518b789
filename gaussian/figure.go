package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"hvae/bench/atomicfile"
	"hvae/bench/plot"
)

// labels maps the name of a method to its label in the legend.
var labels = map[string]string{
	"hvae-k1":         "HVAE, K = 1",
	"hvae-k10":        "HVAE, K = 10",
	"hvae-notemp-k1":  "K = 1, no tempering",
	"hvae-notemp-k10": "K = 10, no tempering",
	"hvae-untied-k1":  "HVAE, untied, K = 1",
	"hvae-untied-k10": "HVAE, untied, K = 10",
	"nf-k1":           "planar flow, K = 1",
	"nf-k30":          "planar flow, K = 30",
	"vb":              "mean-field VB",
}

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

// writeFigure writes an SVG file to the folder o.out and prints its name to stderr.
func writeFigure(o options, file string, svg []byte, stderr io.Writer) error {
	name := filepath.Join(o.out, file)
	if err := atomicfile.Write(name, svg); err != nil {
		return err
	}
	fmt.Fprintf(stderr, "wrote %s\n", name)
	return nil
}

// chart returns a chart with a series for each method in f.methods that has rows, and a series for
// maximum likelihood.
func (f figure) chart(rows []row) plot.Chart {
	c := plot.Chart{
		Title: f.title, XLabel: "dimension d", YLabel: f.yLabel,
		LogX: true, LogY: true, Dodge: true,
	}
	likelihood := plot.Series{Label: "max. likelihood", Style: plot.Dashed}
	series := map[string]plot.Series{} // by method
	for _, r := range slices.SortedStableFunc(slices.Values(rows), func(a, b row) int { return a.Dims - b.Dims }) {
		d := float64(r.Dims)
		mean, standardError, mle := r.Err, r.ErrSE, r.MLEDeltaErr+r.MLESigmaErr
		if f.sigma {
			mean, standardError, mle = r.SigmaErr, r.SigmaErrSE, r.MLESigmaErr
		}
		if r.Method == rows[0].Method { // the errors of maximum likelihood are the same for all methods
			likelihood.X, likelihood.Y = append(likelihood.X, d), append(likelihood.Y, mle)
		}
		s := series[r.Method]
		series[r.Method] = plot.Series{Label: labels[r.Method], X: append(s.X, d), Y: append(s.Y, mean), Error: append(s.Error, float64(standardError))}
	}
	for _, m := range f.methods {
		if s, ok := series[m]; ok {
			c.Series = append(c.Series, s)
		}
	}
	c.XTicks, c.Series = likelihood.X, append(c.Series, likelihood)
	return c
}
