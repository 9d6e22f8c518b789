// Package model implements the model from section 4.2 of the HVAE paper: a convolutional variational auto-encoder for
// binarised MNIST digits, with or without a Hamiltonian flow. Read the files in this order: config.go (settings and
// results), layers.go (the parameters), network.go (encoder, decoder and bounds), train.go and checkpoint.go.
package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// A Config describes a model, its training bound, and the initial values of its flow.
type Config struct {
	Kind      string `json:"model"`     // "vae" or "hvae"
	K         int    `json:"K"`         // number of leapfrog steps; 0 for a VAE
	Tempering string `json:"tempering"` // "none", "fixed", "free" or "untied"
	VaryEps   bool   `json:"vary-eps"`  // whether each leapfrog step has separate step sizes ε
	Latent    int    `json:"latent"`    // ℓ, the number of latent dimensions

	Draws      int  `json:"draws"`      // L, draws per image in Graph.ELBO; 0 for one draw or, for a VAE, VAEBound
	Importance bool `json:"importance"` // whether the bound is the logarithm of the mean of p̂

	Eps   float64 `json:"eps"`   // initial ε of the flow; 0 for the default value
	Alpha float64 `json:"alpha"` // initial α_k of the flow; 0 for the default value
}

// maxEps is ξ, the upper bound on the step sizes ε = ξ·sigmoid(·).
const maxEps = 0.5

// Check returns an error if the configuration is invalid.
func (c Config) Check() error {
	switch {
	case c.Kind != "vae" && c.Kind != "hvae":
		return fmt.Errorf("unknown model %.40q: the model must be vae or hvae", c.Kind)
	case !slices.Contains([]string{"none", "fixed", "free", "untied"}, c.Tempering):
		return fmt.Errorf("unknown tempering %.40q: the tempering must be none, fixed, free or untied", c.Tempering)
	case c.K < 0 || c.K > 10_000:
		return fmt.Errorf("invalid K = %d: the number of leapfrog steps must be from 0 to 10000", c.K)
	case c.Kind == "vae" && c.K != 0 || c.K == 0 && (c.Tempering != "none" || c.VaryEps):
		return fmt.Errorf("leapfrog steps, tempering and varied step sizes require an HVAE with K ≥ 1: the model must be hvae")
	case c.Draws < 0 || c.Draws > 1000 || c.Importance && c.Draws == 0:
		return fmt.Errorf("invalid number %d of draws per image: it must be from 0 to 1000, "+
			"and at least 1 for an importance-weighted bound", c.Draws)
	case !(c.Eps >= 0 && c.Eps < maxEps && c.Alpha >= 0 && c.Alpha < 1):
		return fmt.Errorf("invalid initial values ε = %v and α = %v: they must be in (0, %v) and (0, 1)", c.Eps, c.Alpha, maxEps)
	case c.Latent < 1 || c.Latent > 4096:
		return fmt.Errorf("a model cannot have %d latent dimensions: the number must be from 1 to 4096", c.Latent)
	}
	return nil
}

// String returns a short description such as "hvae, K = 5, free tempering, ε varied".
func (c Config) String() string {
	s := c.Kind
	if c.Kind == "hvae" {
		s += fmt.Sprintf(", K = %d", c.K)
	}
	if c.Tempering != "none" {
		s += ", " + c.Tempering + " tempering"
	}
	if c.VaryEps {
		s += ", ε varied"
	}
	if c.Importance {
		s += fmt.Sprintf(", %d importance samples", c.Draws)
	} else if c.Draws > 0 {
		s += fmt.Sprintf(", mean of %d draws", c.Draws)
	}
	return s
}

// StepCost returns the number of multiply-adds in a training step for one image. Let a forward pass take e
// multiply-adds in the encoder and d in the decoder, and let the encoder's first layer, conv1, take c of the e. A
// backward pass takes twice as many as a forward pass, except that conv1 needs no input gradient. So a step takes
// 3e − c + 3d for K = 0. For K > 0, it takes 3e − c + 6(K + 1)d: at each of K + 1 points, computing ∇U takes 2d (the
// backward pass skips the weights), and differentiating it takes 4d. With L draws, the decoder's part is L times as
// large.
func (c Config) StepCost() int {
	decoder := conv1.MultiplyAdds() + conv2.MultiplyAdds() + conv3.MultiplyAdds() + hidden*(code+c.Latent)
	encoder, passes := decoder+hidden*c.Latent, 3
	if c.K > 0 {
		passes = 6 * (c.K + 1)
	}
	return 3*encoder - conv1.MultiplyAdds() + max(1, c.Draws)*passes*decoder
}

// Settings holds the settings of a training run. Its JSON keys are the names of the flags.
type Settings struct {
	Config
	Train     int     `json:"train"` // number of training images; 0 for all
	Batch     int     `json:"batch"` // number of images in a batch
	Rate      float64 `json:"lr"`    // learning rate of Adamax
	Seed      uint64  `json:"seed"`
	Epochs    int     `json:"epochs"`    // maximum number of epochs
	Patience  int     `json:"patience"`  // training ends after this number of epochs without a better validation ELBO
	Start     string  `json:"start"`     // checkpoint with the initial encoder and decoder; "" for random weights
	Recompute bool    `json:"recompute"` // whether the backward pass recomputes the leapfrog steps
	Data      string  `json:"data"`      // folder of the dataset, as for data.Load
}

// Defaults returns the paper's settings for a VAE.
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
	Rate      float64 `json:"lr,omitempty"` // learning rate; 0 in older files

	FlowSummary // zero for a VAE
}

// Best returns the metrics of the first epoch with the best validation ELBO. It panics if there are no epochs.
func Best(all []Metrics) Metrics {
	return slices.MaxFunc(all, func(a, b Metrics) int { return cmp.Compare(a.ValELBO, b.ValELBO) })
}

// Ended returns the reason why a run with these metrics has ended, or "" if it has not.
func Ended(all []Metrics, epochs, patience int) string {
	switch n := len(all); {
	case n >= epochs:
		return fmt.Sprintf("%d epochs are done (-epochs %d)", n, epochs)
	case n > 0 && n-Best(all).Epoch >= patience:
		return fmt.Sprintf("the validation ELBO has not improved for %d epochs (-patience)", patience)
	}
	return ""
}
