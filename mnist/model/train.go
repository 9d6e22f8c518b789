package model

import (
	"context"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
)

// blockSize returns how many columns of a batch of n share a tape: with leapfrog steps a
// vector of float32, whose activations stay in a core's cache from layer to layer and take
// little memory from step to step; without, up to 64, so that the weights are read from
// memory less often. The batch is then cut in an even number of parts of about the same
// size, and cores that are left over share the loops within a part.
func (c Config) blockSize(n int) int {
	const vector, most = 16, 64
	if c.K > 0 {
		return vector
	}
	parts := 2 * ((n + 2*most - 1) / (2 * most))
	return ((n+parts-1)/parts + 3) / 4 * 4 // rows of whole quarters of a vector
}

// A Batch supplies images and noise. Implementations must draw the noise of an image
// from a stream of its own, so that it does not depend on how the batch is cut.
type Batch[T linalg.Float] interface {
	// Len returns the number of images.
	Len() int
	// Fill sets the columns of x [784×n], epsilon and gamma0 [ℓ×n] to images lo, lo+1,
	// … of the batch and their noise. It is called from several goroutines at once,
	// with a stream that the call may use.
	Fill(lo int, x, epsilon, gamma0 linalg.Matrix[T], k *hvae.Keyed)
}

// A Trainer trains a model by Algorithm 2, a column for each image.
type Trainer[T linalg.Float] struct {
	Config    Config
	Params    []Param[T]
	Optimiser *hvae.Adamax[T]

	// Recompute trades time for memory that does not depend on K: leapfrog steps are run
	// again when the gradient needs what lies within them. The results are the same bits.
	Recompute bool

	algorithm *hvae.Trainer[T]
	batch     Batch[T] // the batch of the step that runs
	columns   []int    // 0, 1, …: its images
}

// NewTrainer returns a trainer of the given parameters by Adamax. It changes them in place,
// and moves their elements to one vector θ.
func NewTrainer[T linalg.Float](c Config, params []Param[T], rate float64) *Trainer[T] {
	t := &Trainer[T]{Config: c, Params: params, Optimiser: hvae.NewAdamax(T(rate))}
	var all hvae.Params[T]
	for _, p := range params {
		all = append(all, p.Param)
	}
	t.algorithm = hvae.NewTrainer(all, t.Optimiser, t.bound)
	return t
}

// Step estimates the mean ELBO over a batch and its gradient, and updates the parameters.
// If either is not finite it leaves the parameters as they are and returns an error that
// names the first operation whose result was not. If ctx ends during the step, it returns
// ctx's error at once, and parameters and optimiser are as before.
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

// A worker is what a goroutine keeps from block to block, or from image to image.
type worker[T linalg.Float] struct {
	network *Network[T]
	vars    []*ad.Var[T] // of an evaluation
	stream  hvae.Keyed
	z0, zK  moments[T] // of an evaluation's draws
}

// bound is the hvae.Bound of images.
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
