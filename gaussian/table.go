package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"hvae/gaussian/model"
	"hvae/linalg"
)

// A row of the table holds averages over all datasets for one method and one number of dimensions. A missing
// value is 0, such as β₀ of VB or the standard error of a single dataset. JSON omits it, and the table shows a dash.
type row struct {
	Method      string  `json:"method"`
	Dims        int     `json:"d"`
	Datasets    int     `json:"datasets"`
	DeltaErr    float64 `json:"delta_err"` // mean of ‖Δ − Δ̂‖²
	SigmaErr    float64 `json:"sigma_err"` // mean of ‖σ − σ̂‖²
	SigmaErrSE  float64 `json:"sigma_err_se,omitzero"`
	Err         float64 `json:"err"`             // mean of ‖Δ − Δ̂‖² + ‖σ − σ̂‖²
	ErrSE       float64 `json:"err_se,omitzero"` // standard error of Err
	Beta0       float64 `json:"beta0,omitzero"`
	Volume      float64 `json:"volume,omitzero"` // s·Π α_k
	ELBO        float64 `json:"elbo"`
	LogEvidence float64 `json:"log_evidence"`
	Gap         float64 `json:"gap"`
	TiedLimit   float64 `json:"tied_limit"` // smallest possible gap of an HVAE with tied tempering
	MLEDeltaErr float64 `json:"mle_delta_err"`
	MLESigmaErr float64 `json:"mle_sigma_err"`
	MLEErrSE    float64 `json:"mle_err_se,omitzero"` // standard error of MLEDeltaErr + MLESigmaErr
	MLEEvidence float64 `json:"mle_log_evidence"`    // log p(D) for the maximum-likelihood estimate
	Seconds     float64 `json:"seconds"`             // total training and evaluation time
}

// A result is the result of training one method on one dataset.
type result struct {
	model.Outcome
	seconds float64 // computing time
}

// average returns a row with the averages of the results of one method in one dimension.
func average(run model.Run, results []result) row {
	n := float64(len(results))
	// mean returns the mean of a quantity and its standard error, or 0 for a single dataset.
	mean := func(f func(r result) float64) (mean, standardError float64) {
		var values []float64
		for _, r := range results {
			values = append(values, f(r))
		}
		if mean, standardError = linalg.MeanSE(values); len(values) == 1 {
			standardError = 0
		}
		return mean, standardError
	}
	r := row{Method: run.Method, Dims: run.Dims, Datasets: len(results)}
	r.DeltaErr, _ = mean(func(r result) float64 { return r.DeltaErr })
	r.SigmaErr, r.SigmaErrSE = mean(func(r result) float64 { return r.SigmaErr })
	r.Err, r.ErrSE = mean(func(r result) float64 { return r.DeltaErr + r.SigmaErr })
	r.Beta0, _ = mean(func(r result) float64 { return r.Beta0 })
	r.Volume, _ = mean(func(r result) float64 { return r.Volume })
	r.ELBO, _ = mean(func(r result) float64 { return r.ELBO })
	r.LogEvidence, _ = mean(func(r result) float64 { return r.LogEvidence })
	r.Gap, _ = mean(func(r result) float64 { return r.LogEvidence - r.ELBO })
	r.TiedLimit, _ = mean(func(r result) float64 { return r.TiedLimit })
	r.MLEDeltaErr, _ = mean(func(r result) float64 { return r.MLEDeltaErr })
	r.MLESigmaErr, _ = mean(func(r result) float64 { return r.MLESigmaErr })
	_, r.MLEErrSE = mean(func(r result) float64 { return r.MLEDeltaErr + r.MLESigmaErr })
	r.MLEEvidence, _ = mean(func(r result) float64 { return r.MLELogEvidence })
	seconds, _ := mean(func(r result) float64 { return r.seconds })
	r.Seconds = n * seconds
	return r
}

// print prints the last element of rows. In the table, it also prints a header before the first row of
// each dimension, and the maximum-likelihood estimate after the last row.
func (o options) print(w io.Writer, rows []row) error {
	n := len(rows)
	a := rows[n-1]
	if o.json {
		return json.NewEncoder(w).Encode(a)
	}
	var b strings.Builder
	line := func(cells ...any) {
		fmt.Fprintf(&b, "%-16s %10v %10v %20v %10v %12v %12v %10v %8v\n", cells...)
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
	if (n-1)%len(o.methods) == 0 {
		fmt.Fprintf(&b, "d = %d: %s of %d points, %s of %s, learning rate %g, seed %d\n", a.Dims, count(a.Datasets, "dataset"), o.config.Points,
			count(o.config.Iterations, "iteration"), count(o.config.Draws, "draw"), o.config.Rate, o.config.Seed)
		line("method", "Δ error", "σ error", "sum ± s.e.", "β₀", "ELBO", "log p(D)", "gap", "seconds")
	}
	line(a.Method, four(a.DeltaErr), four(a.SigmaErr), sum(a.Err, a.ErrSE), four(a.Beta0), tenths(a.ELBO), tenths(a.LogEvidence), tenths(a.Gap), tenths(a.Seconds))
	if n%len(o.methods) == 0 {
		line("max. likelihood", four(a.MLEDeltaErr), four(a.MLESigmaErr), sum(a.MLEDeltaErr+a.MLESigmaErr, a.MLEErrSE), "", "", tenths(a.MLEEvidence), "", "")
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// count returns a number and a noun, such as "1 dataset" or "10 datasets".
func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprint(n, " ", noun)
}
