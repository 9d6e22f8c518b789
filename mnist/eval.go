package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"hvae/bench/command"
	"hvae/mnist/eval"
	"hvae/mnist/model"
	"hvae/mnist/run"
)

// evaluate runs the eval command.
func evaluate(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := command.NewFlags()
	var checkpoint, split, method string
	var source run.Source
	var limit int
	var options eval.Options
	var annealing model.Annealing
	var simulated, withoutFlow, asJSON bool
	var seed uint64
	f.StringVar(&checkpoint, "checkpoint", "", "`file` of the model (required)")
	source.DefineFlags(f)
	f.StringVar(&split, "split", "test", "`images` to evaluate: test or validation")
	f.Count(&limit, "limit", 0, 0, "`number` of images to evaluate, starting with the first; 0 for all, or 10,000 with -simulated")
	f.Count(&options.Samples, "samples", 1000, 1, "`number` of importance samples for each image")
	f.Func("K", "evaluate an HVAE with this `number` of leapfrog steps: only 0, for the estimate p(x, z_0)/q(z_0|x) without the flow\n(default the model's K)", func(k string) error {
		if withoutFlow = k == "0"; !withoutFlow {
			return errors.New("the model's K can only be replaced by 0")
		}
		return nil
	})
	f.Count(&options.Runs, "runs", 3, 1, "`number` of runs, each with freshly binarised images; ± is the standard deviation over runs")
	f.StringVar(&method, "method", "is", "`method`: 'is' (importance sampling only) or 'ais' (annealed importance sampling as well, which\ngives tighter bounds on log p(x) and takes longer)")
	f.Count(&annealing.Steps, "steps", 1000, 1, "`number` of steps from the variational prior to the posterior, for -method ais")
	f.Count(&annealing.Chains, "chains", 16, 1, "`number` of chains for each image, for -method ais")
	f.BoolVar(&simulated, "simulated", false, "for -method ais: evaluate images drawn from the model, which also gives an upper bound on log p(x)")
	f.Uint64Var(&seed, "seed", 1, "seed for binarisation and noise")
	f.BoolVar(&asJSON, "json", false, "print a JSON object")
	if err := f.Parse(args); err != nil {
		return err
	}
	if method != "is" && method != "ais" {
		return command.UsageError("invalid value %q for flag -method: it must be 'is' or 'ais'", method)
	}
	for _, flag := range f.Given() {
		if method == "is" && slices.Contains([]string{"steps", "chains", "simulated"}, flag) {
			return command.UsageError("-%s requires -method ais", flag)
		}
		if simulated && slices.Contains([]string{"data", "split"}, flag) {
			return command.UsageError("-%s has no effect with -simulated, which draws images from the model", flag)
		}
	}
	if split != "test" && split != "validation" {
		return command.UsageError("invalid value %q for flag -split: it must be test or validation", split)
	}
	c, err := readCheckpoint(checkpoint, stderr)
	if err != nil {
		return err
	}
	if withoutFlow {
		c = c.WithoutFlow()
	}
	var images eval.Dataset
	elsewhere, description := "", "images drawn from the model"
	if simulated {
		if limit == 0 {
			limit = 10_000
		}
		images = eval.Simulated(limit, seed)
	} else {
		set, err := source.Load(ctx, stderr)
		if err != nil {
			return err
		}
		if elsewhere = otherData(c, set); elsewhere != "" {
			fmt.Fprintf(stderr, "note: the model was%s not on these images\n", elsewhere)
		}
		images, description = eval.Split(set, split, c.Seed, seed), fmt.Sprintf("%s images of %s", split, set.Name)
		if n := len(images.Indices); limit > n {
			return command.UsageError("invalid value %d for flag -limit: the %s split has %d images", limit, split, n)
		}
		if limit > 0 {
			images.Indices = images.Indices[:limit]
		}
	}
	options.Model = checkpoint
	if method == "ais" {
		options.Annealing = &annealing
	}
	e, err := eval.Evaluate(ctx, c, images, options, stderr)
	if err != nil {
		return err
	}
	if asJSON {
		return json.NewEncoder(stdout).Encode(e)
	}
	runs := "one run"
	if e.Runs > 1 {
		runs = fmt.Sprintf("%d runs", e.Runs)
	}
	_, err = fmt.Fprintf(stdout, "%v, epoch %d,%s on %d %s, %d samples each, %s, %.0f s\n%v", c.Config, c.Epoch, elsewhere,
		e.Images, description, e.Samples, runs, e.Seconds, e)
	return err
}
