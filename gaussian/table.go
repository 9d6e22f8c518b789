package main

import (
	"fmt"

	"hvae/gaussian/model"
)

// table returns the text to print for the last element of rows. If this is the first row for its dimension d, the text
// begins with a header. If it is the last row for d, the text ends with the maximum-likelihood estimate.
func (o options) table(rows []model.Outcome) (lines string) {
	errors := func(sum, se float64) string {
		if se == 0 { // a single dataset
			return fmt.Sprintf("%.4g", sum)
		}
		return fmt.Sprintf("%.4g ± %.2g", sum, se)
	}
	n := len(rows)
	r, beta0 := rows[n-1], "–"
	if r.Beta0 > 0 {
		beta0 = fmt.Sprintf("%.4g", r.Beta0)
	}
	if (n-1)%len(o.methods) == 0 {
		lines = fmt.Sprintf("d = %d: %s of %d points, %s of %s, learning rate %g, seed %d\n", r.Dims, count(r.Datasets, "dataset"),
			o.config.Points, count(o.config.Iterations, "iteration"), count(o.config.Draws, "draw"), o.config.Rate, o.config.Seed)
		lines += fmt.Sprintf("%-16s %10s %10s %20s %10s %12s %12s %10s %8s\n",
			"method", "Δ error", "σ error", "sum ± s.e.", "β₀", "ELBO", "log p(D)", "gap", "seconds")
	}
	lines += fmt.Sprintf("%-16s %10.4g %10.4g %20s %10s %12.1f %12.1f %10.1f %8.1f\n",
		r.Method, r.DeltaErr, r.SigmaErr, errors(r.Err, r.ErrSE), beta0, r.ELBO, r.LogEvidence, r.Gap, r.Seconds)
	if n%len(o.methods) == 0 {
		lines += fmt.Sprintf("%-16s %10.4g %10.4g %20s %10s %12s %12.1f %10s %8s\n\n",
			"max. likelihood", r.MLEDeltaErr, r.MLESigmaErr, errors(r.MLEDeltaErr+r.MLESigmaErr, r.MLEErrSE), "", "", r.MLEEvidence, "", "")
	}
	return lines
}

// count returns a number and a noun, such as "1 dataset" or "10 datasets".
func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprint(n, " ", noun)
}
