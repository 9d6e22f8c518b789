package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"hvae/bench/atomicfile"
	"hvae/bench/command"
	"hvae/mnist/data"
	"hvae/mnist/model"
)

var trainCommand = command.Command{
	About: `Trains a model.
For example, these commands train an HVAE for ten epochs, and continue for ten more:

  mnist train -model hvae -K 5 -tempering free -vary-eps -epochs 10 -out runs/hvae
  mnist train -resume -epochs 20 -out runs/hvae`,
	Common: []string{"model", "K", "tempering", "vary-eps", "epochs", "data", "out", "resume"},
	Run:    train,
}

// trainFlags defines the flags of the train command, which set s, out and resume.
func trainFlags(s *model.Settings, out *string, resume *bool) *command.Flags {
	f := command.NewFlags()
	f.StringVar(&s.Kind, "model", s.Kind, "`model`: vae or hvae")
	f.IntVar(&s.K, "K", s.K, "`number` of leapfrog steps of an HVAE")
	f.StringVar(&s.Tempering, "tempering", s.Tempering, "tempering `scheme` of an HVAE: none, fixed, free or untied")
	f.BoolVar(&s.VaryEps, "vary-eps", s.VaryEps, "learn separate step sizes for each leapfrog step of an HVAE")
	f.IntVar(&s.Latent, "latent", s.Latent, "`number` of latent dimensions")
	f.Float64Var(&s.Eps, "eps", s.Eps, "initial step `size` of the flow; 0 for 0.2")
	f.Float64Var(&s.Alpha, "alpha", s.Alpha, "initial tempering `factor` α of the flow; 0 for 0.9")
	f.IntVar(&s.Draws, "draws", s.Draws, "`number` of draws of log p̂ per image, whose mean is the training bound; 0 for one draw\nand closed forms")
	f.BoolVar(&s.Importance, "importance", s.Importance, "train with the logarithm of the mean of p̂ over the draws")
	f.StringVar(&s.Start, "start", s.Start, "start from the encoder and decoder of a model `file`")
	f.IntVar(&s.Epochs, "epochs", s.Epochs, "maximum `number` of epochs")
	f.IntVar(&s.Patience, "patience", s.Patience, "stop after this `number` of epochs without a better validation ELBO")
	f.IntVar(&s.Train, "train", s.Train, "`number` of training images; 0 for all")
	f.IntVar(&s.Batch, "batch", s.Batch, "`number` of images in a batch")
	f.Float64Var(&s.Rate, "lr", s.Rate, "learning `rate` of Adamax")
	f.Uint64Var(&s.Seed, "seed", s.Seed, "seed for all random numbers; the results are bit-identical on any number of cores")
	f.BoolVar(&s.Recompute, "recompute", s.Recompute, "recompute the leapfrog steps in the backward pass; this makes memory use nearly independent of K\nand training slower, and does not change the results")
	dataFlag(f, &s.Data)
	f.StringVar(out, "out", "", "`folder` for the run's files (required)")
	f.BoolVar(resume, "resume", false, "continue the run in the -out folder with its settings; only -epochs, -patience, -lr, -data\nand -recompute may differ")
	return f
}

// train runs the train command.
func train(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s, out, resume := model.Defaults(), "", false
	flags := trainFlags(&s, &out, &resume)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if out == "" {
		return command.UsageError("-out is missing: specify a folder for the run's files")
	}
	var f *folder
	var old *model.State
	var err error
	if resume {
		if f, err = lockFolder(os.OpenRoot(out)); err != nil {
			return err
		}
		defer f.close()
		if old, err = readState(f.Root); err != nil {
			return fmt.Errorf("cannot resume: %w", err)
		}
		s = old.Settings
		flags.Parse(args) // replace the stored settings by the flags on the command line
		same, o := s, old.Settings
		same.Epochs, same.Patience, same.Rate, same.Data, same.Recompute = o.Epochs, o.Patience, o.Rate, o.Data, o.Recompute
		if wrong := differences(o, same); wrong != "" {
			return fmt.Errorf("cannot resume: the run was started with %s, and these settings cannot be changed", wrong)
		}
	}
	if err := s.Check(); err != nil {
		return command.UsageError("%v", err)
	}
	set, err := data.Load(s.Data, stderr)
	if err != nil {
		return err
	}
	r, err := newRun(s, set, old)
	if err != nil {
		return err
	}
	if !resume { // the settings and the data are valid, so create the folder now
		if f, err = lockFolder(createFolder(out)); err != nil {
			return err
		}
		defer f.close()
	}
	return r.train(ctx, f, stdout, stderr, "continue with -resume")
}

// createFolder creates a folder, unless it exists, and opens it.
func createFolder(name string) (*os.Root, error) {
	if err := os.MkdirAll(name, 0o755); err != nil {
		return nil, fmt.Errorf("cannot create the folder %w", atomicfile.Named(name, err))
	}
	return os.OpenRoot(name)
}
