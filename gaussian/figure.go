package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"hvae/bench/atomicfile"
	"hvae/bench/plot"
)

// labels maps methods to labels of the legend.
var labels = map[string]string{
	"hvae-k1":         "HVAE, K = 1",
	"hvae-k10":        "HVAE, K = 10",
	"hvae-notemp-k1":  "K = 1, no tempering",
	"hvae-notemp-k10": "K = 10, no tempering",
	"nf-k1":           "planar flow, K = 1",
	"nf-k30":          "planar flow, K = 30",
	"vb":              "mean-field VB",
}

// A quantity is an error to draw.
type quantity struct {
	label string
	of    func(row) (mean, standardError float64)
	mle   func(row) float64 // its mean for the maximum-likelihood estimate
}

var (
	thetaError = quantity{"mean of ‖θ − θ̂‖² ± s.e.",
		func(r row) (float64, float64) { return r.Err, float64(r.ErrSE) },
		func(r row) float64 { return r.MLEDeltaErr + r.MLESigmaErr }}
	sigmaError = quantity{"mean of ‖σ − σ̂‖² ± s.e.",
		func(r row) (float64, float64) { return r.SigmaErr, float64(r.SigmaErrSE) },
		func(r row) float64 { return r.MLESigmaErr }}
)

// figures lists the two panels of the paper's figure 1, and a third panel with the error of σ
// alone. The larger error of Δ hides it in the second panel.
var figures = []struct {
	file, title string
	quantity    quantity
	methods     []string
}{
	{"figure1a.svg", "Comparison across all methods", thetaError, []string{"hvae-k1", "hvae-k10", "nf-k1", "nf-k30", "vb"}},
	{"figure1b.svg", "HVAE with and without tempering", thetaError, []string{"hvae-k1", "hvae-k10", "hvae-notemp-k1", "hvae-notemp-k10"}},
	{"figure1c.svg", "HVAE with and without tempering: σ alone", sigmaError, []string{"hvae-k1", "hvae-k10", "hvae-notemp-k1", "hvae-notemp-k10"}},
}

// writeFigures writes the figures of errors against the dimension if there are several dimensions.
func writeFigures(o options, rep *report, stderr io.Writer) error {
	if len(o.dims) < 2 {
		return nil
	}
	for _, f := range figures {
		if err := writeFigure(o, f.file, chart(f.title, f.quantity, f.methods, rep.rows).SVG(), stderr); err != nil {
			return err
		}
	}
	return nil
}

// writeFigure writes a figure to the folder o.out and prints its name on stderr.
func writeFigure(o options, file string, svg []byte, stderr io.Writer) error {
	name := filepath.Join(o.out, file)
	if err := atomicfile.Write(name, svg); err != nil {
		return fmt.Errorf("cannot write %s: %w", name, err)
	}
	fmt.Fprintf(stderr, "wrote %s\n", name)
	return nil
}

// chart returns the chart of a quantity with standard errors, for the given methods that have rows,
// and for maximum likelihood.
func chart(title string, q quantity, methods []string, rows []row) plot.Chart {
	c := plot.Chart{
		Title: title, XLabel: "dimension d", YLabel: q.label,
		LogX: true, LogY: true, Dodge: true,
	}
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b row) int { return a.Dims - b.Dims })
	mle := plot.Series{Label: "max. likelihood", Style: plot.Dashed}
	for _, r := range rows {
		if d := float64(r.Dims); !slices.Contains(mle.X, d) {
			mle.X, mle.Y = append(mle.X, d), append(mle.Y, q.mle(r))
		}
	}
	c.XTicks = mle.X
	for _, m := range methods {
		s := plot.Series{Label: labels[m]}
		for _, r := range rows {
			if r.Method == m {
				mean, standardError := q.of(r)
				s.X, s.Y, s.Error = append(s.X, float64(r.Dims)), append(s.Y, mean), append(s.Error, standardError)
			}
		}
		if len(s.X) > 0 {
			c.Series = append(c.Series, s)
		}
	}
	c.Series = append(c.Series, mle)
	return c
}
