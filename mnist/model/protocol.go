package model

import (
	"fmt"
	"math"
)

// Settings are the settings of a training run. The state stores them as JSON, under the names of the flags.
type Settings struct {
	Config
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
		Config: Config{Kind: "vae", Tempering: "none", Latent: 64},
		Batch:  100, Rate: 1e-3, Seed: 1, Epochs: 2000, Patience: 100,
	}
}

// Check returns an error if the settings are invalid or contradict each other.
func (s Settings) Check() error {
	const limit = 1_000_000
	switch {
	case min(s.Batch, s.Epochs, s.Patience, s.Train+1) < 1 || max(s.Batch, s.Epochs, s.Patience, s.Train) > limit:
		return fmt.Errorf("-batch, -epochs and -patience must be from 1 to %d, and -train from 0 to %[1]d", limit)
	case !(s.Rate > 0) || math.IsInf(s.Rate, 0):
		return fmt.Errorf("invalid value %v for flag -lr: the learning rate must be positive and finite", s.Rate)
	case s.Recompute && s.K == 0:
		return fmt.Errorf("-recompute requires leapfrog steps (-model hvae -K 1 or more), because it recomputes them")
	}
	return s.Config.Check()
}

// Metrics are the results of an epoch. Each line of metrics.jsonl contains the Metrics of one epoch as JSON.
type Metrics struct {
	Epoch     int     `json:"epoch"`
	TrainELBO float64 `json:"train_elbo"`
	ValELBO   float64 `json:"val_elbo"`
	Seconds   float64 `json:"seconds"`
	Rate      float64 `json:"lr,omitempty"` // learning rate; 0 until a resumed run changes it

	Flow // of an HVAE
}

// Best returns the metrics of the first epoch with the best validation ELBO, or zero Metrics if there are
// no epochs.
func Best(all []Metrics) (best Metrics) {
	for i, m := range all {
		if i == 0 || m.ValELBO > best.ValELBO {
			best = m
		}
	}
	return best
}

// Ended returns the reason why training has ended after the given epochs, or "" if it has not.
func Ended(all []Metrics, epochs, patience int) string {
	switch n := len(all); {
	case n >= epochs:
		return fmt.Sprintf("all %d epochs are done (-epochs)", epochs)
	case n-Best(all).Epoch >= patience:
		return fmt.Sprintf("the validation ELBO has not improved for %d epochs (-patience)", patience)
	}
	return ""
}
