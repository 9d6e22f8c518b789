package model

import (
	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/linalg/random"
)

// Generate returns the pixel probabilities [784×n] of n images drawn from the model.
func Generate[T linalg.Float](c Config, params []Param[T], n int, seed uint64) linalg.Matrix[T] {
	var t ad.Tape[T]
	network := NewNetwork(c, Vars(t.Const, params))
	z := hvae.Noise(&t, random.Stream(seed, "mnist sample"), c.Latent, n)
	return ad.Sigmoid(network.Decode(z)).Value
}

// A Step describes a position z_k of the flow for each of B images.
type Step[T linalg.Float] struct {
	Image    linalg.Matrix[T] // pixel probabilities π_θ(z_k) [784×B]
	LogJoint linalg.Matrix[T] // log p_θ(x, z_k) [1×B]
}

// Reconstruct returns two kinds of reconstructions of images x [784×B]. fromMean holds the pixel
// probabilities [784×B] at the mean of the variational prior. path contains a Step for each position
// z_0 … z_K of the flow, where z_0 is a draw from the variational prior. For a VAE, K = 0.
func Reconstruct[T linalg.Float](c Config, params []Param[T], x linalg.Matrix[T], seed uint64) (fromMean linalg.Matrix[T], path []Step[T]) {
	var t ad.Tape[T]
	network := NewNetwork(c, Vars(t.Const, params))
	images := t.Const(x)
	mean, std := network.Encode(images)
	rng := random.Stream(seed, "mnist reconstruct")
	epsilon, gamma0 := hvae.Noise(&t, rng, c.Latent, x.Cols), hvae.Noise(&t, rng, c.Latent, x.Cols)
	start := network.Draw(images, mean, std, epsilon, gamma0).Start
	flow := network.Flow(images)
	for _, s := range flow.Path(start) {
		path = append(path, Step[T]{ad.Sigmoid(network.Decode(s.Z)).Value, flow.Target.LogJoint(s.Z).Value})
	}
	return ad.Sigmoid(network.Decode(mean)).Value, path
}
