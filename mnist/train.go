package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"hvae/bench/command"
	"hvae/mnist/data"
	"hvae/mnist/model"
)

const aboutTrain = `Trains a model.
For example, these commands train an HVAE for ten epochs, and continue for ten more:

  mnist train -model hvae -K 5 -tempering free -vary-eps -epochs 10 -out runs/hvae
  mnist train -resume -epochs 20 -out runs/hvae`

// settingsFlags defines the flags for the settings of a run. Their default values are the values in s.
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
	if err := command.Parse(f, aboutTrain, args); err != nil {
		return err
	}
	if *out == "" {
		return command.Usage("-out is missing: specify a folder for the run's files")
	}
	if *row != "" {
		if given(f, "model", "K", "tempering", "vary-eps", "draws", "importance") {
			return command.Usage("-row replaces -model, -K, -tempering, -vary-eps, -draws and -importance")
		}
		var err error
		s.Config, err = parseRow(s.Config, *row)
		if err != nil {
			return command.Usage("%v", err)
		}
	}
	old, err := readState(*out)
	switch {
	case err != nil:
	case old.file != nil && !*resume:
		err = fmt.Errorf("%s already contains a run: continue it with -resume, or choose another folder with -out", *out)
	case old.file != nil && *row != "" && s.String() != old.Settings.String():
		err = fmt.Errorf("the model of the run in %s is %v, not %v", *out, old.Settings.Config, s.Config)
	case old.file != nil:
		s, err = changed(old.Settings, f)
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
	set, err := data.Load(s.Data, stderr)
	if err != nil {
		return err
	}
	old.Settings = s
	r, err := newRun(*out, old, set)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(*out, 0o755); err != nil {
		return err
	}
	return r.train(ctx, stdout, stderr)
}

// rowName matches the names of rows.
var rowName = regexp.MustCompile(`^(?:vae(?:-([lm])([1-9]\d{0,2}))?|hvae-k([1-9]\d*)-(none|fixed|free|untied)(-shared|-varied)?)$`)

// parseRow returns the configuration c, changed to the model of the named row, such as vae, hvae-k1-none or
// hvae-k10-free-varied. If K > 1, the name ends in shared (all steps have the same step sizes) or varied (each step has
// separate step sizes).
func parseRow(c model.Config, name string) (model.Config, error) {
	if m := rowName.FindStringSubmatch(name); m != nil {
		c.Kind, _, _ = strings.Cut(name, "-")
		c.Importance = m[1] == "l"
		c.Draws, _ = strconv.Atoi("0" + m[2])
		c.K, _ = strconv.Atoi("0" + m[3]) // Check rejects large numbers
		c.Tempering = cmp.Or(m[4], "none")
		c.VaryEps = m[5] == "-varied"
		if c.Check() == nil && (c.K > 1) == (m[5] != "") {
			return c, nil
		}
	}
	return c, fmt.Errorf("there is no row %.40q: a row must be vae, vae-lL (L importance samples), vae-mL (mean of L draws), hvae-k1-TEMPERING or hvae-kK-TEMPERING-EPS, where K > 1, TEMPERING is none, fixed, free or untied, and EPS is shared or varied", name)
}

// given reports whether one of the named flags was given.
func given(f *flag.FlagSet, names ...string) (found bool) {
	f.Visit(func(g *flag.Flag) { found = found || slices.Contains(names, g.Name) })
	return found
}

// changed returns the settings of a resumed run with the changes by the given flags. It returns an error if a flag
// changes a setting that affects past epochs.
func changed(s model.Settings, f *flag.FlagSet) (model.Settings, error) {
	saved := flag.NewFlagSet("", flag.ContinueOnError)
	settingsFlags(saved, &s)
	var wrong []string
	f.Visit(func(g *flag.Flag) {
		old := saved.Lookup(g.Name)
		switch {
		case old == nil || old.Value.String() == g.Value.String(): // -out, -resume and -row are not settings
		case slices.Contains([]string{"epochs", "patience", "lr", "data", "recompute"}, g.Name):
			old.Value.Set(g.Value.String())
		default:
			wrong = append(wrong, fmt.Sprintf("-%s is %v, not %v", g.Name, old.Value, g.Value))
		}
	})
	if wrong != nil {
		return s, fmt.Errorf("these settings cannot change: %s", strings.Join(wrong, "; "))
	}
	return s, nil
}
