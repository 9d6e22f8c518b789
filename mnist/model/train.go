package model

import (
	"context"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/linalg/random"
)

// blockSize returns the number of images that share a tape in a batch of n images. With leapfrog steps, it
// is 16 (one SIMD vector of float32), because the activations of 16 images fit into a core's cache. Without
// leapfrog steps, larger blocks are faster, because each block reads all weights from memory. The batch is
// then split into blocks of similar size, with at most 64 images each. Their number is even for most n. Idle
// cores share the loops in a block.
func (c Config) blockSize(n int) int {
	const vector, largest = 16, 64
	if c.K > 0 {
		return vector
	}
	blocks := 2 * ((n + 2*largest - 1) / (2 * largest))
	return ((n+blocks-1)/blocks + 3) / 4 * 4 // a multiple of a quarter of a vector
}

// A Fill sets column j of x [784×n] to a binarisation of the image with index indices[j], and column j of
// epsilon and gamma0 [ℓ×n] to noise from N(0, I). The noise must come from a separate random stream for each
// image, so that it does not depend on how a batch is split into blocks. A Fill must be safe for concurrent
// use. It may draw the noise from k, which concurrent calls do not share.
type Fill[T linalg.Float] func(indices []int, x, epsilon, gamma0 linalg.Matrix[T], k *random.Keyed)

// A Trainer trains a model with Algorithm 2.
type Trainer[T linalg.Float] struct {
	Config Config
	Params []Param[T]

	// If Recompute is true, the backward pass recomputes each leapfrog step. The memory then hardly
	// depends on K, but training is slower. The results are bit-identical.
	Recompute bool

	algorithm *hvae.Trainer[T]
	fill      Fill[T] // for the current batch
}

// NewTrainer returns a trainer that uses Adamax with the given learning rate and changes params in place.
func NewTrainer[T linalg.Float](c Config, params []Param[T], rate float64) *Trainer[T] {
	t := &Trainer[T]{Config: c, Params: params}
	var all hvae.Params[T]
	for _, p := range params {
		all = append(all, p.Param)
	}
	t.algorithm = hvae.NewTrainer(all, hvae.NewAdamax(T(rate)), t.bound)
	return t
}

// Step estimates the mean ELBO of a batch of images and its gradient, and updates the parameters. If the
// ELBO or its gradient is not finite, Step returns an error that names the first operation with such a
// result. If ctx is done, Step returns ctx's error immediately. After an error, the trainer is unchanged.
func (t *Trainer[T]) Step(ctx context.Context, indices []int, fill Fill[T]) (elbo float64, err error) {
	t.begin(len(indices), fill)
	return t.algorithm.Step(ctx, indices)
}

// ELBO returns an estimate of the mean ELBO of a batch of images. It returns an error if ctx is done or if
// the ELBO of an image is NaN.
func (t *Trainer[T]) ELBO(ctx context.Context, indices []int, fill Fill[T]) (float64, error) {
	t.begin(len(indices), fill)
	elbo, _, err := t.algorithm.Evaluate(ctx, indices, 0, nil)
	return elbo, err
}

// begin prepares t.algorithm for a batch of n images.
func (t *Trainer[T]) begin(n int, fill Fill[T]) {
	t.fill, t.algorithm.BlockSize = fill, t.Config.blockSize(n)
}

// A worker holds memory that a goroutine reuses for each block of images.
type worker[T linalg.Float] struct {
	network *Network[T]
	stream  random.Keyed
}

// bound is an hvae.Bound. It returns the ELBO of each image in a block.
func (t *Trainer[T]) bound(b *hvae.Block[T]) *ad.Var[T] {
	w, ok := b.State.(*worker[T])
	if !ok {
		w = &worker[T]{network: newNetwork[T](t.Config)}
		b.State = w
	}
	w.network.bind(b.Params)
	w.network.flow.Recompute = t.Recompute
	n := len(b.Batch)
	x := b.Tape.Matrix(pixels, n)
	epsilon, gamma0 := b.Tape.Matrix(t.Config.Latent, n), b.Tape.Matrix(t.Config.Latent, n)
	t.fill(b.Batch, x, epsilon, gamma0, &w.stream)
	return w.network.ELBO(b.Tape.Const(x), b.Tape.Const(epsilon), b.Tape.Const(gamma0))
}
