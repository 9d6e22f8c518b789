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

// options is what the command line asks for.
type options struct {
	dims     []int
	methods  []string
	datasets int
	config   model.Config
	out      string
	json     bool
	twoModes bool
	http     string // the address of the page about two modes; empty for none
}

// The largest dimension: beyond it, a mistyped number would ask for more memory than
// machines have.
const maxDims = 100_000

// parse reads the command line.
func parse(args []string) (options, error) {
	o := options{methods: model.MethodNames()}
	f := command.NewFlags()
	f.Func("d", "`dimension` of the model, or several separated by commas (default 50);\nthe paper's figure is -d 1,2,3,5,11,25,51,101,201,301", func(s string) (err error) {
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
	f.Count(&o.config.Draws, "batch", 10, 1, "`number` of draws that each estimate of the ELBO averages")
	f.Rate(&o.config.Rate, 1e-3, "learning `rate` of RMSProp")
	f.Seed(&o.config.Seed, "seed: the same one gives the same bits, on any number of cores")
	f.String(&o.out, "out", "", "`folder` for figure1a.svg, figure1b.svg and figure1c.svg, which several\ndimensions give, or tempering.svg and trajectory.svg (default the current one)")
	f.Bool(&o.json, "json", "print a JSON object for each method instead of a table")
	f.Bool(&o.twoModes, "two-modes", "instead of the experiment, show what tempering is for: Algorithm 1 on a target\nwith two modes, as a table, as tempering.svg, and its paths as trajectory.svg")
	f.Func("http", "with -two-modes: instead of the table and the pictures, serve a page to explore\nthem at an `address` such as localhost:8080 (port 0: any free port)", func(s string) error {
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
	switch takes := []string{"two-modes", "seed", "out", "json"}; {
	case o.http != "" && !o.twoModes:
		return options{}, command.UsageError("-http needs -two-modes")
	case o.http != "":
		takes = []string{"two-modes", "seed", "http"}
		fallthrough
	case o.twoModes:
		var stray []string
		for _, name := range f.Given() {
			if !slices.Contains(takes, name) {
				stray = append(stray, "-"+name)
			}
		}
		if stray != nil {
			return options{}, command.UsageError("-two-modes is not about %s: its flags are -%s", strings.Join(stray, ", "), strings.Join(takes, ", -"))
		}
	}
	if len(o.dims) == 0 {
		o.dims = []int{50}
	}
	return o, nil
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
