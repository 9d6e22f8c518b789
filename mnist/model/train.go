package model

import (
	"context"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/linalg/random"
)

// blockSize returns the number of columns of a batch of n that share a tape. With leapfrog
// steps it is 16, the float32 values of a vector, whose activations stay in a core's cache
// from layer to layer and take little memory per step. Without, it is up to 64, so that the
// weights are read from memory less often. Then the batch is split into an even number of
// blocks of about the same size, and idle cores share the loops within a block.
func (c Config) blockSize(n int) int {
	const vector, most = 16, 64
	if c.K > 0 {
		return vector
	}
	blocks := 2 * ((n + 2*most - 1) / (2 * most))
	return ((n+blocks-1)/blocks + 3) / 4 * 4 // a multiple of a quarter of a vector
}

// A Batch supplies images and noise. Each image must have a separate stream of noise, so that
// the noise does not depend on the blocks into which the batch is split.
type Batch[T linalg.Float] interface {
	// Len returns the number of images.
	Len() int
	// Fill sets the columns of x [784×n], epsilon and gamma0 [ℓ×n] to the images lo …
	// lo+n−1 of the batch and their noise, for which it may use k. Several goroutines call
	// it at once, each with another k.
	Fill(lo int, x, epsilon, gamma0 linalg.Matrix[T], k *random.Keyed)
}

// A Trainer trains a model with Algorithm 2; the columns are images.
type Trainer[T linalg.Float] struct {
	Config Config
	Params []Param[T]

	// Recompute makes memory independent of K and training slower: the gradient runs each
	// leapfrog step again. The results are bit-identical.
	Recompute bool

	algorithm *hvae.Trainer[T]
	batch     Batch[T] // of the current step
	columns   []int    // 0, 1, …: the images of a batch
}

// NewTrainer returns a trainer of the given parameters with Adamax at the given learning rate.
// It changes them in place.
func NewTrainer[T linalg.Float](c Config, params []Param[T], rate float64) *Trainer[T] {
	t := &Trainer[T]{Config: c, Params: params}
	var all hvae.Params[T]
	for _, p := range params {
		all = append(all, p.Param)
	}
	t.algorithm = hvae.NewTrainer(all, hvae.NewAdamax(T(rate)), t.bound)
	return t
}

// Step estimates the mean ELBO over a batch and its gradient, and updates the parameters.
// If it returns an error, the trainer is unchanged. If the ELBO or its gradient is not finite,
// the error names the first operation whose result is not. If ctx ends, Step returns ctx's
// error at once.
func (t *Trainer[T]) Step(ctx context.Context, b Batch[T]) (elbo float64, err error) {
	return t.algorithm.Step(ctx, t.begin(b))
}

// ELBO estimates the mean ELBO over a batch. If ctx ends first, it returns ctx's error.
func (t *Trainer[T]) ELBO(ctx context.Context, b Batch[T]) (float64, error) {
	elbo, _, err := t.algorithm.Evaluate(ctx, t.begin(b), 0, nil)
	return elbo, err
}

// begin sets the batch and returns its columns.
func (t *Trainer[T]) begin(b Batch[T]) []int {
	n := b.Len()
	t.batch, t.algorithm.Recompute, t.algorithm.BlockSize = b, t.Recompute, t.Config.blockSize(n)
	for len(t.columns) < n {
		t.columns = append(t.columns, len(t.columns))
	}
	return t.columns[:n]
}

// A worker is the memory that a goroutine reuses from block to block.
type worker[T linalg.Float] struct {
	network *Network[T]
	stream  random.Keyed
}

// bound is the hvae.Bound of the trainer: it returns the ELBO of the images of a block.
func (t *Trainer[T]) bound(b *hvae.Block[T]) *ad.Var[T] {
	w, ok := b.State.(*worker[T])
	if !ok {
		w = &worker[T]{network: newNetwork[T](t.Config)}
		b.State = w
	}
	w.network.bind(b.Params, b.Scratch)
	n := len(b.Batch)
	x := b.Tape.Matrix(pixels, n)
	epsilon, gamma0 := b.Tape.Matrix(t.Config.Latent, n), b.Tape.Matrix(t.Config.Latent, n)
	t.batch.Fill(b.Batch[0], x, epsilon, gamma0, &w.stream)
	return w.network.ELBO(b.Tape.Const(x), b.Tape.Const(epsilon), b.Tape.Const(gamma0))
}
