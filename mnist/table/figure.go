package table

import (
	"slices"
	"strings"

	"hvae/bench/plot"
)

// figure draws NLL against K, with a line for each tempering: obtained values on the left,
// published values on the right, shared step sizes in the first row, varied ones in the second.
// K = 1, where they are the same, is in the first row only.
//
// The number of epochs changes the NLL of all models by much more than the models differ.
// Therefore the figure shows the difference to the VAE with the same seed, and its standard
// error. If an obtained row has no VAE with its seed, the figure shows NLL, and its standard
// deviation over seeds. Without an HVAE, figure returns nil.
func figure(rows []row) []byte {
	var kinds, temperings []string
	var ks []float64
	paired := false
	for _, r := range rows {
		if r.K == 0 {
			paired = true
			continue
		}
		if r.Eps != "" && !slices.Contains(kinds, r.Eps) {
			kinds = append(kinds, r.Eps)
		}
		if !slices.Contains(temperings, r.Tempering) {
			temperings = append(temperings, r.Tempering)
		}
		if k := float64(r.K); !slices.Contains(ks, k) {
			ks = append(ks, k)
		}
	}
	if ks == nil {
		return nil
	}
	if kinds == nil {
		kinds = []string{""}
	}
	slices.Sort(ks)
	slices.Sort(kinds)
	height, label := func(x *summary) (nll float64, bar *float64) { return x.NLL, x.SeedSD }, "NLL ± s.d. over seeds (nats)"
	if paired && !slices.ContainsFunc(rows, func(r row) bool { return r.K > 0 && r.Obtained != nil && r.Obtained.ToVAE == nil }) {
		label = "NLL minus the VAE's ± s.e. (nats)"
		height = func(x *summary) (nll float64, bar *float64) {
			if x.ToVAE == nil { // the VAE
				return 0, nil
			}
			return *x.ToVAE, x.ToVAEError
		}
	}

	panel := func(title, eps string, of func(row) *summary) plot.Chart {
		c := plot.Chart{Title: title, XLabel: "K", YLabel: label, XTicks: ks, Dodge: true, Width: 360, Height: 240}
		if eps != "" {
			c.Title += ", ε " + eps
		}
		for _, r := range rows {
			if x := of(r); r.K == 0 && x != nil {
				y, _ := height(x)
				c.Series = append(c.Series, plot.Series{Label: "VAE", X: []float64{ks[0] - 0.5, ks[len(ks)-1] + 0.5}, Y: []float64{y, y}, Style: plot.Dashed})
			}
		}
		for _, tempering := range temperings {
			s := plot.Series{Label: strings.Replace(tempering, "none", "no", 1) + " tempering"}
			for _, r := range rows {
				x := of(r)
				if x == nil || r.K == 0 || r.Tempering != tempering || r.Eps != eps && (r.Eps != "" || eps != kinds[0]) {
					continue
				}
				nll, bar := height(x)
				if bar == nil {
					bar = new(float64)
				}
				s.X, s.Y, s.Error = append(s.X, float64(r.K)), append(s.Y, nll), append(s.Error, *bar)
			}
			if s.X != nil {
				c.Series = append(c.Series, s)
			}
		}
		return c
	}
	var panels []plot.Chart
	for _, eps := range kinds {
		panels = append(panels,
			panel("Obtained", eps, func(r row) *summary { return r.Obtained }),
			panel("Published", eps, func(r row) *summary { return r.Published }))
	}
	return plot.Panels(2, panels...)
}
