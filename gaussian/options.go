package main

import (
	"flag"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"hvae/gaussian/model"
)

// options is what the command line asks for.
type options struct {
	dims     []int
	methods  []string
	datasets int
	config   model.Config
	out      string
	json     bool
	twoModes bool
}

// The largest values that flags take: beyond them, a mistyped number would ask for
// more memory than machines have.
const (
	maxDims  = 100_000
	maxCount = 100_000_000
)

// parse reads the command line. For -h it prints the usage to help and returns
// flag.ErrHelp.
func parse(args []string, help io.Writer) (options, error) {
	o := options{methods: model.MethodNames()}
	f := flag.NewFlagSet("gaussian", flag.ContinueOnError)
	f.SetOutput(io.Discard) // errors are returned, and told in one line
	f.Func("d", "`dimension` of the model, or several separated by commas (default 50);\nthe paper's figure is -d 1,2,3,5,11,25,51,101,201,301", func(s string) (err error) {
		o.dims, err = parseDims(s)
		return err
	})
	f.Func("methods", "`methods` to run, separated by commas (default all:\n"+strings.Join(o.methods, ", ")+")", func(s string) (err error) {
		o.methods, err = parseMethods(s)
		return err
	})
	count(f, &o.datasets, "datasets", 10, 1, "`number` of datasets for each dimension")
	count(f, &o.config.Points, "n", 10_000, 2, "`number` N of points in a dataset")
	count(f, &o.config.Iterations, "iters", 30_000, 1, "`number` of optimiser iterations")
	count(f, &o.config.Draws, "batch", 10, 1, "`number` of draws that each estimate of the ELBO averages")
	f.Float64Var(&o.config.Rate, "lr", 1e-3, "learning `rate` of RMSProp")
	f.Uint64Var(&o.config.Seed, "seed", 1, "seed: the same one gives the same bits, on any number of cores")
	f.StringVar(&o.out, "out", "", "`folder` for figure1a.svg and figure1b.svg, which several dimensions\ngive, or tempering.svg (default the current one)")
	f.BoolVar(&o.json, "json", false, "print a JSON object for each method instead of a table")
	f.BoolVar(&o.twoModes, "two-modes", false, "instead of the experiment, show what tempering is for: Algorithm 1 on a target\nwith two modes, as a table and as tempering.svg")
	if err := f.Parse(args); err != nil {
		if err == flag.ErrHelp {
			fmt.Fprintln(help, "Usage: go run ./gaussian [flags]\n\nRuns the Gaussian experiment of the HVAE paper (section 5.1) and prints, for each\nmethod, the errors of the estimated parameters and the gap between its bound and\nthe exact evidence.")
			fmt.Fprintln(help)
			f.SetOutput(help)
			f.PrintDefaults()
		}
		return options{}, err
	}
	if f.NArg() > 0 {
		return options{}, fmt.Errorf("stray argument %q: everything is given by flags", f.Arg(0))
	}
	if !(o.config.Rate > 0) || math.IsInf(o.config.Rate, 0) {
		return options{}, fmt.Errorf("invalid value %v for flag -lr: a learning rate is a positive number", o.config.Rate)
	}
	if o.twoModes {
		var stray []string
		f.Visit(func(set *flag.Flag) {
			if !slices.Contains([]string{"two-modes", "seed", "out", "json"}, set.Name) {
				stray = append(stray, "-"+set.Name)
			}
		})
		if stray != nil {
			return options{}, fmt.Errorf("-two-modes is not about %s: of the other flags it takes -seed, -out and -json", strings.Join(stray, ", "))
		}
	}
	if len(o.dims) == 0 {
		o.dims = []int{50}
	}
	return o, nil
}

// count defines a flag for a whole number that is at least a minimum.
func count(f *flag.FlagSet, p *int, name string, value, minimum int, usage string) {
	*p = value
	f.Func(name, fmt.Sprintf("%s (default %d)", usage, value), func(s string) error {
		n, err := strconv.Atoi(s)
		if err != nil || n < minimum || n > maxCount {
			return fmt.Errorf("it must be a whole number from %d to %d", minimum, maxCount)
		}
		*p = n
		return nil
	})
}

// parseDims reads a list of dimensions such as 1,2,3.
func parseDims(s string) (dims []int, err error) {
	for field := range strings.SplitSeq(s, ",") {
		d, err := strconv.Atoi(strings.TrimSpace(field))
		switch {
		case err != nil || d < 1 || d > maxDims:
			return nil, fmt.Errorf("%q is not a dimension: give a whole number from 1 to %d, or several separated by commas", field, maxDims)
		case slices.Contains(dims, d):
			return nil, fmt.Errorf("dimension %d is there twice", d)
		}
		dims = append(dims, d)
	}
	return dims, nil
}

// parseMethods reads a list of methods such as hvae-k1,vb.
func parseMethods(s string) (names []string, err error) {
	for field := range strings.SplitSeq(s, ",") {
		name := strings.TrimSpace(field)
		switch {
		case !slices.Contains(model.MethodNames(), name):
			return nil, fmt.Errorf("unknown method %q: the methods are %s", name, strings.Join(model.MethodNames(), ", "))
		case slices.Contains(names, name):
			return nil, fmt.Errorf("method %s is there twice", name)
		}
		names = append(names, name)
	}
	return names, nil
}
