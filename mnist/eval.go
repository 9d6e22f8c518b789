package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"hvae/bench/command"
	"hvae/mnist/data"
	"hvae/mnist/eval"
)

// evalFlags are the flags of the eval command.
type evalFlags struct {
	checkpoint, data, method, k string
	limit                       int
	seed                        uint64
	simulated, asJSON           bool
	options                     eval.Options
}

// parse parses the command line. It returns an error if flags contradict each other.
func (f *evalFlags) parse(args []string) error {
	flags := command.NewFlags()
	flags.StringVar(&f.checkpoint, "checkpoint", "", "`file` of the model, or the folder of its run (required); its state.safetensors has the weights after\nthe last epoch")
	dataFlag(flags, &f.data)
	flags.Count(&f.limit, "limit", 0, 0, "`number` of images to evaluate, starting with the first, such as 1000; 0 for all (10,000 with -simulated),\nwhich takes hours")
	flags.Count(&f.options.Samples, "samples", 1000, 1, "`number` of importance samples for each image")
	flags.Count(&f.options.Runs, "runs", 3, 1, "`number` of runs, each with freshly binarised images; ± is the standard deviation over runs")
	flags.StringVar(&f.k, "K", "", "evaluate an HVAE with this `number` of leapfrog steps: only 0, for the estimate p(x, z_0)/q(z_0|x) without the flow\n(default the model's K)")
	flags.StringVar(&f.method, "method", "is", "`method`: 'is' (importance sampling only) or 'ais' (annealed importance sampling as well, which\ngives tighter bounds on log p(x) and takes longer)")
	flags.Count(&f.options.Steps, "steps", 1000, 2, "`number` of steps from the variational prior to the posterior, for -method ais")
	flags.Count(&f.options.Chains, "chains", 16, 1, "`number` of chains for each image, for -method ais")
	flags.BoolVar(&f.simulated, "simulated", false, "for -method ais: evaluate images drawn from the model, which also gives an upper bound on log p(x)")
	flags.Uint64Var(&f.seed, "seed", 1, "seed for binarisation and noise")
	flags.BoolVar(&f.asJSON, "json", false, "print a JSON object")
	if err := flags.Parse(args); err != nil {
		return err
	}
	for _, flag := range flags.Given() {
		switch {
		case flag == "K" && f.k != "0":
			return command.UsageError("invalid value %q for flag -K: the model's K can only be replaced by 0", f.k)
		case flag == "data" && f.simulated:
			return command.UsageError("-data has no effect with -simulated, which draws images from the model")
		case f.method == "is" && slices.Contains([]string{"steps", "chains", "simulated"}, flag):
			return command.UsageError("-%s requires -method ais", flag)
		}
	}
	if f.method == "is" {
		f.options.Chains = 0
	} else if f.method != "ais" {
		return command.UsageError("invalid value %q for flag -method: it must be 'is' or 'ais'", f.method)
	}
	return nil
}

// evaluate runs the eval command.
func evaluate(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var f evalFlags
	if err := f.parse(args); err != nil {
		return err
	}
	c, err := readCheckpoint(f.checkpoint)
	if err != nil {
		return err
	}
	if f.k == "0" {
		c = c.WithoutFlow()
	}
	images, description := eval.Images{N: cmp.Or(f.limit, 10_000), Seed: f.seed}, "images drawn from the model"
	if !f.simulated {
		load := data.LoadTest
		if f.method == "ais" {
			load = data.Load // validation images are needed for tuning
		}
		set, err := loadTestImages(load, f.data, c, f.limit, "limit", stderr)
		if err != nil {
			return err
		}
		images = eval.Images{Set: set, N: cmp.Or(f.limit, set.Test.Len()), Seed: f.seed}
		description = "test images of " + set.Name
	}
	e, err := eval.Evaluate(ctx, c, images, f.options, stderr)
	if err != nil {
		return fmt.Errorf("%s: %w", f.checkpoint, err)
	}
	if f.asJSON {
		return json.NewEncoder(stdout).Encode(e)
	}
	_, err = fmt.Fprintf(stdout, "%v, epoch %d, on %d %s, %d samples each, runs: %d, %.0f s\n%v", c.Config, c.Epoch,
		e.Images, description, e.Samples, e.Runs, e.Seconds, e)
	return err
}
