package run

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"hvae/bench/command"
	"hvae/mnist/model"
)

// Settings are the settings of a training run. The state stores them as JSON, under the names of the flags.
type Settings struct {
	model.Config
	Train     int     `json:"train"` // number of training images; 0 for all
	Batch     int     `json:"batch"` // number of images in a batch
	Rate      float64 `json:"lr"`    // learning rate of Adamax
	Seed      uint64  `json:"seed"`
	Epochs    int     `json:"epochs"`    // maximum number of epochs
	Patience  int     `json:"patience"`  // training ends after this number of epochs without a better validation ELBO
	Start     string  `json:"start"`     // checkpoint with the initial weights of encoder and decoder; "" for random weights
	Recompute bool    `json:"recompute"` // whether the backward pass recomputes the leapfrog steps
	Data      string  `json:"data"`      // folder of the dataset, as for data.Load
}

// Defaults returns the paper's settings of a VAE.
func Defaults() Settings {
	return Settings{
		Config: model.Config{Kind: "vae", Tempering: "none", Latent: 64},
		Batch:  100, Rate: 1e-3, Seed: 1, Epochs: 2000, Patience: 100,
	}
}

// Check returns an error if the settings are invalid or contradict each other. Its message names the flag.
func (s Settings) Check() error {
	for _, v := range []struct {
		flag                  string
		value, least, largest int
	}{
		{"K", s.K, 0, model.MaxK}, {"latent", s.Latent, 1, model.MaxLatent}, {"train", s.Train, 0, 1_000_000},
		{"batch", s.Batch, 1, 1_000_000}, {"epochs", s.Epochs, 1, 1_000_000}, {"patience", s.Patience, 1, 1_000_000},
	} {
		if v.value < v.least || v.value > v.largest {
			return command.UsageError("invalid value %d for flag -%s: it must be from %d to %d", v.value, v.flag, v.least, v.largest)
		}
	}
	if !(s.Rate > 0) || math.IsInf(s.Rate, 0) {
		return command.UsageError("invalid value %v for flag -lr: the learning rate must be positive and finite", s.Rate)
	}
	if err := s.Config.Check(); err != nil {
		return command.UsageError("%v", err)
	}
	if s.Recompute && s.K == 0 {
		return command.UsageError("-recompute requires leapfrog steps (-model hvae -K 1 or more), because it recomputes them")
	}
	return nil
}

// Differences lists the fields of two structs that have different JSON values, such as "seed = 1, not 2".
func Differences(old, current any) string {
	fields := func(v any) (m map[string]json.RawMessage) {
		b, _ := json.Marshal(v) // cannot fail for structs of numbers and strings
		json.Unmarshal(b, &m)
		return m
	}
	before, after := fields(old), fields(current)
	var all []string
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if !bytes.Equal(before[name], after[name]) {
			all = append(all, fmt.Sprintf("%s = %s, not %s", name, before[name], after[name]))
		}
	}
	return strings.Join(all, "; ")
}
