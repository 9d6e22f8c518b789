package model

import (
	"math/rand/v2"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
)

// BlockSize returns the number of images in each block of a batch of n images. A block has one column for each draw of
// each image. With leapfrog steps, a block has 16 columns (one SIMD vector of float32), because their activations fit
// into a core's cache. Without leapfrog steps, larger blocks are faster, because the weights are read once for each
// block: 48 columns with draws (Draws > 0), and at most 64 with the VAE's bound (Draws = 0). With the VAE's bound, the
// number of blocks is even, so that two cores share the work evenly.
func (c Config) BlockSize(n int) int {
	const vector, quarter, largest = 16, 4, 64 // quarter is a quarter of a vector
	switch {
	case c.K > 0:
		return max(1, vector/max(1, c.Draws))
	case c.Draws > 0:
		return max(1, 3*vector/c.Draws)
	}
	blocks := 2 * ((n + 2*largest - 1) / (2 * largest))
	return (n + quarter*blocks - 1) / (quarter * blocks) * quarter
}

// Bound returns the bound that training maximises (Algorithm 2). The function binarise binarises an image with random
// numbers from rng and stores the result in column j of x [784×B]. The function must be safe for concurrent use.
func Bound[T linalg.Float](s Settings, n *Network[T], binarise func(x linalg.Matrix[T], j, image int, rng *rand.Rand),
) hvae.Bound[T] {
	return func(b *hvae.Block[T]) *ad.Var[T] {
		x := b.Tape.Matrix(pixels, b.Size)
		for j, image := range b.Batch {
			binarise(x, j, image, b.Rng(j))
		}
		g, L := n.On(b.Var), max(1, s.Draws)
		g.recompute = s.Recompute
		epsilon := b.Noise(s.Latent, L)
		if s.Kind == "vae" && s.Draws == 0 {
			return g.VAEBound(b.Tape.Const(x), epsilon)
		}
		return g.ELBO(b.Tape.Const(x), epsilon, b.Noise(s.Latent, L))
	}
}

// NewTrainer returns a trainer that maximises a bound with Adamax and changes the parameters of n in place.
func NewTrainer[T linalg.Float](s Settings, n *Network[T], bound hvae.Bound[T]) *hvae.Trainer[T] {
	t := hvae.NewTrainer(n.Params(), hvae.Adamax[T]{Rate: T(s.Rate)}, bound)
	t.Seed = s.Seed
	return t
}
