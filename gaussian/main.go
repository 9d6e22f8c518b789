// Gaussian runs the experiment of section 4.1 of the HVAE paper: variational methods estimate the parameters of a
// Gaussian model, whose evidence is known exactly.
//
//	go run ./gaussian -d 50
//
// Package gaussian/model contains the model and the methods.
package main

import (
	"flag"
	"math"
	"slices"
	"strconv"
	"strings"

	"hvae/bench/command"
	"hvae/gaussian/model"
)

func main() { command.Main("gaussian", run) }

const about = `Runs the Gaussian experiment of the HVAE paper (section 4.1). Prints for each method
the errors of the estimated parameters and the gap between its bound and the exact
log evidence. For example:

    gaussian -d 50
    gaussian -d 1,2,5,10 -datasets 3 -out figures
    gaussian -two-modes -http localhost:8080`

// options holds the values of the flags.
type options struct {
	dims                []int
	methods             []string
	datasets            int
	config              model.Config
	json, gap, twoModes bool
	out, http           string
}

// parse parses the flags and checks their values.
func parse(args []string) (o options, err error) {
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
	f.Uint64Var(&o.config.Seed, "seed", 1, "seed for all random numbers; the output does not depend on the number of cores")
	f.StringVar(&o.out, "out", "", "draw figure1a.svg and figure1b.svg in this `folder`")
	f.BoolVar(&o.json, "json", false, "print a JSON object for each row instead of a table")
	f.BoolVar(&o.gap, "gap", false, `with -out, draw gap.svg, the gap between log p(D) and the ELBO against K, instead of figure 1`)
	f.BoolVar(&o.twoModes, "two-modes", false, `instead of running the experiment, show the effect of tempering: apply Algorithm 1
to a target with two modes, print a table, and with -out draw trajectory.svg`)
	f.StringVar(&o.http, "http", "", "serve an interactive web page about the target with two modes at this `address`,\n"+
		"such as localhost:8080 (port 0 selects a free port)")
	if err := command.Parse(f, about, args); err != nil {
		return o, err
	}
	check := func(valid bool, format string, args ...any) {
		if !valid {
			err = command.Usage(format, args...)
		}
	}
	for _, field := range strings.Split(*dims, ",") {
		d, parseErr := strconv.Atoi(field)
		o.dims = append(o.dims, d)
		valid := parseErr == nil && d >= 1 && d <= 100_000 // a larger dimension is probably a typing error
		check(valid, "invalid value %q for flag -d: each dimension must be a whole number from 1 to 100000", *dims)
	}
	o.methods = strings.Split(*methods, ",")
	for _, name := range o.methods {
		check(model.MethodName.MatchString(name), "unknown method %q: gaussian -h lists the methods", name)
	}
	for name, value := range map[string]int{"datasets": o.datasets, "iters": o.config.Iterations, "batch": o.config.Draws} {
		check(value >= 1 && value <= 1e8, "invalid value %d for flag -%s: it must be from 1 to 100000000", value, name)
	}
	n := o.config.Points
	check(n >= 2 && n <= 1e8, "invalid value %d for flag -n: it must be from 2 to 100000000", n)
	rate := o.config.Rate
	check(rate > 0 && !math.IsInf(rate, 0), "invalid value %v for flag -lr: it must be a positive finite number", rate)
	check(!o.gap || o.out != "", "-gap has no effect without -out")
	f.Visit(func(g *flag.Flag) {
		switch {
		case o.http != "":
			check(slices.Contains([]string{"http", "two-modes", "seed"}, g.Name), "-%s has no effect with -http", g.Name)
		case o.twoModes:
			check(slices.Contains([]string{"two-modes", "seed", "out"}, g.Name), "-%s has no effect with -two-modes", g.Name)
		}
	})
	return o, err
}
