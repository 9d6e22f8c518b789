package main

import (
	"fmt"
	"slices"
	"strings"

	"hvae/bench/plot"
)

// figure draws NLL against K, a line for each tempering. What was obtained and what was
// published, shared and varied step sizes each have a panel, all on the same axes. A single
// leapfrog step has no step sizes to share or to vary: it stands in the panels of both.
//
// Other numbers of epochs move the NLL of all models by much more than models differ. So NLL
// is less that of the VAE with the same seed, and bars are standard errors. With VAEs alone,
// and as long as what was obtained lacks one, NLL is itself, and bars are standard deviations
// over seeds.
func figure(rows []tableRow) []byte {
	less := slices.ContainsFunc(rows, func(r tableRow) bool { return r.K == 0 }) &&
		slices.ContainsFunc(rows, func(r tableRow) bool { return r.K > 0 }) &&
		!slices.ContainsFunc(rows, func(r tableRow) bool { return r.K > 0 && r.Obtained != nil && r.Obtained.ToVAE == nil })
	what := "NLL"
	if less {
		what = "NLL less the VAE's"
	}
	height := func(x *summary) (nll float64, bar *float64) {
		switch {
		case !less:
			return x.NLL, x.SeedSD
		case x.ToVAE == nil: // the VAE's own
			return 0, nil
		}
		return *x.ToVAE, x.ToVAEError
	}
	var kinds, temperings []string
	var ks []float64
	for _, r := range rows {
		if r.Eps != "" && !slices.Contains(kinds, r.Eps) {
			kinds = append(kinds, r.Eps)
		}
		if r.K > 0 && !slices.Contains(temperings, r.Tempering) {
			temperings = append(temperings, r.Tempering)
		}
		if k := float64(r.K); !slices.Contains(ks, k) {
			ks = append(ks, k)
		}
	}
	slices.Sort(ks)
	if kinds == nil {
		kinds = []string{""}
	}

	panel := func(title, eps string, of func(tableRow) *summary) plot.Chart {
		c := plot.Chart{Title: title, XLabel: "K (0: VAE)", YLabel: what + " (nats)", XTicks: ks, Dodge: true}
		if eps != "" {
			c.Title += ", ε " + eps
		}
		series := func(label string, shown func(tableRow) bool) {
			s := plot.Series{Label: label} // without points, too, it keeps the others' colours
			for _, r := range rows {
				x := of(r)
				if x == nil || !shown(r) {
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
			c.Series = append(c.Series, s)
		}
		if ks[0] == 0 {
			series("VAE", func(r tableRow) bool { return r.K == 0 })
		}
		for _, tempering := range temperings {
			series(strings.Replace(tempering, "none", "no", 1)+" tempering", func(r tableRow) bool {
				return r.K > 0 && r.Tempering == tempering && (r.Eps == "" || r.Eps == eps)
			})
		}
		return c
	}
	var panels []plot.Chart
	for _, eps := range kinds {
		panels = append(panels,
			panel("Obtained", eps, func(r tableRow) *summary { return r.Obtained }),
			panel("Published", eps, func(r tableRow) *summary { return r.Published }))
	}
	return plot.Panels(panels...)
}
