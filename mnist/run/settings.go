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
	Folder string // folder of the files, or data.Synthetic; empty for the default folder
}

// DefineFlags defines the flag -data.
func (s *Source) DefineFlags(f *command.Flags) {
	f.StringVar(&s.Folder, "data", "", "`folder` with 28×28 images in files named as MNIST's, or synthetic for built-in images; missing MNIST\nfiles are downloaded (default $HVAE_MNIST, else a folder in the user's cache)")
}

// Load reads the dataset. It reports downloads on stderr.
func (s Source) Load(ctx context.Context, stderr io.Writer) (data.Set, error) {
	return data.Load(ctx, s.Folder, func(m string) { fmt.Fprintln(stderr, m) })
}

// A Protocol holds the settings that the commands train and table share: the dataset and the stopping rule.
type Protocol struct {
	Source    Source
	MaxEpochs int
	Patience  int // training ends after this number of epochs without a better validation ELBO
	Train     int // number of training images, 0 for all
}

// DefineFlags defines the flags that set the fields of p.
func (p *Protocol) DefineFlags(f *command.Flags) {
	p.Source.DefineFlags(f)
	f.Count(&p.MaxEpochs, "epochs", 2000, 1, "maximum `number` of epochs")
	f.Count(&p.Patience, "patience", 100, 1, "stop after this `number` of epochs without a better validation ELBO")
	f.Count(&p.Train, "train", 0, 0, "`number` of training images; 0 for all")
}

// Settings are the settings of a training run.
type Settings struct {
	Protocol
	Config    model.Config
	BatchSize int
	Rate      float64
	Seed      uint64
	Recompute bool
	Start     string // checkpoint with the initial weights of the encoder and decoder; empty for random weights

	Out    string
	Resume bool

	Flags *command.Flags // flags of the train command, which set the other fields
}

// NewSettings returns the default settings and defines the flags that change them.
func NewSettings() *Settings {
	s := &Settings{Flags: command.NewFlags()}
	f, c := s.Flags, &s.Config
	s.Protocol.DefineFlags(f)
	f.StringVar(&c.Kind, "model", "vae", "`model`: vae or hvae")
	f.Range(&c.K, "K", 0, 0, model.MaxK, "`number` of leapfrog steps of an HVAE")
	f.StringVar(&c.Tempering, "tempering", "none", "tempering `scheme` of an HVAE: none, fixed, free or untied")
	f.BoolVar(&c.VaryEps, "vary-eps", false, "learn separate step sizes for each leapfrog step of an HVAE")
	f.Range(&c.Latent, "latent", 64, 1, model.MaxLatent, "`number` of latent dimensions")
	f.Count(&s.BatchSize, "batch", 100, 1, "`number` of images in a batch")
	f.Rate(&s.Rate, 1e-3, "learning `rate` of Adamax")
	f.Uint64Var(&s.Seed, "seed", 1, "seed for all random numbers; the results are bit-identical on any number of cores")
	f.Range(&c.Draws, "draws", 1, 0, model.MaxDraws, "`number` of draws of log p̂ per image, whose mean is the training bound")
	f.BoolVar(&c.Importance, "importance", false, "train with the logarithm of the mean of p̂ over the draws")
	f.StringVar(&s.Start, "start", "", "start from the encoder and decoder of a model `file`")
	f.Float64Var(&c.Eps, "eps", 0, "initial step `size` of the flow; 0 for 0.2")
	f.Float64Var(&c.Alpha, "alpha", 0, "initial tempering `factor` α of the flow; 0 for 0.9")
	f.BoolVar(&s.Recompute, "recompute", false, "recompute the leapfrog steps in the backward pass; this makes memory use nearly independent of K\nand training slower, and does not change the results")
	f.StringVar(&s.Out, "out", "", "`folder` for the run's files (required)")
	f.BoolVar(&s.Resume, "resume", false, "continue the run in the -out folder with its settings; only -epochs, -patience, -lr, -data\nand -recompute may differ")
	return s
}

// Identity returns the settings that determine a run's results, without the dataset and the stopping rule. Of
// the returned settings, only lr may change when a run is resumed.
func Identity(settings map[string]string) map[string]string {
	id := map[string]string{}
	for _, name := range []string{"model", "K", "tempering", "vary-eps", "latent", "batch", "lr", "seed", "train"} {
		id[name] = settings[name]
	}
	for _, name := range []string{"draws", "importance", "start", "eps", "alpha"} { // which older runs lack
		if v := settings[name]; v != "" && v != "0" && v != "false" {
			id[name] = v
		}
	}
	return id
}

// values returns a map from the names of all flags except -out and -resume to their values. The state
// of a run contains these values.
func (s *Settings) values() map[string]string {
	all := s.Flags.Values()
	delete(all, "out")
	delete(all, "resume")
	return all
}

// Adopt sets all flags that are not on the command line to their values in a state. It returns an
// error if the flags on the command line contradict the state or each other.
func (s *Settings) Adopt(state *model.State) error {
	given := s.Flags.Given()
	for _, name := range slices.Sorted(maps.Keys(s.values())) {
		if slices.Contains(given, name) {
			continue
		}
		if err := s.Flags.Set(name, state.Settings[name]); err != nil {
			return fmt.Errorf("cannot resume from %s: its metadata contains %s = %q: %w", filepath.Join(s.Out, StateFile), name, state.Settings[name], err)
		}
	}
	fixed := Identity(s.values())
	delete(fixed, "lr")
	if wrong := Differences(state.Settings, fixed); wrong != "" {
		return fmt.Errorf("the run in %s was started with %s, and these settings cannot be changed: resume it without these flags, or start a new run in another -out folder", s.Out, wrong)
	}
	return s.Check()
}

// Differences lists the settings in current that have another value in old, such as "seed = 1, not 2" if the
// old seed is 1.
func Differences(old, current map[string]string) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(current)) {
		if old[name] != current[name] {
			all = append(all, fmt.Sprintf("%s = %s, not %s", name, old[name], current[name]))
		}
	}
	return strings.Join(all, "; ")
}

// Check returns an error if the settings contradict each other.
func (s *Settings) Check() error {
	if s.Config.Draws == 1 && !s.Config.Importance {
		s.Config.Draws = 0
	}
	if err := s.Config.Check(); err != nil {
		return command.UsageError("%v", err)
	}
	if s.Recompute && s.Config.Kind != "hvae" {
		return command.UsageError("-recompute requires -model hvae, because only its leapfrog steps can be recomputed")
	}
	return nil
}
