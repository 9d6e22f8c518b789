package table

import (
	"slices"
	"strings"

	"hvae/bench/plot"
	"hvae/mnist/eval"
	"hvae/mnist/model"
)

// figure draws four charts of the NLL against K, with a line for each tempering scheme:
//
//	obtained, shared step sizes    published, shared step sizes
//	obtained, varied step sizes    published, varied step sizes
//
// Models with K = 1 have a single step and occur in the first row only. If rows contains no HVAE,
// figure returns nil.
//
// The number of epochs changes the NLL of all models by much more than the models differ. So the
// charts show the difference from the VAE with the same seed and its standard error. If an obtained
// HVAE has no VAE with its seed, they show the NLL and its standard deviation over seeds.
func figure(rows []row) []byte {
	var kinds, temperings []string
	var ks []float64
	pairs, vae := true, false
	for _, r := range rows {
		if r.K == 0 {
			vae = true
			continue
		}
		kinds, temperings, ks = include(kinds, r.Eps), include(temperings, r.Tempering), include(ks, float64(r.K))
		pairs = pairs && (r.Obtained == nil || r.Obtained.ToVAE != nil)
	}
	if ks == nil {
		return nil
	}
	slices.Sort(ks)
	slices.Sort(kinds)
	if len(kinds) > 1 && kinds[0] == "" { // K = 1
		kinds = kinds[1:]
	}
	label, value := "NLL ± s.d. over seeds (nats)", func(x *summary) (nll float64, bar *float64) { return x.NLL, x.SeedSD }
	if vae && pairs {
		label, value = "NLL minus the VAE's ± s.e. (nats)", func(x *summary) (nll float64, bar *float64) {
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
				y, _ := value(x)
				c.Series = append(c.Series, plot.Series{Label: "VAE", X: []float64{ks[0] - 0.5, ks[len(ks)-1] + 0.5}, Y: []float64{y, y}, Style: plot.Dashed})
			}
		}
		for _, tempering := range temperings {
			s := plot.Series{Label: strings.Replace(tempering, "none", "no", 1) + " tempering"}
			for _, r := range rows {
				x, drawn := of(r), r.Eps == eps || r.Eps == "" && eps == kinds[0]
				if x == nil || r.K == 0 || r.Tempering != tempering || !drawn {
					continue
				}
				nll, bar := value(x)
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

// include appends v to s unless s contains v.
func include[T comparable](s []T, v T) []T {
	if slices.Contains(s, v) {
		return s
	}
	return append(s, v)
}

// leastELBO is the smallest validation ELBO that budget draws, in nats. The ELBOs of the first epochs
// are far below and would compress the rest of the figure.
const leastELBO = -120

// budget draws the validation ELBO of each row against epochs (left) and against work (right). The
// lines are means over seeds, the bands one standard deviation. The unit of work is the number of
// multiply-adds in an epoch of the VAE, because times depend on the load of the machine. If rows
// contains no HVAE, budget returns nil.
func budget(rows []row, results []result) []byte {
	epochs := plot.Chart{Title: "At equal epochs", XLabel: "epoch", YLabel: "validation ELBO ± s.d. over seeds (nats)", LogX: true}
	work := plot.Chart{Title: "At equal work", XLabel: "work (epochs of a VAE)", YLabel: epochs.YLabel, LogX: true}
	hvae := false
	for _, r := range rows {
		var curves [][]float64
		shortest := 0
		for _, x := range results {
			if x.Row == r.Row {
				if curves = append(curves, x.curve); len(curves) == 1 || len(x.curve) < shortest {
					shortest = len(x.curve)
				}
			}
		}
		if curves == nil {
			continue
		}
		hvae = hvae || r.K > 0
		cost := float64(r.config.StepCost()) / float64(model.Config{Latent: r.config.Latent}.StepCost())
		byEpochs := plot.Series{Label: r.Row, Style: plot.Band}
		byWork := byEpochs
		for i := range shortest {
			var elbos []float64
			for _, c := range curves {
				elbos = append(elbos, c[i])
			}
			mean, sd := eval.MeanSD(elbos)
			if mean < leastELBO {
				continue
			}
			if sd == nil {
				sd = new(float64)
			}
			x := float64(i + 1)
			byEpochs.X, byEpochs.Y, byEpochs.Error = append(byEpochs.X, x), append(byEpochs.Y, mean), append(byEpochs.Error, *sd)
			byWork.X = append(byWork.X, cost*x)
		}
		byWork.Y, byWork.Error = byEpochs.Y, byEpochs.Error
		epochs.Series, work.Series = append(epochs.Series, byEpochs), append(work.Series, byWork)
	}
	if !hvae {
		return nil
	}
	return plot.Panels(2, epochs, work)
}
