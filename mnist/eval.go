package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

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
	var checkpoint, folder, k, method, out string
	var simulated, asJSON bool
	var o eval.Options
	f := flag.NewFlagSet("mnist eval", flag.ContinueOnError)
	modelFlag(f, &checkpoint)
	dataFlag(f, &folder)
	f.IntVar(&o.N, "limit", 0, "`number` of images to evaluate, starting with the first; 0 for all (10,000 with -simulated)")
	f.IntVar(&o.Samples, "samples", 1000, "`number` of importance samples for each image")
	f.IntVar(&o.Runs, "runs", 3, "`number` of runs, each with freshly binarised images; ± is the standard deviation over runs")
	f.StringVar(&k, "K", "", "`number` of leapfrog steps; only 0 is allowed, for the estimate p(x, z_0)/q(z_0|x) of an HVAE without its flow\n(default the model's K)")
	f.StringVar(&method, "method", "is", "`method`: 'is' (importance sampling only) or 'ais' (annealed importance sampling as well, which gives tighter bounds\non log p(x) and takes longer)")
	f.IntVar(&o.Steps, "steps", 1000, "`number` of steps from the variational prior to the posterior, for -method ais")
	f.IntVar(&o.Chains, "chains", 16, "`number` of chains for each image, for -method ais")
	f.BoolVar(&simulated, "simulated", false, "evaluate images drawn from the model instead of test images, which also gives an upper bound on log p(x)")
	f.Uint64Var(&o.Seed, "seed", 1, "seed for binarisation and noise")
	f.BoolVar(&asJSON, "json", false, "print a JSON object, which also contains the values of each image")
	f.StringVar(&out, "o", "", "`file` for the JSON object")
	if err := command.Parse(f, aboutEval, args, stdout); err != nil {
		return err
	}
	switch {
	case min(o.N+1, o.Samples, o.Runs, o.Steps-1, o.Chains) < 1 || max(o.N, o.Samples, o.Runs, o.Steps, o.Chains) > 1e6:
		return command.Usage("-samples, -runs and -chains must be from 1 to 1000000, -steps from 2, and -limit from 0")
	case k != "" && k != "0":
		return command.Usage("invalid value %q for flag -K: the model's K can only be replaced by 0", k)
	case method != "is" && method != "ais":
		return command.Usage("invalid value %q for flag -method: it must be 'is' or 'ais'", method)
	case method == "is" && given(f, "steps", "chains"):
		return command.Usage("-steps and -chains require -method ais")
	case simulated && given(f, "data"):
		return command.Usage("-data has no effect with -simulated, which draws images from the model")
	}
	c, err := readCheckpoint(checkpoint)
	if err == nil {
		_, err = os.Stat(filepath.Dir(out)) // before the evaluation, which may take hours
	}
	if err != nil {
		return err
	}
	e := evaluation{Epoch: c.Epoch, Seed: o.Seed}
	if info, err := os.Stat(checkpoint); err == nil && info.IsDir() && k == "" {
		s, err := readState(checkpoint)
		if err != nil {
			return err
		}
		e.Settings = s.Settings
	}
	if k == "0" {
		c.Config = model.Config{Kind: c.Config.Kind, Tempering: "none", Latent: c.Config.Latent}
	}
	if method == "is" {
		o.Chains = 0
	}
	if simulated {
		o.N = cmp.Or(o.N, 10_000)
	} else {
		set, err := data.Load(ctx, folder, stderr)
		if err != nil {
			return err
		}
		if o.N > set.Test.Len() {
			return command.Usage("invalid value %d for flag -limit: there are %d test images", o.N, set.Test.Len())
		}
		o.Set = &set
		o.N = cmp.Or(o.N, set.Test.Len())
	}
	e.Evaluation, err = eval.Evaluate(ctx, c, o, stderr)
	if err != nil {
		return fmt.Errorf("%s: %w", checkpoint, err)
	}
	object, _ := json.Marshal(e) // cannot fail, because eval.Evaluate returns only finite numbers
	text := fmt.Sprintf("%v, epoch %d, on %d images (%s), %d samples each, runs: %d, %.0f s\n%v",
		c.Config, c.Epoch, e.Images, e.Data, e.Samples, e.Runs, e.Seconds, e.Evaluation)
	if asJSON {
		text = string(object) + "\n"
	}
	if out != "" {
		err = command.WriteFile(out, append(object, '\n'), os.Rename)
	}
	_, failed := io.WriteString(stdout, text)
	return cmp.Or(err, failed)
}
