package main

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"hvae/bench/command"
	"hvae/gaussian/model"
)

// options holds the values of the flags.
type options struct {
	dims     []int
	methods  []string
	datasets int
	config   model.Config
	out      string
	json     bool
	twoModes bool
	http     string // address of the page about two modes; empty for none
}

// maxDims is the largest dimension. A larger one, probably a typing error, would need more memory
// than computers have.
const maxDims = 100_000

// parse parses the command line.
func parse(args []string) (options, error) {
	o := options{methods: model.MethodNames()}
	f := command.NewFlags()
	f.Func("d", "`dimension` of the model, or several separated by commas (default 50);\nthe paper's figure has 1,2,3,5,11,25,51,101,201,301", func(s string) (err error) {
		o.dims, err = parseDims(s)
		return err
	})
	f.Func("methods", "`methods` to run, separated by commas (default all:\n"+strings.Join(o.methods, ", ")+")", func(s string) (err error) {
		o.methods, err = parseMethods(s)
		return err
	})
	f.Count(&o.datasets, "datasets", 10, 1, "`number` of datasets for each dimension")
	f.Count(&o.config.Points, "n", 10_000, 2, "`number` N of points in a dataset")
	f.Count(&o.config.Iterations, "iters", 30_000, 1, "`number` of optimiser iterations")
	f.Count(&o.config.Draws, "batch", 10, 1, "`number` of draws averaged by each estimate of the ELBO")
	f.Rate(&o.config.Rate, 1e-3, "learning `rate` of RMSProp")
	f.Seed(&o.config.Seed, "seed of all random numbers; the output does not depend on the number of cores")
	f.String(&o.out, "out", "", "`folder` for the figures: figure1a.svg, figure1b.svg and figure1c.svg if -d has\nseveral dimensions, or tempering.svg and trajectory.svg with -two-modes\n(default the current folder)")
	f.Bool(&o.json, "json", "print a JSON object for each method instead of a table")
	f.Bool(&o.twoModes, "two-modes", "instead of the experiment, show the effect of tempering: run Algorithm 1 on a\ntarget with two modes, print a table, and draw tempering.svg and trajectory.svg")
	f.Func("http", "with -two-modes, instead of the table and the figures: serve an interactive page\nat an `address` such as localhost:8080 (port 0 selects a free port)", func(s string) error {
		host, port, err := net.SplitHostPort(s)
		if err != nil {
			return fmt.Errorf("it must be HOST:PORT, such as localhost:8080")
		}
		o.http = net.JoinHostPort(cmp.Or(host, "localhost"), port)
		return nil
	})
	if err := f.Parse(args); err != nil {
		return options{}, err
	}
	switch allowed := []string{"two-modes", "seed", "out", "json"}; {
	case o.http != "" && !o.twoModes:
		return options{}, command.UsageError("-http needs -two-modes")
	case o.http != "":
		allowed = []string{"two-modes", "seed", "http"}
		fallthrough
	case o.twoModes:
		var stray []string
		for _, name := range f.Given() {
			if !slices.Contains(allowed, name) {
				stray = append(stray, "-"+name)
			}
		}
		if stray != nil {
			return options{}, command.UsageError("-two-modes does not use %s; its flags are -%s", strings.Join(stray, ", "), strings.Join(allowed, ", -"))
		}
	}
	if len(o.dims) == 0 {
		o.dims = []int{50}
	}
	return o, nil
}

// parseDims parses a list of dimensions such as 1,2,3.
func parseDims(s string) (dims []int, err error) {
	for field := range strings.SplitSeq(s, ",") {
		d, err := strconv.Atoi(strings.TrimSpace(field))
		switch {
		case err != nil || d < 1 || d > maxDims:
			return nil, fmt.Errorf("%q is not a dimension: give a whole number from 1 to %d, or several separated by commas", field, maxDims)
		case slices.Contains(dims, d):
			return nil, fmt.Errorf("dimension %d is listed twice", d)
		}
		dims = append(dims, d)
	}
	return dims, nil
}

// parseMethods parses a list of methods such as hvae-k1,vb.
func parseMethods(s string) (names []string, err error) {
	for field := range strings.SplitSeq(s, ",") {
		name := strings.TrimSpace(field)
		switch {
		case !slices.Contains(model.MethodNames(), name):
			return nil, fmt.Errorf("unknown method %q: the methods are %s", name, strings.Join(model.MethodNames(), ", "))
		case slices.Contains(names, name):
			return nil, fmt.Errorf("method %s is listed twice", name)
		}
		names = append(names, name)
	}
	return names, nil
}
