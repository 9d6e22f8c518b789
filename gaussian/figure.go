package main

import (
	"fmt"
	"slices"
	"strings"

	"hvae/bench/plot"
	"hvae/gaussian/model"
)

// figure1 maps file names to the two panels of figure 1 of the paper and to a third panel, which shows only the error
// of σ. In the second panel, the error of σ with tempering is hidden by the larger error of Δ.
var figure1 = map[string]figure{
	"figure1a.svg": panel("Comparison across all methods", false, "hvae-k1 hvae-k10 hvae-untied-k1 hvae-untied-k10 nf-k1 nf-k30 vb"),
	"figure1b.svg": panel("HVAE with and without tempering", false, "hvae-k1 hvae-k10 hvae-notemp-k1 hvae-notemp-k10"),
	"figure1c.svg": panel("HVAE with and without tempering: σ alone", true, "hvae-k1 hvae-k10 hvae-untied-k1 hvae-untied-k10 hvae-notemp-k1 hvae-notemp-k10"),
}

// labels maps each family of methods to the format string of its labels in figure 1.
var labels = map[string]string{
	"hvae": "HVAE, K = %d", "hvae-notemp": "K = %d, no tempering", "hvae-untied": "HVAE, untied, K = %d",
	"nf": "planar flow, K = %d", "vb": "mean-field VB%.0d",
}

// panel returns a figure that shows the error of θ, or only of σ, as a function of the dimension. It draws one line for
// each of the given methods that have results, and one for the maximum-likelihood estimate.
func panel(title string, sigma bool, methods string) figure {
	return func(rows []model.Outcome) []byte {
		c := plot.Chart{Title: title, XLabel: "dimension d", YLabel: "mean of ‖θ − θ̂‖² ± s.e.", LogX: true, LogY: true, Dodge: true}
		rows = slices.SortedStableFunc(slices.Values(rows), func(a, b model.Outcome) int { return a.Dims - b.Dims })
		if sigma {
			c.YLabel = "mean of ‖σ − σ̂‖² ± s.e."
			for i, r := range rows { // remove the error of Δ
				rows[i].Err, rows[i].ErrSE, rows[i].MLEDeltaErr = r.SigmaErr, r.SigmaErrSE, 0
			}
		}
		for _, m := range strings.Fields(methods) {
			family, K := model.Parse(m)
			for _, r := range rows {
				if r.Method == m {
					s := addPoint(&c, fmt.Sprintf(labels[family], K), plot.Line, float64(r.Dims), r.Err)
					s.Error = append(s.Error, r.ErrSE)
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

// gapChart plots the gap log p(D) − ELBO of HVAE with tied and with untied tempering against K, and the lower
// limit of the gap with tied tempering. It ignores other methods.
func gapChart(rows []model.Outcome) []byte {
	c := plot.Chart{Title: "Does the bound tighten with K?", XLabel: "number of leapfrog steps K", YLabel: "log p(D) − ELBO (nats)", LogX: true, LogY: true}
	for _, r := range rows {
		d := fmt.Sprintf("d = %d, ", r.Dims)
		switch family, K := model.Parse(r.Method); family {
		case "hvae":
			addPoint(&c, d+"tied", plot.Line, float64(K), r.Gap)
			addPoint(&c, d+"limit for tied flows", plot.Dashed, float64(K), r.TiedLimit)
		case "hvae-untied":
			addPoint(&c, d+"untied", plot.Line, float64(K), r.Gap)
		}
	}
	if len(c.Series) > 0 {
		c.XTicks = c.Series[0].X
	}
	return c.SVG()
}

// addPoint adds a point to the series with the given label and returns the series. If the chart has no such series,
// addPoint creates it in the given style.
func addPoint(c *plot.Chart, label string, style plot.Style, x, y float64) *plot.Series {
	i := slices.IndexFunc(c.Series, func(s plot.Series) bool { return s.Label == label })
	if i < 0 {
		i, c.Series = len(c.Series), append(c.Series, plot.Series{Label: label, Style: style})
	}
	s := &c.Series[i]
	s.X, s.Y = append(s.X, x), append(s.Y, y)
	return s
}
