package model

import (
	"context"
	"math/rand/v2"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
)

// blockSize returns the number of images in each block of a batch of n images. Each block has its own tape. With
// leapfrog steps, a block has 16 images (one SIMD vector of float32), because their activations fit into a core's
// cache. Without leapfrog steps, larger blocks are faster, because each block reads all weights from memory. The batch
// is then split into blocks of similar size, with at most 64 images each. For most n, the number of blocks is even.
// Cores without a block run parts of the loops in other blocks. All draws of an image are in one block, so blocks have
// fewer images if there are several draws per image.
func (c Config) blockSize(n int) int {
	const vector, largest = 16, 64
	switch {
	case c.Draws > 0 && c.K > 0:
		return max(1, vector/c.Draws)
	case c.Draws > 0:
		return max(1, 3*vector/c.Draws)
	case c.K > 0:
		return vector
	}
	blocks := 2 * ((n + 2*largest - 1) / (2 * largest))
	return ((n+blocks-1)/blocks + 3) / 4 * 4 // rounded up to a multiple of 4, a quarter of a SIMD vector
}

// A Binarise sets column j of x [784×B] to a binarisation of the image with the given index. It may draw random numbers
// from rng, the random stream of the column. A Binarise must be safe for concurrent use.
type Binarise[T linalg.Float] func(x linalg.Matrix[T], j, image int, rng *rand.Rand)

// A Trainer trains a model with Algorithm 2.
type Trainer[T linalg.Float] struct {
	Config Config
	Params []Param[T]

	// If Recompute is true, the backward pass recomputes each leapfrog step. Memory use then hardly depends on K, but
	// training is slower. The results are bit-identical.
	Recompute bool

	algorithm *hvae.Trainer[T]
	binarise  Binarise[T] // for the current batch
}

// NewTrainer returns a trainer that uses Adamax with the given learning rate and changes params in place. The
// seed determines the random numbers of all steps.
func NewTrainer[T linalg.Float](c Config, params []Param[T], rate float64, seed uint64) *Trainer[T] {
	t := &Trainer[T]{Config: c, Params: params}
	var all hvae.Params[T]
	for _, p := range params {
		all = append(all, p.Param)
	}
	t.algorithm = hvae.NewTrainer(all, hvae.NewAdamax(T(rate)), t.bound)
	t.algorithm.Seed = seed
	return t
}

// Step estimates the mean ELBO of a batch of images and its gradient, and updates the parameters. If the ELBO or its
// gradient is not finite, Step returns an error that names the first operation with such a result. If ctx is done, Step
// returns ctx's error after at most one block of images. After an error, the trainer is unchanged.
func (t *Trainer[T]) Step(ctx context.Context, indices []int, binarise Binarise[T]) (elbo float64, err error) {
	t.begin(len(indices), binarise)
	return t.algorithm.Step(ctx, indices)
}

// ELBO returns an estimate of the mean ELBO of a batch of images. The seed determines the random numbers. ELBO
// returns an error if ctx is done or if the ELBO of an image is NaN.
func (t *Trainer[T]) ELBO(ctx context.Context, indices []int, binarise Binarise[T], seed uint64) (float64, error) {
	t.begin(len(indices), binarise)
	elbo, _, err := t.algorithm.Evaluate(ctx, indices, seed, t.bound)
	return elbo, err
}

// begin prepares t.algorithm for a batch of n images.
func (t *Trainer[T]) begin(n int, binarise Binarise[T]) {
	t.binarise, t.algorithm.BlockSize = binarise, t.Config.blockSize(n)
}

// bound is an hvae.Bound. It returns the ELBO of each image in a block.
func (t *Trainer[T]) bound(b *hvae.Block[T]) *ad.Var[T] {
	x := b.Tape.Matrix(pixels, len(b.Batch))
	for j, image := range b.Batch {
		t.binarise(x, j, image, b.Rng(j))
	}
	n := NewNetwork(t.Config, b.Params)
	n.flow.Recompute = t.Recompute
	draws := max(1, t.Config.Draws)
	epsilon := b.Draws(t.Config.Latent, draws)
	if t.Config.Kind == "vae" { // ELBO ignores γ₀
		return n.ELBO(b.Tape.Const(x), epsilon, epsilon)
	}
	return n.ELBO(b.Tape.Const(x), epsilon, b.Draws(t.Config.Latent, draws))
}
