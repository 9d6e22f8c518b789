package run

import (
	"context"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"hvae/bench/command"
	"hvae/mnist/data"
	"hvae/mnist/model"
)

// A Source names a dataset.
type Source struct {
	Folder string // -data: a folder, or data.Synthetic; empty for the default
	Name   string // -dataset: empty for MNIST, or for synthetic images
}

// Flags defines the flags that set s.
func (s *Source) Flags(f *command.Flags) {
	f.String(&s.Folder, "data", "", "`folder` with the MNIST files, or synthetic for built-in images; missing files are\ndownloaded (default $HVAE_MNIST, else a folder in the user's cache)")
	f.Checked(&s.Name, "dataset", "`name` of other 28×28 images; their files in the -data folder must have MNIST's file names", data.CheckName)
}

// Load reads the dataset and prints notes on stderr.
func (s Source) Load(ctx context.Context, stderr io.Writer) (data.Set, error) {
	switch {
	case s.Name == data.Synthetic && s.Folder != data.Synthetic:
		return data.Set{}, command.UsageError("-dataset %s needs -data %[1]s", data.Synthetic)
	case s.Name != "" && s.Name != data.Synthetic && s.Folder == data.Synthetic:
		return data.Set{}, command.UsageError("-data %s is not the dataset %s: name its folder", data.Synthetic, s.Name)
	case s.Name != "" && s.Name != data.MNIST && s.Folder == "":
		return data.Set{}, command.UsageError("-dataset %s requires -data, the folder that contains its files", s.Name)
	}
	return data.Load(ctx, s.Folder, s.Name, func(m string) { fmt.Fprintln(stderr, m) })
}

// Settings are the settings of a training run, the flags of the command train. The state
// stores all of them except Out and Resume.
type Settings struct {
	Config    model.Config
	MaxEpochs int
	Patience  int
	BatchSize int
	Rate      float64
	Seed      uint64
	Train     int // number of images to train on, 0 for all
	Source    Source
	Recompute bool

	Out    string
	Resume bool

	stored map[string]string // for the state, by flag name
}

// Flags defines the flags that set s.
func (s *Settings) Flags() *command.Flags {
	f := command.NewFlags()
	c := &s.Config
	f.String(&c.Kind, "model", "vae", "`model`: vae or hvae")
	f.Range(&c.K, "K", 0, 0, model.MaxK, "`number` of leapfrog steps of an hvae")
	f.String(&c.Tempering, "tempering", "none", "tempering `scheme` of an hvae: none, fixed or free")
	f.Bool(&c.VaryEps, "vary-eps", "learn separate step sizes for each leapfrog step of an hvae")
	f.Range(&c.Latent, "latent", 64, 1, model.MaxLatent, "`number` of latent dimensions")
	f.Count(&s.MaxEpochs, "epochs", 2000, 1, "maximum `number` of epochs")
	f.Count(&s.Patience, "patience", 100, 1, "stop after this `number` of epochs without a better validation ELBO")
	f.Count(&s.BatchSize, "batch", 100, 1, "`number` of images in a batch")
	f.Rate(&s.Rate, 1e-3, "learning `rate` of Adamax")
	f.Seed(&s.Seed, "seed; the same seed gives the same bits on any number of cores")
	s.Source.Flags(f)
	f.Count(&s.Train, "train", 0, 0, "train on this `number` of images only; 0 for all 50,000")
	f.Bool(&s.Recompute, "recompute", "recompute the leapfrog steps in the backward pass: the same results more slowly, in memory\nthat does not grow with K")
	f.String(&s.Out, "out", "", "`folder` for the run's files (required)")
	f.Bool(&s.Resume, "resume", "continue the run in the folder with its settings; -epochs, -patience, -lr, -data, -dataset\nand -recompute may differ")
	return f
}

// mayChange holds the flags that a resume may change. All others define the run.
var mayChange = map[string]bool{"epochs": true, "patience": true, "lr": true, "data": true, "dataset": true, "recompute": true}

// Store keeps the values of the flags for the state.
func (s *Settings) Store(f *command.Flags) error {
	s.stored = f.Values()
	delete(s.stored, "out")
	delete(s.stored, "resume")
	if s.Source.Folder != "" && s.Source.Folder != data.Synthetic {
		folder, err := filepath.Abs(s.Source.Folder) // a resume may have another working directory
		if err != nil {
			return err
		}
		s.stored["data"] = folder
	}
	return nil
}

// Stored returns the values that Store kept, by flag name.
func (s *Settings) Stored() map[string]string { return s.stored }

// Adopt sets the flags that the command line does not set to their values in a state. It
// returns an error if other flags contradict the state.
func (s *Settings) Adopt(f *command.Flags, state model.State) error {
	given, values := f.Given(), f.Values()
	var wrong []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value, ok := state.Settings[name]
		switch {
		case name == "out" || name == "resume" || !ok && mayChange[name]:
		case !ok:
			return fmt.Errorf("cannot resume from %s: its metadata lacks the setting %s", filepath.Join(s.Out, StateFile), name)
		case !slices.Contains(given, name):
			if err := f.Set(name, value); err != nil {
				return fmt.Errorf("cannot resume from %s: its metadata has %s = %q: %w", filepath.Join(s.Out, StateFile), name, value, err)
			}
		case value != values[name] && !mayChange[name]:
			wrong = append(wrong, fmt.Sprintf("%s = %s, not %s", name, value, values[name]))
		}
	}
	if wrong != nil {
		return fmt.Errorf("the run in %s was started with %s: resume it without these flags, or start another run with another -out", s.Out, strings.Join(wrong, "; "))
	}
	return nil
}

// Check returns an error for settings that contradict each other.
func (s Settings) Check() error {
	if err := s.Config.Check(); err != nil {
		return command.UsageError("%v", err)
	}
	if s.Config.Kind == "hvae" && s.Config.K == 0 && !s.Resume {
		return command.UsageError("-model hvae needs -K, the number of leapfrog steps, of at least 1")
	}
	if s.Recompute && s.Config.Kind != "hvae" {
		return command.UsageError("-recompute needs -model hvae, because only its leapfrog steps can be recomputed")
	}
	return nil
}
