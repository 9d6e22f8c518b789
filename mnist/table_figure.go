package main

import (
	"fmt"
	"slices"
	"strings"

	"hvae/bench/plot"
)

// figure draws NLL against K, shared and varied step sizes in a panel each: for each tempering
// a line of what was obtained, with bars, and markers of what was published.
//
// Other numbers of epochs move the NLL of all models by much more than models differ. So NLL
// is what exceeds that of the VAE with the same seed, and bars are standard errors. Where
// there is no VAE, NLL is itself, and bars are standard deviations over seeds. A single
// leapfrog step has no step sizes to share or to vary: it stands in both panels.
func figure(rows []tableRow) []byte {
	excess := slices.ContainsFunc(rows, func(r tableRow) bool { return r.K == 0 }) &&
		!slices.ContainsFunc(rows, func(r tableRow) bool { return r.K > 0 && r.Obtained != nil && r.Obtained.ToVAE == nil })
	what := "NLL"
	if excess {
		what = "NLL in excess of the VAE's"
	}
	height := func(x *summary) (nll float64, bar *float64) {
		switch {
		case !excess:
			return x.NLL, x.SeedSD
		case x.ToVAE == nil: // the VAE's own
			return 0, nil
		}
		return *x.ToVAE, x.ToVAEError
	}
	var kinds []string // of step sizes
	for _, eps := range []string{"shared", "varied"} {
		if slices.ContainsFunc(rows, func(r tableRow) bool { return r.Eps == eps }) {
			kinds = append(kinds, eps)
		}
	}
	if kinds == nil {
		kinds = []string{""}
	}
	var panels []plot.Chart
	for _, eps := range kinds {
		c := plot.Chart{Title: what, XLabel: "K (0: VAE)", YLabel: what + " (nats)", Dodge: true}
		if eps != "" {
			c.Title += ", ε " + eps
		}
		series := func(label, tempering string, of func(tableRow) *summary, style plot.Style) {
			s := plot.Series{Label: label, Style: style}
			for _, r := range rows {
				x := of(r)
				if x == nil || r.Eps != "" && r.Eps != eps || (r.K == 0) != (tempering == "") || r.K > 0 && r.Tempering != tempering {
					continue
				}
				nll, bar := height(x)
				if bar == nil {
					bar = new(float64)
				}
				s.X, s.Y, s.Error = append(s.X, float64(r.K)), append(s.Y, nll), append(s.Error, *bar)
				if r.K == 0 {
					s.Label += fmt.Sprintf(", %.2f", x.NLL)
				}
			}
			if s.X != nil {
				c.Series = append(c.Series, s)
			}
		}
		for _, source := range []struct {
			what  string
			of    func(tableRow) *summary
			style plot.Style
		}{
			{"obtained", func(r tableRow) *summary { return r.Obtained }, plot.Line},
			{"published", func(r tableRow) *summary { return r.Published }, plot.Points},
		} {
			series("VAE, "+source.what, "", source.of, source.style)
			for _, tempering := range []string{"none", "fixed", "free"} {
				label := strings.Replace(tempering, "none", "no", 1)
				series(label+" tempering, "+source.what, tempering, source.of, source.style)
			}
		}
		for _, r := range rows {
			if k := float64(r.K); !slices.Contains(c.XTicks, k) {
				c.XTicks = append(c.XTicks, k)
			}
		}
		slices.Sort(c.XTicks)
		panels = append(panels, c)
	}
	return plot.Panels(panels...)
}
