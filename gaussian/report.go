package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"

	"hvae/gaussian/model"
)

// A row is what one method achieved in one dimension, averaged over datasets.
type row struct {
	Method      string  `json:"method"`
	Dims        int     `json:"d"`
	Datasets    int     `json:"datasets"`
	DeltaErr    float64 `json:"delta_err"` // mean of ‖Δ − Δ̂‖²
	SigmaErr    float64 `json:"sigma_err"` // mean of ‖σ − σ̂‖²
	SigmaErrSE  number  `json:"sigma_err_se"`
	Err         float64 `json:"err"`    // their sum
	ErrSE       number  `json:"err_se"` // its standard error over datasets
	Beta0       number  `json:"beta0"`
	ELBO        float64 `json:"elbo"`
	LogEvidence float64 `json:"log_evidence"`
	Gap         float64 `json:"gap"`
	MLEDeltaErr float64 `json:"mle_delta_err"`
	MLESigmaErr float64 `json:"mle_sigma_err"`
	MLEErrSE    number  `json:"mle_err_se"`       // standard error of MLEDeltaErr + MLESigmaErr
	MLEEvidence float64 `json:"mle_log_evidence"` // log p(D) at the maximum-likelihood estimate
	Seconds     float64 `json:"seconds"`          // of computing, all datasets together
}

// A number is a float64 that may not exist: as NaN it is null in JSON and a dash in
// the table.
type number float64

func (n number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(n)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

func (n number) String() string {
	if math.IsNaN(float64(n)) {
		return "–"
	}
	return fmt.Sprintf("%.4g", float64(n))
}

// A report collects results and prints rows in order, each as soon as it can.
type report struct {
	o       options
	w       io.Writer
	results [][]result // those of each row, by dataset
	missing []int      // how many of them are not there yet
	rows    []row      // printed ones
}

func newReport(o options, w io.Writer) *report {
	r := &report{o: o, w: w}
	for range len(o.dims) * len(o.methods) {
		r.results = append(r.results, make([]result, o.datasets))
		r.missing = append(r.missing, o.datasets)
	}
	return r
}

// add takes the result of a run, and prints what is complete.
func (r *report) add(res result) error {
	i, k := res.job/r.o.datasets, res.job%r.o.datasets
	r.results[i][k] = res
	r.missing[i]--
	for len(r.rows) < len(r.results) && r.missing[len(r.rows)] == 0 {
		n := len(r.rows)
		r.rows = append(r.rows, average(r.o.methods[n%len(r.o.methods)], r.o.dims[n/len(r.o.methods)], r.results[n]))
		if err := r.print(n); err != nil {
			return fmt.Errorf("cannot write results: %w", err)
		}
	}
	return nil
}

// average averages the results of one method in the order of the datasets.
func average(method string, dims int, results []result) row {
	a := row{Method: method, Dims: dims, Datasets: len(results)}
	n := float64(len(results))
	mean := func(f func(o model.Outcome) float64) float64 {
		sum := 0.0
		for _, r := range results {
			sum += f(r.outcome)
		}
		return sum / n
	}
	standardError := func(f func(o model.Outcome) float64) number {
		m := mean(f)
		return number(math.Sqrt(mean(func(o model.Outcome) float64 { return (f(o) - m) * (f(o) - m) }) / (n - 1)))
	}
	err := func(o model.Outcome) float64 { return o.DeltaErr + o.SigmaErr }
	a.DeltaErr = mean(func(o model.Outcome) float64 { return o.DeltaErr })
	a.SigmaErr = mean(func(o model.Outcome) float64 { return o.SigmaErr })
	a.Err, a.ErrSE = mean(err), standardError(err)
	a.SigmaErrSE = standardError(func(o model.Outcome) float64 { return o.SigmaErr })
	a.Beta0 = number(mean(func(o model.Outcome) float64 { return o.Beta0 }))
	a.ELBO = mean(func(o model.Outcome) float64 { return o.ELBO })
	a.LogEvidence = mean(func(o model.Outcome) float64 { return o.LogEvidence })
	a.Gap = mean(func(o model.Outcome) float64 { return o.LogEvidence - o.ELBO })
	a.MLEDeltaErr = mean(func(o model.Outcome) float64 { return o.MLEDeltaErr })
	a.MLESigmaErr = mean(func(o model.Outcome) float64 { return o.MLESigmaErr })
	a.MLEErrSE = standardError(func(o model.Outcome) float64 { return o.MLEDeltaErr + o.MLESigmaErr })
	a.MLEEvidence = mean(func(o model.Outcome) float64 { return o.MLELogEvidence })
	for _, r := range results {
		a.Seconds += r.seconds
	}
	return a
}

// print prints row n, with the head of the table before the first row of a dimension
// and maximum likelihood's line after the last.
func (r *report) print(n int) error {
	a := r.rows[n]
	if r.o.json {
		return json.NewEncoder(r.w).Encode(a)
	}
	line := func(name, delta, sigma, sum, beta0, elbo, evidence, gap, seconds string) error {
		_, err := fmt.Fprintf(r.w, "%-16s %10s %10s %20s %10s %12s %12s %10s %8s\n", name, delta, sigma, sum, beta0, elbo, evidence, gap, seconds)
		return err
	}
	g := func(x float64) string { return fmt.Sprintf("%.4g", x) }
	f := func(x float64) string { return fmt.Sprintf("%.1f", x) }
	sum := func(x float64, se number) string { return fmt.Sprintf("%.4g ± %.2g", x, float64(se)) }
	if a.Datasets == 1 {
		sum = func(x float64, _ number) string { return g(x) }
	}
	if n%len(r.o.methods) == 0 {
		c := r.o.config
		if _, err := fmt.Fprintf(r.w, "d = %d: %d datasets of %d points, %d iterations of %d draws, learning rate %g, seed %d\n",
			a.Dims, a.Datasets, c.Points, c.Iterations, c.Draws, c.Rate, c.Seed); err != nil {
			return err
		}
		if err := line("method", "Δ error", "σ error", "sum ± s.e.", "β₀", "ELBO", "log p(D)", "gap", "seconds"); err != nil {
			return err
		}
	}
	if err := line(a.Method, g(a.DeltaErr), g(a.SigmaErr), sum(a.Err, a.ErrSE), a.Beta0.String(), f(a.ELBO), f(a.LogEvidence), f(a.Gap), f(a.Seconds)); err != nil {
		return err
	}
	if n%len(r.o.methods) < len(r.o.methods)-1 {
		return nil
	}
	if err := line("max. likelihood", g(a.MLEDeltaErr), g(a.MLESigmaErr), sum(a.MLEDeltaErr+a.MLESigmaErr, a.MLEErrSE), "", "", f(a.MLEEvidence), "", ""); err != nil {
		return err
	}
	_, err := fmt.Fprintln(r.w)
	return err
}
