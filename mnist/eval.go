package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
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

// An evaluation is the JSON object that the eval command prints.
type evaluation struct {
	eval.Evaluation
	Epoch    int            `json:"epoch"`             // number of epochs trained
	Seed     uint64         `json:"seed"`              // of the evaluation
	Settings model.Settings `json:"settings,omitzero"` // of the run, if -checkpoint is its folder
}

// evaluate runs the eval command.
func evaluate(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var f evalFlags
	err := f.parse(args, stdout)
	if err != nil {
		return err
	}
	c, settings, err := f.load(ctx, stderr)
	if err != nil {
		return err
	}
	e := evaluation{Epoch: c.Epoch, Seed: f.Seed, Settings: settings}
	e.Evaluation, err = eval.Evaluate(ctx, c, f.Options, stderr)
	if err != nil {
		return fmt.Errorf("%s: %w", f.checkpoint, err)
	}
	return f.print(c, e, stdout)
}

// evalFlags are the flags of the eval command.
type evalFlags struct {
	// what to evaluate
	checkpoint, data       string
	simulated, withoutFlow bool

	// how to evaluate it
	eval.Options
	method string

	// what to print
	asJSON bool
	out    string
}

// parse parses and checks the flags.
func (e *evalFlags) parse(args []string, stdout io.Writer) error {
	f := flag.NewFlagSet("mnist eval", flag.ContinueOnError)
	modelFlag(f, &e.checkpoint)
	dataFlag(f, &e.data)
	f.IntVar(&e.N, "limit", 0, "`number` of images to evaluate, starting with the first; 0 for all (10,000 with -simulated)")
	f.IntVar(&e.Samples, "samples", 1000, "`number` of importance samples for each image")
	f.IntVar(&e.Runs, "runs", 3, "`number` of runs, each with freshly binarised images; ± is the standard deviation over runs")
	f.Func("K", "`number` of leapfrog steps; only 0 is allowed, for the estimate p(x, z_0)/q(z_0|x) of an HVAE without its flow\n(default the model's K)", func(k string) error {
		e.withoutFlow = k == "0"
		if !e.withoutFlow {
			return errors.New("the model's K can only be replaced by 0")
		}
		return nil
	})
	f.StringVar(&e.method, "method", "is", "`method`: 'is' (importance sampling only) or 'ais' (annealed importance sampling as well, which gives tighter bounds\non log p(x) and takes longer)")
	f.IntVar(&e.Steps, "steps", 1000, "`number` of steps from the variational prior to the posterior, for -method ais")
	f.IntVar(&e.Chains, "chains", 16, "`number` of chains for each image, for -method ais")
	f.BoolVar(&e.simulated, "simulated", false, "evaluate images drawn from the model instead of test images, which also gives an upper bound on log p(x)")
	f.Uint64Var(&e.Seed, "seed", 1, "seed for binarisation and noise")
	f.BoolVar(&e.asJSON, "json", false, "print a JSON object, which also contains the values of each image")
	f.StringVar(&e.out, "o", "", "`file` for the JSON object")
	if err := command.Parse(f, aboutEval, args, stdout); err != nil {
		return err
	}
	switch {
	case min(e.N+1, e.Samples, e.Runs, e.Steps-1, e.Chains) < 1,
		max(e.Samples, e.Steps) > 1e6, max(e.Runs, e.Chains) > 1000, e.N > 1e5: // larger numbers may exceed the memory
		return command.Usage("-runs and -chains must be from 1 to 1000, -samples from 1 and -steps from 2 to 1000000, " +
			"and -limit from 0 to 100000")
	case e.method != "is" && e.method != "ais":
		return command.Usage("invalid value %q for flag -method: it must be 'is' or 'ais'", e.method)
	case e.method == "is" && given(f, "steps", "chains"):
		return command.Usage("-steps and -chains require -method ais")
	case e.simulated && given(f, "data"):
		return command.Usage("-data has no effect with -simulated, which draws images from the model")
	}
	return nil
}

// load returns the model and the settings of its run, and completes e.Options: the images and their number.
func (e *evalFlags) load(ctx context.Context, stderr io.Writer) (model.Checkpoint, model.Settings, error) {
	c, settings, err := readCheckpoint(e.checkpoint)
	if err == nil && e.out != "" {
		err = checkOutput(e.out) // before the evaluation, which may take hours
	}
	if err != nil {
		return c, settings, err
	}
	if e.withoutFlow {
		c.Config = model.Config{Kind: c.Config.Kind, Tempering: "none", Latent: c.Config.Latent}
		settings = model.Settings{}
	}
	if e.method == "is" {
		e.Chains = 0
	}
	if e.simulated {
		e.N = cmp.Or(e.N, 10_000)
		return c, settings, nil
	}
	set, err := data.Load(ctx, e.data, stderr)
	if err == nil && e.N > set.Test.Len() {
		err = command.Usage("invalid value %d for flag -limit: there are %d test images", e.N, set.Test.Len())
	}
	e.Set = &set
	e.N = cmp.Or(e.N, set.Test.Len())
	return c, settings, err
}

// print prints an evaluation of the model c, and writes it to the file e.out.
func (e *evalFlags) print(c model.Checkpoint, v evaluation, stdout io.Writer) error {
	object, err := json.Marshal(v)
	if err != nil { // JSON has no infinite numbers
		return fmt.Errorf("%s: the evaluation is not finite (%w): the model is damaged or has diverged", e.checkpoint, err)
	}
	text := fmt.Sprintf("%v, epoch %d, on %d images (%s), %d samples each, runs: %d, %.0f s\n%v",
		c.Config, c.Epoch, v.Images, v.Data, v.Samples, v.Runs, v.Seconds, v.Evaluation)
	if e.asJSON {
		text = string(object) + "\n"
	}
	if e.out != "" {
		err = command.WriteFile(e.out, append(object, '\n'), os.Rename)
	}
	_, failed := io.WriteString(stdout, text)
	return cmp.Or(err, failed)
}
