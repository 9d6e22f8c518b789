// Package model implements the model of section 5.2: a convolutional variational
// auto-encoder for binarised MNIST digits, with or without a Hamiltonian flow.
//
// Read config.go and params.go (the parameters and their names in a checkpoint),
// network.go (encoder and decoder), elbo.go (the bound and the estimator), then
// train.go (a training step on all cores), evaluate.go, anneal.go, checkpoint.go and state.go.
//
// The package imports hvae, conv, ad and linalg, and mnist/safetensors.
package model

import (
	"fmt"

	"hvae/conv"
)

// A Config describes the architecture of a model.
type Config struct {
	Kind      string // "vae" or "hvae"
	K         int    // leapfrog steps; 0 for a VAE
	Tempering string // "none", "fixed" or "free"
	VaryEps   bool   // whether each leapfrog step has separate step sizes
	Latent    int    // ℓ, the number of latent dimensions
}

// The largest K and ℓ of a configuration.
const (
	MaxK      = 10_000
	MaxLatent = 4096
)

// maxEps is ξ: step sizes are ε = ξ·sigmoid(·).
const maxEps = 0.5

// Check returns an error that describes the first impossible setting, or nil.
func (c Config) Check() error {
	switch {
	case c.Kind != "vae" && c.Kind != "hvae":
		return fmt.Errorf("unknown model %.40q: it must be vae or hvae", c.Kind)
	case c.Tempering != "none" && c.Tempering != "fixed" && c.Tempering != "free":
		return fmt.Errorf("unknown tempering %.40q: it must be none, fixed or free", c.Tempering)
	case c.K < 0 || c.K > MaxK:
		return fmt.Errorf("impossible K = %d leapfrog steps: K must be from 0 to %d", c.K, MaxK)
	case c.Kind == "vae" && (c.K != 0 || c.Tempering != "none" || c.VaryEps):
		return fmt.Errorf("leapfrog steps, tempering and varied step sizes need the model hvae, not vae")
	case c.K == 0 && (c.Tempering != "none" || c.VaryEps):
		return fmt.Errorf("tempering and varied step sizes need at least one leapfrog step, K ≥ 1")
	case c.Latent < 1 || c.Latent > MaxLatent:
		return fmt.Errorf("impossible %d latent dimensions: the number must be from 1 to %d", c.Latent, MaxLatent)
	}
	return nil
}

// String returns a short name such as "hvae, K = 5, free tempering, ε varied".
func (c Config) String() string {
	if c.Kind == "vae" {
		return "vae"
	}
	s := fmt.Sprintf("hvae, K = %d", c.K)
	if c.Tempering != "none" {
		s += ", " + c.Tempering + " tempering"
	}
	if c.VaryEps {
		s += ", ε varied"
	}
	return s
}

// StepCost returns the number of multiply-adds of a training step for one image, counting
// every tap of every kernel, including taps on padding. The backward pass takes twice the
// operations of the forward pass, except that the encoder's input needs no gradient. A
// leapfrog flow evaluates ∇U at K + 1 points, each with a forward and a backward pass of the
// generative network, and training differentiates both.
func (c Config) StepCost() int {
	dense := hidden * (code + c.Latent)
	convolutions := conv1.MultiplyAdds() + conv2.MultiplyAdds() + conv3.MultiplyAdds()
	encoder, generator := convolutions+dense+hidden*c.Latent, convolutions+dense
	cost := 3*encoder - conv1.MultiplyAdds()
	if c.K == 0 {
		return cost + 3*generator
	}
	return cost + (c.K+1)*6*generator
}

// The three convolutions of the encoder. The decoder applies their transposes in reverse
// order. The padding is TensorFlow's SAME: 1 before and 2 after from 28 to 14 and from 14 to
// 7 pixels, 2 and 2 from 7 to 4.
var (
	conv1 = conv.Same(28, 28, 1, 16, 5, 2)
	conv2 = conv.Same(14, 14, 16, 32, 5, 2)
	conv3 = conv.Same(7, 7, 32, 32, 5, 2)
)

const (
	pixels   = 28 * 28
	channels = 32               // of the deepest image layer
	code     = 4 * 4 * channels // rows of the deepest image layer
	hidden   = 450              // rows of the hidden dense layers
)
