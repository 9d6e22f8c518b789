package main

import (
	"fmt"

	"hvae/gaussian/model"
)

// table returns the lines of the table for the last element of rows, with a header before the first row of each
// dimension, and the maximum-likelihood estimate after the last row. It shows a dash for 0, a missing value.
func (o options) table(rows []model.Outcome) (text string) {
	line := func(cells ...any) {
		text += fmt.Sprintf("%-16s %10v %10v %20v %10v %12v %12v %10v %8v\n", cells...)
	}
	tenths := func(x float64) string { return fmt.Sprintf("%.1f", x) }
	four := func(x float64) string {
		if x == 0 {
			return "–"
		}
		return fmt.Sprintf("%.4g", x)
	}
	sum := func(x, se float64) string {
		if se == 0 {
			return four(x)
		}
		return fmt.Sprintf("%.4g ± %.2g", x, se)
	}
	n := len(rows)
	r := rows[n-1]
	if (n-1)%len(o.methods) == 0 {
		text = fmt.Sprintf("d = %d: %s of %d points, %s of %s, learning rate %g, seed %d\n", r.Dims, count(r.Datasets, "dataset"),
			o.config.Points, count(o.config.Iterations, "iteration"), count(o.config.Draws, "draw"), o.config.Rate, o.config.Seed)
		line("method", "Δ error", "σ error", "sum ± s.e.", "β₀", "ELBO", "log p(D)", "gap", "seconds")
	}
	line(r.Method, four(r.DeltaErr), four(r.SigmaErr), sum(r.Err, r.ErrSE), four(r.Beta0), tenths(r.ELBO), tenths(r.LogEvidence), tenths(r.Gap), tenths(r.Seconds))
	if n%len(o.methods) == 0 {
		line("max. likelihood", four(r.MLEDeltaErr), four(r.MLESigmaErr), sum(r.MLEDeltaErr+r.MLESigmaErr, r.MLEErrSE), "", "", tenths(r.MLEEvidence), "", "")
		text += "\n"
	}
	return text
}

// count returns a number and a noun, such as "1 dataset" or "10 datasets".
func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprint(n, " ", noun)
}
