package main

import (
	"hvae/bench/plot"
	"hvae/mnist/eval"
	"hvae/mnist/model"
)

// leastELBO is the validation ELBO in nats from which budget draws a curve. The first epochs
// are far below and would compress the rest.
const leastELBO = -120

// budget draws the validation ELBO of each row against epochs in the left panel and against
// work in the right one: lines are means over seeds, in bands of a standard deviation. Work
// is measured in multiply-adds of training, in units of a VAE's epoch, because other
// processes disturb a clock. Without an HVAE budget returns nil.
func budget(rows []tableRow, results []result) []byte {
	epochs := plot.Chart{Title: "At equal epochs", XLabel: "epoch", YLabel: "validation ELBO ± s.d. over seeds (nats)", LogX: true}
	work := plot.Chart{Title: "At equal work", XLabel: "work (epochs of a VAE)", YLabel: epochs.YLabel, LogX: true}
	hvae := false
	for _, row := range rows {
		var curves [][]float64
		for _, r := range results {
			if r.Row == row.Row {
				curves = append(curves, r.curve)
			}
		}
		if curves == nil {
			continue
		}
		hvae = hvae || row.K > 0
		cost := float64(row.config.StepCost()) / float64(model.Config{Latent: row.config.Latent}.StepCost())
		s := plot.Series{Label: row.Row, Style: plot.Band}
		for epoch := 1; ; epoch++ {
			var elbos []float64
			for _, c := range curves {
				if epoch <= len(c) {
					elbos = append(elbos, c[epoch-1])
				}
			}
			if len(elbos) < len(curves) { // a run has ended
				break
			}
			mean, sd := eval.MeanSD(elbos)
			if mean < leastELBO {
				continue
			}
			if sd == nil {
				sd = new(float64)
			}
			s.X, s.Y, s.Error = append(s.X, float64(epoch)), append(s.Y, mean), append(s.Error, *sd)
		}
		epochs.Series = append(epochs.Series, s)
		scaled := s
		scaled.X = nil
		for _, x := range s.X {
			scaled.X = append(scaled.X, cost*x)
		}
		work.Series = append(work.Series, scaled)
	}
	if !hvae {
		return nil
	}
	return plot.Panels(2, epochs, work)
}
