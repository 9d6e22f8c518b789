package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"

	"hvae/bench/command"
	"hvae/mnist/data"
	"hvae/mnist/eval"
	"hvae/mnist/model"
)

const aboutEval = `Estimates a model's ELBO and negative log-likelihood.
For example, on the first 1,000 test images: mnist eval -checkpoint runs/vae -limit 1000`

// An evaluation is the JSON object of the eval command.
type evaluation struct {
	eval.Evaluation
	Epoch    int             `json:"epoch"`              // number of epochs trained
	Seed     uint64          `json:"seed"`               // of the evaluation
	Settings *model.Settings `json:"settings,omitempty"` // of the run, if -checkpoint is its folder
}

// evalFlags are the flags of the eval command.
type evalFlags struct {
	checkpoint, data, k, method, out string
	limit                            int
	seed                             uint64
	simulated, json                  bool
	options                          eval.Options
}

// parse parses the command line. It returns an error if flags are invalid or contradict each other.
func (e *evalFlags) parse(args []string) error {
	f, o := flag.NewFlagSet("mnist eval", flag.ContinueOnError), &e.options
	modelFlag(f, &e.checkpoint)
	dataFlag(f, &e.data)
	f.IntVar(&e.limit, "limit", 0, "`number` of images to evaluate, starting with the first; 0 for all (10,000 with -simulated)")
	f.IntVar(&o.Samples, "samples", 1000, "`number` of importance samples for each image")
	f.IntVar(&o.Runs, "runs", 3, "`number` of runs, each with freshly binarised images; ± is the standard deviation over runs")
	f.StringVar(&e.k, "K", "", "evaluate an HVAE with this `number` of leapfrog steps: only 0, for the estimate p(x, z_0)/q(z_0|x)\n"+
		"without the flow (default the model's K)")
	f.StringVar(&e.method, "method", "is", "`method`: 'is' (importance sampling only) or 'ais' (annealed importance sampling as\n"+
		"well, which gives tighter bounds on log p(x) and takes longer)")
	f.IntVar(&o.Steps, "steps", 1000, "`number` of steps from the variational prior to the posterior, for -method ais")
	f.IntVar(&o.Chains, "chains", 16, "`number` of chains for each image, for -method ais")
	f.BoolVar(&e.simulated, "simulated", false, "evaluate images drawn from the model, which also gives an upper bound on log p(x)")
	f.Uint64Var(&e.seed, "seed", 1, "seed for binarisation and noise")
	f.BoolVar(&e.json, "json", false, "print a JSON object, which also contains the values of each image")
	f.StringVar(&e.out, "o", "", "`file` for the JSON object")
	if err := command.Parse(f, aboutEval, args); err != nil {
		return err
	}
	switch {
	case e.limit < 0 || o.Samples < 1 || o.Runs < 1 || o.Steps < 2 || o.Chains < 1:
		return command.Usage("-samples, -runs and -chains must be at least 1, -steps at least 2, and -limit at least 0")
	case given(f, "K") && e.k != "0":
		return command.Usage("invalid value %q for flag -K: the model's K can only be replaced by 0", e.k)
	case e.method != "is" && e.method != "ais":
		return command.Usage("invalid value %q for flag -method: it must be 'is' or 'ais'", e.method)
	case e.method == "is" && (given(f, "steps") || given(f, "chains")):
		return command.Usage("-steps and -chains require -method ais")
	case e.simulated && given(f, "data"):
		return command.Usage("-data has no effect with -simulated, which draws images from the model")
	case e.method == "is":
		o.Chains = 0
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
	e := evaluation{Epoch: c.Epoch, Seed: f.seed}
	if isFolder(f.checkpoint) && f.k == "" {
		s, err := readState(f.checkpoint)
		if err != nil {
			return err
		}
		if s != nil {
			e.Settings = &s.Settings
		}
	}
	if f.k == "0" {
		c = c.WithoutFlow()
	}
	images := eval.Images{N: cmp.Or(f.limit, 10_000), Seed: f.seed}
	description := "images drawn from the model"
	if !f.simulated {
		load := data.LoadTest
		if f.method == "ais" {
			load = data.Load // because AIS is tuned on validation images
		}
		images.Set, err = loadTestImages(load, f.data, c, f.limit, "limit", stderr)
		if err != nil {
			return err
		}
		images.N = cmp.Or(f.limit, images.Set.Test.Len())
		description = "test images of " + images.Set.Name
	}
	e.Evaluation, err = eval.Evaluate(ctx, c, images, f.options, stderr)
	if err != nil {
		return fmt.Errorf("%s: %w", f.checkpoint, err)
	}
	object, _ := json.Marshal(e) // cannot fail, because eval.Evaluate returns only finite numbers
	text := fmt.Sprintf("%v, epoch %d, on %d %s, %d samples each, runs: %d, %.0f s\n%v",
		c.Config, c.Epoch, e.Images, description, e.Samples, e.Runs, e.Seconds, e.Evaluation)
	if f.json {
		text = string(object) + "\n"
	}
	if f.out != "" {
		err = command.WriteFile(f.out, append(object, '\n'), os.Rename)
	}
	_, failed := io.WriteString(stdout, text)
	return cmp.Or(err, failed)
}
