package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"hvae/bench/atomicfile"
	"hvae/bench/plot"
)

// labels says what each method is called in a legend.
var labels = map[string]string{
	"hvae-k1":         "HVAE, K = 1",
	"hvae-k10":        "HVAE, K = 10",
	"hvae-notemp-k1":  "K = 1, no tempering",
	"hvae-notemp-k10": "K = 10, no tempering",
	"nf-k1":           "planar flow, K = 1",
	"nf-k30":          "planar flow, K = 30",
	"vb":              "mean-field VB",
}

// figures are the two panels of the paper's figure 1.
var figures = []struct {
	file, title string
	methods     []string
}{
	{"figure1a.svg", "Comparison across all methods", []string{"hvae-k1", "hvae-k10", "nf-k1", "nf-k30", "vb"}},
	{"figure1b.svg", "HVAE with and without tempering", []string{"hvae-k1", "hvae-k10", "hvae-notemp-k1", "hvae-notemp-k10"}},
}

// writeFigures draws, if there are several dimensions, the mean of ‖θ − θ̂‖² against
// the dimension. It says on stderr what it wrote.
func writeFigures(o options, rep *report, stderr io.Writer) error {
	if len(o.dims) < 2 {
		return nil
	}
	for _, f := range figures {
		name := filepath.Join(o.out, f.file)
		if err := atomicfile.Write(name, chart(f.title, f.methods, rep.rows).SVG()); err != nil {
			return fmt.Errorf("cannot write %s: %w", name, err)
		}
		fmt.Fprintf(stderr, "wrote %s\n", name)
	}
	return nil
}

// chart draws the given methods, as far as there are rows of them, and the floor.
func chart(title string, methods []string, rows []row) plot.Chart {
	c := plot.Chart{
		Title: title, XLabel: "dimension d", YLabel: "mean of ‖θ − θ̂‖²",
		LogX: true, LogY: true,
	}
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b row) int { return a.Dims - b.Dims })
	floor := plot.Series{Label: "max. likelihood", Dashed: true}
	for _, r := range rows {
		if d := float64(r.Dims); !slices.Contains(floor.X, d) {
			floor.X = append(floor.X, d)
			floor.Y = append(floor.Y, r.MLEDeltaErr+r.MLESigmaErr)
		}
	}
	c.XTicks = floor.X
	for _, m := range methods {
		s := plot.Series{Label: labels[m]}
		for _, r := range rows {
			if r.Method == m {
				s.X = append(s.X, float64(r.Dims))
				s.Y = append(s.Y, r.Err)
			}
		}
		if len(s.X) > 0 {
			c.Series = append(c.Series, s)
		}
	}
	c.Series = append(c.Series, floor)
	return c
}
