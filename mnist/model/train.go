package model

import (
	"context"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/linalg/random"
)

// blockSize returns the number of images that share a tape in a batch of n images. With leapfrog
// steps, it is 16, the number of float32 values in a SIMD vector. The activations of 16 images
// stay in a core's cache and take little memory per step. Without leapfrog steps, it is at most
// 64, so that the weights are read from memory less often. The batch is then split into an even
// number of blocks of about the same size, and idle cores share the loops within a block.
func (c Config) blockSize(n int) int {
	const vector, largest = 16, 64
	if c.K > 0 {
		return vector
	}
	blocks := 2 * ((n + 2*largest - 1) / (2 * largest))
	return ((n+blocks-1)/blocks + 3) / 4 * 4 // a multiple of a quarter of a vector
}

// A Batch supplies images and noise. The noise of each image must come from a separate random
// stream, so that it does not depend on how the batch is split.
type Batch[T linalg.Float] interface {
	// Len returns the number of images.
	Len() int
	// Fill sets x [784×n] to images lo … lo+n−1 of the batch, and epsilon and gamma0 [ℓ×n] to
	// their noise. Fill may use k to draw the noise. Several goroutines call Fill
	// concurrently, each with a different k.
	Fill(lo int, x, epsilon, gamma0 linalg.Matrix[T], k *random.Keyed)
}

// A Trainer trains a model with Algorithm 2.
type Trainer[T linalg.Float] struct {
	Config Config
	Params []Param[T]

	// If Recompute is true, the backward pass recomputes each leapfrog step. Training is then
	// slower, and its memory does not depend on K. The results are bit-identical.
	Recompute bool

	algorithm *hvae.Trainer[T]
	batch     Batch[T] // the current batch
	columns   []int    // 0, 1, 2, …, the indices of images in a batch
}

// NewTrainer returns a trainer that uses Adamax with the given learning rate. It changes the
// parameters in place.
func NewTrainer[T linalg.Float](c Config, params []Param[T], rate float64) *Trainer[T] {
	t := &Trainer[T]{Config: c, Params: params}
	var all hvae.Params[T]
	for _, p := range params {
		all = append(all, p.Param)
	}
	t.algorithm = hvae.NewTrainer(all, hvae.NewAdamax(T(rate)), t.bound)
	return t
}

// Step estimates the mean ELBO of a batch and its gradient, and updates the parameters. If the
// ELBO or its gradient is not finite, Step returns an error that names the first operation with
// such a result. If ctx is done, Step returns ctx's error immediately. After an error, the trainer is
// unchanged.
func (t *Trainer[T]) Step(ctx context.Context, b Batch[T]) (elbo float64, err error) {
	return t.algorithm.Step(ctx, t.begin(b))
}

// ELBO returns an estimate of the mean ELBO of a batch. If ctx is done, it returns ctx's error.
func (t *Trainer[T]) ELBO(ctx context.Context, b Batch[T]) (float64, error) {
	elbo, _, err := t.algorithm.Evaluate(ctx, t.begin(b), 0, nil)
	return elbo, err
}

// begin sets the current batch and returns the indices of its images.
func (t *Trainer[T]) begin(b Batch[T]) []int {
	n := b.Len()
	t.batch, t.algorithm.BlockSize = b, t.Config.blockSize(n)
	for len(t.columns) < n {
		t.columns = append(t.columns, len(t.columns))
	}
	return t.columns[:n]
}

// A worker holds memory that a goroutine reuses for each block of images.
type worker[T linalg.Float] struct {
	network *Network[T]
	stream  random.Keyed
}

// bound is an hvae.Bound. It returns the ELBO [1×n] of the n images in a block.
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
	t.batch.Fill(b.Batch[0], x, epsilon, gamma0, &w.stream)
	return w.network.ELBO(b.Tape.Const(x), b.Tape.Const(epsilon), b.Tape.Const(gamma0))
}
