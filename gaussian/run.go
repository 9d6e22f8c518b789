package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"hvae/bench/progress"
	"hvae/gaussian/model"
	"hvae/linalg"
)

// run trains each method on each dataset, concurrently on all cores. It prints each row of the table as
// soon as this row and all earlier rows are complete. The number of cores affects only the running times,
// because each run has separate random streams, and the datasets are averaged in a fixed order.
func run(ctx context.Context, o options, stdout, stderr io.Writer) error {
	if err := checkFolder(o); err != nil {
		return err
	}
	var runs []model.Run
	total := 0.0
	for _, d := range o.dims {
		for _, m := range o.methods {
			for k := range o.datasets {
				runs = append(runs, model.Run{Dims: d, Method: m, Dataset: k})
				total += model.Cost(m, d) * float64(o.config.Iterations)
			}
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next, finished, iterations, cost atomic.Int64
	line := progress.New(stderr, 0, func(elapsed time.Duration) string {
		return fmt.Sprintf("%d of %d runs  %.0f iterations/s", finished.Load(), len(runs), float64(iterations.Load())/elapsed.Seconds())
	})
	var mu sync.Mutex                     // guards results, rows and stdout
	results := make([]*result, len(runs)) // results[i] is nil until runs[i] is finished
	var rows []row
	execute := func(i int) error {
		start := time.Now()
		outcome, err := o.config.Train(ctx, runs[i], func(n int) {
			iterations.Add(int64(n))
			done := cost.Add(int64(model.Cost(runs[i].Method, runs[i].Dims)) * int64(n))
			line.Set(float64(done) / total)
		})
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		finished.Add(1)
		line.Clear()
		results[i] = &result{outcome, time.Since(start).Seconds()}
		for n := len(rows) * o.datasets; n < len(runs) && !slices.Contains(results[n:n+o.datasets], nil); n += o.datasets {
			rows = append(rows, average(runs[n].Method, runs[n].Dims, results[n:n+o.datasets]))
			if err := o.print(stdout, rows); err != nil {
				return fmt.Errorf("cannot write results: %w", err)
			}
		}
		return nil
	}
	linalg.For(min(runtime.GOMAXPROCS(0), len(runs)), 1, func(int, int) {
		for i := int(next.Add(1)) - 1; i < len(runs) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
			if err := execute(i); err != nil {
				cancel(err) // ends all runs
			}
		}
	})
	line.Clear()
	switch err := context.Cause(ctx); {
	case errors.Is(err, context.Canceled): // an interrupt
		return fmt.Errorf("%w: %d of %d runs were finished; the completed rows were printed; no files were written", err, finished.Load(), len(runs))
	case err != nil:
		return err
	}
	if len(o.dims) > 1 {
		for _, f := range figures {
			if err := writeFigure(o, f.file, f.chart(rows).SVG(), stderr); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkFolder creates the folder of -out if the flag is set or the program will draw figures. It returns an
// error if the folder is not writable, so that the program fails before training rather than after it.
func checkFolder(o options) error {
	if o.out == "" && len(o.dims) == 1 && !o.twoModes {
		return nil
	}
	folder, probe := filepath.Clean(o.out), ""
	err := os.MkdirAll(folder, 0o755)
	if err == nil {
		probe, err = os.MkdirTemp(folder, ".figure-*")
	}
	if err == nil {
		err = os.Remove(probe)
	}
	if err != nil {
		return fmt.Errorf("cannot write figures to the folder %s: %w; select another folder with -out", folder, err)
	}
	return nil
}

// A row of the table holds averages over all datasets for one method and one number of dimensions.
type row struct {
	Method      string  `json:"method"`
	Dims        int     `json:"d"`
	Datasets    int     `json:"datasets"`
	DeltaErr    float64 `json:"delta_err"` // mean of ‖Δ − Δ̂‖²
	SigmaErr    float64 `json:"sigma_err"` // mean of ‖σ − σ̂‖²
	SigmaErrSE  number  `json:"sigma_err_se"`
	Err         float64 `json:"err"`    // mean of ‖Δ − Δ̂‖² + ‖σ − σ̂‖²
	ErrSE       number  `json:"err_se"` // standard error of Err
	Beta0       number  `json:"beta0"`
	Volume      number  `json:"volume"` // s·Π α_k
	ELBO        float64 `json:"elbo"`
	LogEvidence float64 `json:"log_evidence"`
	Gap         float64 `json:"gap"`
	MLEDeltaErr float64 `json:"mle_delta_err"`
	MLESigmaErr float64 `json:"mle_sigma_err"`
	MLEErrSE    number  `json:"mle_err_se"`       // standard error of MLEDeltaErr + MLESigmaErr
	MLEEvidence float64 `json:"mle_log_evidence"` // log p(D) for the maximum-likelihood estimate
	Seconds     float64 `json:"seconds"`          // total training and evaluation time
}

// A number is a float64. JSON shows a NaN as null, and the table shows it as a dash.
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

// A result is the result of training one method on one dataset.
type result struct {
	model.Outcome
	seconds float64 // computing time
}

// average returns a row with the averages of the results for one method and dimension.
func average(method string, dims int, results []*result) row {
	n := float64(len(results))
	mean := func(f func(r *result) float64) float64 {
		sum := 0.0
		for _, r := range results {
			sum += f(r)
		}
		return sum / n
	}
	standardError := func(f func(r *result) float64) number {
		m := mean(f)
		return number(math.Sqrt(mean(func(r *result) float64 { return (f(r) - m) * (f(r) - m) }) / (n - 1)))
	}
	err := func(r *result) float64 { return r.DeltaErr + r.SigmaErr }
	sigmaErr := func(r *result) float64 { return r.SigmaErr }
	return row{
		Method: method, Dims: dims, Datasets: len(results),
		DeltaErr:    mean(func(r *result) float64 { return r.DeltaErr }),
		SigmaErr:    mean(sigmaErr),
		SigmaErrSE:  standardError(sigmaErr),
		Err:         mean(err),
		ErrSE:       standardError(err),
		Beta0:       number(mean(func(r *result) float64 { return r.Beta0 })),
		Volume:      number(mean(func(r *result) float64 { return r.Volume })),
		ELBO:        mean(func(r *result) float64 { return r.ELBO }),
		LogEvidence: mean(func(r *result) float64 { return r.LogEvidence }),
		Gap:         mean(func(r *result) float64 { return r.LogEvidence - r.ELBO }),
		MLEDeltaErr: mean(func(r *result) float64 { return r.MLEDeltaErr }),
		MLESigmaErr: mean(func(r *result) float64 { return r.MLESigmaErr }),
		MLEErrSE:    standardError(func(r *result) float64 { return r.MLEDeltaErr + r.MLESigmaErr }),
		MLEEvidence: mean(func(r *result) float64 { return r.MLELogEvidence }),
		Seconds:     n * mean(func(r *result) float64 { return r.seconds }),
	}
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
	sum := func(x float64, se number) string {
		if a.Datasets == 1 {
			return number(x).String()
		}
		return fmt.Sprintf("%.4g ± %.2g", x, float64(se))
	}
	if (n-1)%len(o.methods) == 0 {
		fmt.Fprintf(&b, "d = %d: %d datasets of %d points, %d iterations of %d draws, learning rate %g, seed %d\n",
			a.Dims, a.Datasets, o.config.Points, o.config.Iterations, o.config.Draws, o.config.Rate, o.config.Seed)
		line("method", "Δ error", "σ error", "sum ± s.e.", "β₀", "ELBO", "log p(D)", "gap", "seconds")
	}
	line(a.Method, number(a.DeltaErr), number(a.SigmaErr), sum(a.Err, a.ErrSE), a.Beta0,
		tenths(a.ELBO), tenths(a.LogEvidence), tenths(a.Gap), tenths(a.Seconds))
	if n%len(o.methods) == 0 {
		line("max. likelihood", number(a.MLEDeltaErr), number(a.MLESigmaErr), sum(a.MLEDeltaErr+a.MLESigmaErr, a.MLEErrSE), "",
			"", tenths(a.MLEEvidence), "", "")
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}
