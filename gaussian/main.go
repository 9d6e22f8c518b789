// Gaussian runs the experiment of section 4.1 of the HVAE paper: variational methods estimate the parameters of a
// Gaussian model, whose evidence is known exactly.
//
//	go run ./gaussian -d 50
//
// Package gaussian/model contains the model and the methods.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"hvae/bench/command"
	"hvae/bench/plot"
	"hvae/bench/progress"
	"hvae/gaussian/model"
	"hvae/linalg"
)

func main() { command.Main("gaussian", run) }

const about = `Runs the Gaussian experiment of the HVAE paper (section 4.1). Prints for each method
the errors of the estimated parameters and the gap between its bound and the exact
log evidence. For example:

    gaussian -d 50
    gaussian -d 1,2,5,10 -datasets 3 -out figures
    gaussian -two-modes -http localhost:8080`

type options struct {
	dims                []int
	methods             []string
	datasets            int
	config              model.Config
	json, gap, twoModes bool
	out, http           string
}

func parse(args []string, stdout io.Writer) (o options, err error) {
	f := flag.NewFlagSet("gaussian", flag.ContinueOnError)
	dims := f.String("d", "50", `dimension d of the model, or several dimensions separated by commas;
figure 1 of the paper uses 1,2,3,5,11,25,51,101,201,301`)
	methods := f.String("methods", "hvae-k1,hvae-k10,hvae-notemp-k1,hvae-notemp-k10,nf-k1,nf-k30,vb",
		`methods to run, separated by commas: vb, hvae-kK, hvae-notemp-kK, hvae-untied-kK or nf-kK,
where K is the number of steps or layers`)
	f.IntVar(&o.datasets, "datasets", 10, "`number` of datasets for each dimension")
	f.IntVar(&o.config.Points, "n", 10_000, "`number` N of points in a dataset")
	f.IntVar(&o.config.Iterations, "iters", 30_000, "`number` of optimiser iterations")
	f.IntVar(&o.config.Draws, "batch", 10, "`number` of draws over which each iteration averages the ELBO")
	f.Float64Var(&o.config.Rate, "lr", 1e-3, "learning `rate` of RMSProp")
	f.Uint64Var(&o.config.Seed, "seed", 1, "`seed` for all random numbers; the output does not depend on the number of cores")
	f.StringVar(&o.out, "out", "", "draw figure1a.svg and figure1b.svg in this `folder`")
	f.BoolVar(&o.json, "json", false, "print a JSON object for each row instead of a table")
	f.BoolVar(&o.gap, "gap", false, `with -out, draw gap.svg, the gap between log p(D) and the ELBO against K, instead of figure 1`)
	f.BoolVar(&o.twoModes, "two-modes", false, `instead of running the experiment, show the effect of tempering: apply Algorithm 1
to a target with two modes, print a table, and with -out draw trajectory.svg`)
	f.StringVar(&o.http, "http", "", "serve an interactive web page about the target with two modes at this `address`,\n"+
		"such as localhost:8080 (port 0 selects a free port)")
	if err := command.Parse(f, about, args, stdout); err != nil {
		return o, err
	}
	check := func(valid bool, format string, args ...any) {
		if !valid {
			err = command.Usage(format, args...)
		}
	}
	for _, field := range strings.Split(*dims, ",") {
		d, _ := strconv.Atoi(field) // 0 if it is not a number
		o.dims = append(o.dims, d)
		check(d >= 1 && d <= 100_000, "invalid value %q for flag -d: each dimension must be a whole number from 1 to 100000", *dims)
	}
	o.methods = strings.Split(*methods, ",")
	for _, name := range o.methods {
		check(model.MethodName.MatchString(name), "unknown method %q: gaussian -h lists the methods", name)
	}
	for name, v := range map[string][2]int{ // value, limit
		"datasets": {o.datasets, 1e6}, "iters": {o.config.Iterations, 1e8}, "batch": {o.config.Draws, 1e4},
	} {
		check(v[0] >= 1 && v[0] <= v[1], "invalid value %d for flag -%s: it must be from 1 to %d", v[0], name, v[1])
	}
	n, rate := o.config.Points, o.config.Rate
	check(n >= 2 && n <= 1e8, "invalid value %d for flag -n: it must be from 2 to 100000000", n)
	check(rate > 0 && !math.IsInf(rate, 0), "invalid value %v for flag -lr: it must be a positive finite number", rate)
	check(!o.gap || o.out != "", "-gap has no effect without -out")
	f.Visit(func(g *flag.Flag) {
		shared := g.Name == "two-modes" || g.Name == "seed"
		check(!o.twoModes || shared || g.Name == "out" || o.http != "", "-%s has no effect with -two-modes", g.Name)
		check(o.http == "" || shared || g.Name == "http", "-%s has no effect with -http", g.Name)
	})
	return o, err
}

// run serves a web page (-http), or prints a table and then writes figures (-out).
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stdout)
	if err != nil {
		return err
	}
	if o.http != "" {
		return explore(ctx, o.http, o.config.Seed, stdout)
	}
	if o.out != "" {
		if err := os.MkdirAll(o.out, 0o755); err != nil {
			return fmt.Errorf("cannot write figures to the folder %s: %w", o.out, err)
		}
		for name := range o.figures(nil) {
			if err := command.Writable(filepath.Join(o.out, name)); err != nil {
				return err
			}
		}
	}
	var rows []model.Outcome
	if o.twoModes {
		err = compareModes(ctx, o.config.Seed, stdout)
	} else {
		rows, err = o.train(ctx, stdout, stderr)
	}
	if err != nil || o.out == "" {
		return err
	}
	for name, figure := range o.figures(rows) {
		err = cmp.Or(err, command.WriteFile(filepath.Join(o.out, name), figure, os.Rename))
	}
	return err
}

// figures returns a map from file names to SVG figures.
func (o options) figures(rows []model.Outcome) map[string][]byte {
	switch {
	case o.twoModes:
		return map[string][]byte{"trajectory.svg": drawPaths()}
	case o.gap:
		return map[string][]byte{"gap.svg": gapChart(rows)}
	}
	return map[string][]byte{
		"figure1a.svg": errorChart("Comparison across all methods", rows, "hvae", "hvae-untied", "nf", "vb"),
		"figure1b.svg": errorChart("HVAE with and without tempering", rows, "hvae", "hvae-notemp"),
	}
}

// train trains each method in each dimension. It processes the datasets concurrently, and prints and returns the
// outcomes, averaged over the datasets (model.Average).
func (o options) train(ctx context.Context, stdout, stderr io.Writer) (rows []model.Outcome, err error) {
	total := len(o.dims) * len(o.methods) * o.datasets * o.config.Iterations
	line := progress.New(stderr, 0, total, func(rate float64) string { return fmt.Sprintf("%.0f iterations/s", rate) })
	for _, d := range o.dims {
		for _, m := range o.methods {
			outcomes := make([]model.Outcome, o.datasets)
			errs := make([]error, o.datasets)
			linalg.For(o.datasets, 1, func(lo, hi int) {
				for k := lo; k < hi && ctx.Err() == nil; k++ {
					outcomes[k], errs[k] = o.config.Train(ctx, m, d, k, func() { line.Add(1) })
				}
			})
			if err := cmp.Or(ctx.Err(), cmp.Or(errs...)); err != nil {
				return rows, cmp.Or(context.Cause(ctx), err)
			}
			row := model.Average(outcomes)
			rows = append(rows, row)
			if o.json {
				err = json.NewEncoder(stdout).Encode(row)
			} else {
				_, err = io.WriteString(stdout, o.table(rows))
			}
			if err != nil {
				return rows, err
			}
		}
	}
	return rows, nil
}

// table returns the text to print for the newest row, which is the last element of rows. Before the first row of each
// dimension, it also returns a header, and after the last row of each dimension, the maximum-likelihood estimate.
func (o options) table(rows []model.Outcome) (text string) {
	n := len(rows)
	r := rows[n-1]
	sum := strings.TrimSuffix(fmt.Sprintf("%.4g ± %.2g", r.Err, r.ErrSE), " ± 0") // one dataset has no s.e.
	if (n-1)%len(o.methods) == 0 {
		c := o.config
		text = fmt.Sprintf("d = %d: datasets %d, points %d, iterations %d, draws %d, learning rate %g, seed %d\n",
			r.Dims, r.Datasets, c.Points, c.Iterations, c.Draws, c.Rate, c.Seed)
		text += fmt.Sprintf("%-16s %10s %10s %20s %12s %12s %10s %8s\n",
			"method", "Δ error", "σ error", "sum ± s.e.", "ELBO", "log p(D)", "gap", "seconds")
	}
	verb := "f"
	if math.Abs(r.ELBO) >= 1e15 { // more digits than a float64 has
		verb = "g"
	}
	text += fmt.Sprintf("%-16s %10.4g %10.4g %20s %12.1"+verb+" %12.1"+verb+" %10.1"+verb+" %8.1f\n",
		r.Method, r.DeltaErr, r.SigmaErr, sum, r.ELBO, r.LogEvidence, r.Gap, r.Seconds)
	if n%len(o.methods) == 0 {
		text += fmt.Sprintf("%-16s %10.4g %10.4g %20.4g %12s %12.1f\n\n",
			"max. likelihood", r.MLEDeltaErr, r.MLESigmaErr, r.MLEDeltaErr+r.MLESigmaErr, "", r.MLEEvidence)
	}
	return text
}

// errorChart plots the error in θ against the dimension, for methods of the given families and for maximum likelihood.
func errorChart(title string, rows []model.Outcome, families ...string) []byte {
	c := plot.Chart{Title: title, XLabel: "dimension d", YLabel: "mean of ‖θ − θ̂‖² ± s.e.", LogX: true, LogY: true}
	rows = slices.SortedStableFunc(slices.Values(rows), func(a, b model.Outcome) int { return a.Dims - b.Dims })
	for _, r := range rows {
		if family, _ := model.Parse(r.Method); slices.Contains(families, family) {
			c.Add(r.Method, plot.Line, float64(r.Dims), r.Err, r.ErrSE)
		}
		if r.Method == rows[len(rows)-1].Method { // true for one row of each dimension
			c.XTicks = c.Add("max. likelihood", plot.Dashed, float64(r.Dims), r.MLEDeltaErr+r.MLESigmaErr).X
		}
	}
	return plot.Panels(1, c)
}

// gapChart plots the gap log p(D) − ELBO against K for tied and untied tempering, and a lower bound on the gap for tied
// tempering.
func gapChart(rows []model.Outcome) []byte {
	c := plot.Chart{Title: "Does the bound tighten with K?", LogX: true, LogY: true}
	c.XLabel = "number of leapfrog steps K"
	c.YLabel = "log p(D) − ELBO (nats)"
	for _, r := range rows {
		d := fmt.Sprintf("d = %d, ", r.Dims)
		switch family, K := model.Parse(r.Method); family {
		case "hvae":
			c.XTicks = c.Add(d+"tied", plot.Line, float64(K), r.Gap).X
			c.Add(d+"limit for tied flows", plot.Dashed, float64(K), r.TiedLimit)
		case "hvae-untied":
			c.Add(d+"untied", plot.Line, float64(K), r.Gap)
		}
	}
	return plot.Panels(1, c)
}
