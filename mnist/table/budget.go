package table

import (
	"hvae/bench/plot"
	"hvae/mnist/eval"
	"hvae/mnist/model"
)

// leastELBO is the smallest validation ELBO in nats that budget draws. The first epochs are far
// below and would compress the rest.
const leastELBO = -120

// budget draws the validation ELBO of each row against epochs (left) and against work (right):
// means over seeds with bands of one standard deviation. Work is the number of multiply-adds of
// training in units of a VAE's epoch, because other processes affect times. Without an HVAE,
// budget returns nil.
func budget(rows []row, results []result) []byte {
	epochs := plot.Chart{Title: "At equal epochs", XLabel: "epoch", YLabel: "validation ELBO ± s.d. over seeds (nats)", LogX: true}
	work := plot.Chart{Title: "At equal work", XLabel: "work (epochs of a VAE)", YLabel: epochs.YLabel, LogX: true}
	hvae := false
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
		hvae = hvae || r.K > 0
		cost := float64(r.config.StepCost()) / float64(model.Config{Latent: r.config.Latent}.StepCost())
		s := plot.Series{Label: r.Row, Style: plot.Band}
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
