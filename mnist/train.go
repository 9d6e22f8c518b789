package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"hvae/bench/command"
	"hvae/bench/progress"
	"hvae/mnist/data"
	"hvae/mnist/model"
)

const aboutTrain = `Trains a model.
For example, these commands train an HVAE for ten epochs, and continue for ten more:

  mnist train -model hvae -K 5 -tempering free -vary-eps -epochs 10 -out runs/hvae
  mnist train -resume -epochs 20 -out runs/hvae`

// mayChange lists the settings that may change when a run is resumed.
var mayChange = []string{"epochs", "patience", "lr", "data", "recompute"}

// settingsFlags defines flags that set the fields of s. Their default values are the current values in s.
func settingsFlags(f *flag.FlagSet, s *model.Settings) {
	f.StringVar(&s.Kind, "model", s.Kind, "`model`: vae or hvae")
	f.IntVar(&s.K, "K", s.K, "`number` of leapfrog steps of an HVAE (required for -model hvae)")
	f.StringVar(&s.Tempering, "tempering", s.Tempering, "tempering `scheme` of an HVAE: none, fixed, free or untied")
	f.BoolVar(&s.VaryEps, "vary-eps", s.VaryEps, "learn separate step sizes for each leapfrog step of an HVAE")
	f.IntVar(&s.Latent, "latent", s.Latent, "`number` of latent dimensions")
	f.Float64Var(&s.Eps, "eps", s.Eps, "initial step `size` of the flow; 0 for 0.2")
	f.Float64Var(&s.Alpha, "alpha", s.Alpha, "initial tempering `factor` α of each step; 0 for 0.9, so that the flow starts with s = 0.9^-K (1.7 for K = 5, 8.2 for\nK = 20)")
	f.IntVar(&s.Draws, "draws", s.Draws, "`number` of draws of log p̂ per image, whose mean is the training bound; 0 for one draw (and, for a VAE, a closed\nform)")
	f.BoolVar(&s.Importance, "importance", s.Importance, "train with the logarithm of the mean of p̂ over the draws")
	f.StringVar(&s.Start, "start", s.Start, "start from the encoder and decoder of a model `file`")
	f.IntVar(&s.Epochs, "epochs", s.Epochs, "maximum `number` of epochs")
	f.IntVar(&s.Patience, "patience", s.Patience, "stop after this `number` of epochs without a better validation ELBO")
	f.IntVar(&s.Train, "train", s.Train, "`number` of training images; 0 for all")
	f.IntVar(&s.Batch, "batch", s.Batch, "`number` of images in a batch")
	f.Float64Var(&s.Rate, "lr", s.Rate, "learning `rate` of Adamax")
	f.Uint64Var(&s.Seed, "seed", s.Seed, "seed for all random numbers; the results are bit-identical on any number of cores")
	f.BoolVar(&s.Recompute, "recompute", s.Recompute, "recompute the leapfrog steps in the backward pass: less memory, more time, the same results")
	dataFlag(f, &s.Data)
}

// train runs the train command.
func train(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s := model.Defaults()
	f := flag.NewFlagSet("mnist train", flag.ContinueOnError)
	settingsFlags(f, &s)
	row := f.String("row", "", "train the model of this `row` of Table 1, such as hvae-k10-free-varied, instead of -model, -K, and so on")
	out := f.String("out", "", "`folder` for the run's files (required)")
	resume := f.Bool("resume", false, "continue the run in the -out folder, or start one if there is none; only -epochs, -patience, -lr, -data and -recompute\nmay differ")
	if err := command.Parse(f, aboutTrain, args, stdout); err != nil {
		return err
	}
	if *out == "" {
		return command.Usage("-out is missing: specify a folder for the run's files")
	}
	if *row != "" {
		base, err := parseRow(*row)
		if err != nil {
			return command.Usage("-row: %v", err)
		}
		s = base
		f.Parse(args) // again, to change the settings of the row
		if name := rowName(s.Config); name != *row {
			return command.Usage("-row %s cannot be changed to %s by other flags", *row, name)
		}
	}
	d, old, _, err := openFolder(*out)
	switch {
	case err != nil:
	case d.state != nil && !*resume:
		err = fmt.Errorf("%s already contains a run: continue it with -resume, or choose another folder with -out", *out)
	case d.state != nil:
		wanted := s
		s = old.Settings
		f.Parse(args) // again, to change the settings of the run
		if *row == "" {
			wanted = s
		}
		if wrong := differences("-%s is %v, not %v", old.Settings, wanted, mayChange); wrong != nil {
			err = fmt.Errorf("these settings cannot change: %s", strings.Join(wrong, "; "))
		}
	case s.Kind == "hvae" && *row == "" && !given(f, "K"):
		err = command.Usage("-model hvae requires -K, the number of leapfrog steps")
	case *resume:
		fmt.Fprintf(stderr, "note: %s contains no run to continue, so a new run starts\n", *out)
	}
	if err != nil {
		return err
	}
	if err := s.Check(); err != nil {
		return command.Usage("%v", err)
	}
	set, err := data.Load(ctx, s.Data, stderr)
	if err != nil {
		return err
	}
	r, err := newRun(s, old, set)
	if err == nil {
		err = save(r, d, r.Settings != old.Settings, stderr) // also files that a killed process has not written
	}
	if err != nil {
		return err
	}
	return finish(ctx, r, d, stdout, stderr)
}

// finish continues a run until it has ended (see model.Ended) or ctx is done. After each epoch, it saves the run. It
// prints results to stdout and progress to stderr, and ignores errors from these writes.
func finish(ctx context.Context, r *run, d *folder, stdout, stderr io.Writer) error {
	images := len(r.training) // per epoch
	line := progress.New(stderr, len(r.Metrics)*images, r.Settings.Epochs*images, func(float64) string {
		elbo := r.sum / float64(r.images) // mean over the images of the epoch so far
		return fmt.Sprintf("epoch %d, image %d of %d, ELBO %.2f", len(r.Metrics)+1, r.images, images, elbo)
	})
	for {
		if why := model.Ended(r.Metrics, r.Settings.Epochs, r.Settings.Patience); why != "" {
			d.clean()
			best := model.Best(r.Metrics)
			fmt.Fprintf(stdout, "training has ended: %s\nbest validation ELBO %.2f on %s after epoch %d; the model is %s\n",
				why, best.ValELBO, r.Data, best.Epoch, filepath.Join(d.path, modelFile))
			return nil
		}
		m, err := r.next(ctx, line)
		if err != nil && ctx.Err() != nil {
			return fmt.Errorf("%w in epoch %d, which will start again; the state is saved in %s; continue with -resume",
				context.Cause(ctx), len(r.Metrics)+1, d.path)
		}
		if err != nil {
			return fmt.Errorf("training diverged in epoch %d; the state before this epoch is saved in %s; "+
				"continue with -resume and a smaller -lr (%w)", len(r.Metrics)+1, d.path, err)
		}
		if err := save(r, d, true, stderr); err != nil {
			return err
		}
		d.clean()
		note := ""
		if model.Best(r.Metrics) == m {
			note = "  best so far"
		}
		fmt.Fprintf(stdout, "epoch %d  train %.2f  validation %.2f  %.1f s%s\n", m.Epoch, m.TrainELBO, m.ValELBO, m.Seconds, note)
	}
}

// save writes the state if it has changed and, after the first epoch, the other files. It returns an error if the model
// in the folder is damaged or from another run. If a file other than the state and the model cannot be written, it
// prints a note, because training can continue.
func save(r *run, d *folder, changed bool, stderr io.Writer) error {
	if changed {
		if err := d.writeState(r.state, r.trainer.State()); err != nil {
			return err
		}
	}
	if len(r.Metrics) == 0 {
		return nil
	}
	best, err := readModel(filepath.Join(d.path, modelFile))
	if err == nil {
		err = d.checkModel(best, r.Metrics) // a model that is damaged or from another run is not replaced
	}
	if err == nil && best.Epoch != model.Best(r.Metrics).Epoch {
		best, err = model.DecodeCheckpoint(r.Best)
		if err == nil {
			err = d.write(modelFile, r.Best)
		}
	}
	if err != nil {
		return err
	}
	note := func(err error) {
		if err != nil {
			fmt.Fprintf(stderr, "note: %v; it is written again after the next epoch\n", err)
		}
	}
	note(d.write(metricsFile, encodeMetrics(r.Metrics)))
	note(d.write(curveFile, curve(r.Settings.Config, r.Data, r.Metrics)))
	picture, err := samples(best, 64, r.Settings.Seed)
	if err == nil {
		err = d.write(samplesFile, picture)
	}
	note(err)
	return nil
}
