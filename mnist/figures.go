package main

import (
	"maps"
	"math"
	"slices"
	"strings"

	"hvae/bench/plot"
	"hvae/mnist/eval"
	"hvae/mnist/model"
)

// figure plots the NLL of each HVAE minus the NLL of the VAE with the same seed, as a function of K, in
// these charts:
//
//	our results, shared step sizes    published results, shared step sizes
//	our results, varied step sizes    published results, varied step sizes
//
// Each chart has a line for each kind of tempering. Error bars are standard errors over seeds. The
// difference is more precise than the NLL, which depends more on the number of epochs than on the model.
// HVAEs with one step (K = 1) appear only in the first row of charts. The argument rows must contain at
// least one HVAE.
func figure(rows []row) []byte {
	allK, allEps := map[float64]bool{}, map[string]bool{}
	for _, r := range rows {
		if r.K > 0 {
			allK[float64(r.K)], allEps[r.Eps] = true, true
		}
	}
	if len(allEps) > 1 {
		delete(allEps, "") // K = 1
	}
	ks, kinds := slices.Sorted(maps.Keys(allK)), slices.Sorted(maps.Keys(allEps))
	chart := func(title, eps string, of func(row) *summary) plot.Chart {
		c := plot.Chart{Title: title, XLabel: "K", YLabel: "NLL minus the VAE's ± s.e. (nats)", XTicks: ks, Dodge: true, Width: 360, Height: 240}
		if eps != "" {
			c.Title += ", ε " + eps
		}
		c.Series = []plot.Series{{Label: "VAE", X: []float64{ks[0] - 0.5, ks[len(ks)-1] + 0.5}, Y: []float64{0, 0}, Style: plot.Dashed}}
		for _, tempering := range []string{"none", "fixed", "free", "untied"} {
			s := plot.Series{Label: strings.Replace(tempering, "none", "no", 1) + " tempering"}
			for _, r := range rows {
				x, drawn := of(r), r.Eps == eps || r.Eps == "" && eps == kinds[0]
				if !drawn || r.K == 0 || r.Tempering != tempering || x == nil || x.Pairs == 0 {
					continue
				}
				s.X, s.Y, s.Error = append(s.X, float64(r.K)), append(s.Y, float64(x.ToVAE)), append(s.Error, orZero(x.ToVAEError))
			}
			if s.X != nil {
				c.Series = append(c.Series, s)
			}
		}
		return c
	}
	var charts []plot.Chart
	for _, eps := range kinds {
		charts = append(charts,
			chart("Obtained", eps, func(r row) *summary { return r.Obtained }),
			chart("Published", eps, func(r row) *summary { return r.Published }))
	}
	return plot.Panels(2, charts...)
}

// orZero returns x, or 0 if x is undefined.
func orZero(x eval.Number) float64 {
	if math.IsNaN(float64(x)) {
		return 0
	}
	return float64(x)
}

// leastELBO is the smallest validation ELBO that budget draws, in nats. The ELBOs of the first epochs
// are far below and would compress the rest of the figure.
const leastELBO = -120

// budget plots the validation ELBO of each row against epochs (left) and against work (right). Lines are
// means over seeds, and bands are ± one standard deviation. Work is the number of multiply-adds, in units
// of an epoch of the VAE. Unlike time, it does not depend on the load of the machine.
func budget(rows []row, results []result) []byte {
	epochs := plot.Chart{Title: "At equal epochs", XLabel: "epoch", YLabel: "validation ELBO ± s.d. over seeds (nats)", LogX: true}
	work := plot.Chart{Title: "At equal work", XLabel: "work (epochs of a VAE)", YLabel: epochs.YLabel, LogX: true}
	for _, r := range rows {
		var curves [][]float64
		for _, x := range results {
			if x.Row == r.Row {
				curves = append(curves, x.curve)
			}
		}
		if curves == nil {
			continue
		}
		cost := float64(r.config.StepCost()) / float64(model.Config{Latent: r.config.Latent}.StepCost())
		byEpochs := plot.Series{Label: r.Row, Style: plot.Band}
		byWork := byEpochs
		shortest := slices.MinFunc(curves, func(a, b []float64) int { return len(a) - len(b) })
		for i := range shortest {
			var elbos []float64
			for _, c := range curves {
				elbos = append(elbos, c[i])
			}
			mean, sd := eval.MeanSD(elbos)
			if mean < leastELBO {
				continue
			}
			x := float64(i + 1)
			byEpochs.X, byEpochs.Y, byEpochs.Error = append(byEpochs.X, x), append(byEpochs.Y, float64(mean)), append(byEpochs.Error, orZero(sd))
			byWork.X = append(byWork.X, cost*x)
		}
		byWork.Y, byWork.Error = byEpochs.Y, byEpochs.Error
		epochs.Series, work.Series = append(epochs.Series, byEpochs), append(work.Series, byWork)
	}
	return plot.Panels(2, epochs, work)
}
