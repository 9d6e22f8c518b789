// Gaussian runs the experiment of section 4.1 of the HVAE paper: variational methods estimate the parameters of a
// Gaussian model, whose evidence is known exactly.
//
//	go run ./gaussian -d 50
//
// Package gaussian/model contains the model and the methods. This package contains the flags (main.go), the runs with
// their table and figures (run.go), and -two-modes with its page (twomodes.go).
package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"hvae/bench/command"
	"hvae/gaussian/model"
)

func main() { program.Main() }

var program = command.Program{
	Name: "gaussian",
	Commands: map[string]command.Command{"": {
		About: `Runs the Gaussian experiment of the HVAE paper (section 4.1). Prints for each method
the errors of the estimated parameters and the gap between its bound and the exact
log evidence. For example:

    gaussian -d 50
    gaussian -d 1,2,5,10 -datasets 3 -out figures`,
		Common: []string{"d", "methods", "datasets", "out", "json"},
		Run:    run,
	}},
}

// options holds the values of the flags.
type options struct {
	dims                []int
	methods             []string
	datasets            int
	config              model.Config
	json, gap, twoModes bool
	out, redraw, http   string // folder of the figures, file with the results to draw, and address of the page
}

// parse parses the flags. It returns an error if they are invalid or cannot be combined.
func parse(args []string) (options, error) {
	paper := slices.DeleteFunc(model.MethodNames(), func(name string) bool { return strings.Contains(name, "untied") })
	o := options{dims: []int{50}, methods: paper}
	f := command.NewFlags()
	command.List(f, &o.dims, "d", "`dimension` d of the model, or several dimensions separated by commas (default 50);\nfigure 1 of the paper uses 1,2,3,5,11,25,51,101,201,301", func(field string) (int, error) {
		d, err := strconv.Atoi(field)
		if err != nil || d < 1 || d > 100_000 { // a larger dimension is probably a typing error
			return 0, fmt.Errorf("each dimension must be a whole number from 1 to 100000, not %q", field)
		}
		return d, nil
	})
	command.List(f, &o.methods, "methods", "`methods` to run, separated by commas; the default is the methods of the paper:\n"+strings.Join(paper, ", ")+".\nOther methods are hvae-untied-k1 and -k10, and K may be any number of steps or layers", func(name string) (string, error) {
		if !model.MethodName.MatchString(name) {
			return "", fmt.Errorf("unknown method %q: a method must be vb, hvae-kK, hvae-notemp-kK, hvae-untied-kK or nf-kK, where K is the number of steps or layers", name)
		}
		return name, nil
	})
	f.Count(&o.datasets, "datasets", 10, 1, "`number` of datasets for each dimension")
	f.Count(&o.config.Points, "n", 10_000, 2, "`number` N of points in a dataset")
	f.Count(&o.config.Iterations, "iters", 30_000, 1, "`number` of optimiser iterations")
	f.Count(&o.config.Draws, "batch", 10, 1, "`number` of draws over which each iteration averages the ELBO")
	f.Float64Var(&o.config.Rate, "lr", 1e-3, "learning `rate` of RMSProp")
	f.Uint64Var(&o.config.Seed, "seed", 1, "seed for all random numbers; the output does not depend on the number of cores")
	f.StringVar(&o.out, "out", "", "`folder` for the figures, which are figure1a.svg and figure1b.svg. Without -out, they are drawn\nfor several dimensions in -d, into the current folder, and existing figures are not replaced")
	f.BoolVar(&o.json, "json", false, "print a JSON object for each row instead of a table")
	f.StringVar(&o.redraw, "redraw", "", "only draw the figures of the results in this `file`, the output of -json")
	f.BoolVar(&o.gap, "gap", false, "draw gap.svg, the gap between log p(D) and the ELBO against K, instead of figure 1")
	f.BoolVar(&o.twoModes, "two-modes", false, "instead of running the experiment, show the effect of tempering: apply Algorithm 1\nto a target with two modes, print a table, and draw trajectory.svg")
	f.StringVar(&o.http, "http", "", "like -two-modes, but instead of the table and the figure, serve an interactive web page at\nthis `address`, such as localhost:8080 (port 0 selects a free port)")
	if err := f.Parse(args); err != nil {
		return options{}, err
	}
	if !(o.config.Rate > 0) || math.IsInf(o.config.Rate, 0) {
		return o, command.UsageError(`invalid value "%v" for flag -lr: it must be a positive finite number`, o.config.Rate)
	}
	for _, allowed := range []string{"http two-modes seed", "two-modes http seed out json", "redraw gap out"} {
		mode, others, _ := strings.Cut(allowed, " ")
		for _, name := range f.Given() {
			if slices.Contains(f.Given(), mode) && !slices.Contains(strings.Fields(allowed), name) {
				return o, command.UsageError("-%s cannot be combined with -%s: the only flags allowed with -%[1]s are -%[3]s", mode, name, strings.ReplaceAll(others, " ", ", -"))
			}
		}
	}
	return o, nil
}
