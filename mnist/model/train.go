package model

import (
	"fmt"
	"iter"
	"math"
	"runtime"
	"sync/atomic"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
)

// blockSize returns how many columns of a batch of n share a tape: with leapfrog steps a
// vector of float32, whose activations stay in a core's cache from layer to layer and take
// little memory from step to step; without, up to 64, so that the weights are read from
// memory less often. The batch is then cut in an even number of parts of about the same
// size, and cores that are left over share the loops within a part. The size does not
// depend on the number of cores, so sums over blocks run in one order on all.
func (c Config) blockSize(n int) int {
	const vector, most = 16, 64
	if c.K > 0 {
		return vector
	}
	parts := 2 * ((n + 2*most - 1) / (2 * most))
	return ((n+parts-1)/parts + 3) / 4 * 4 // rows of whole quarters of a vector
}

// blocks returns how many blocks a batch of n has.
func (c Config) blocks(n int) int {
	size := c.blockSize(n)
	return (n + size - 1) / size
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

// A Trainer trains a model on all cores: the columns of a batch are cut into blocks, each
// goroutine runs its own tape over a block at a time, and gradients are added up in the
// order of the blocks.
type Trainer[T linalg.Float] struct {
	Config    Config
	Params    []Param[T]
	Optimiser *hvae.Adamax[T]

	// Recompute trades time for memory that does not depend on K: leapfrog steps are run
	// again when the gradient needs what lies within them. The results are the same bits.
	// It must be set before the first step.
	Recompute bool

	theta   linalg.Matrix[T] // the parameters' elements, one after another
	workers []*worker[T]
	blocks  []block[T]
	now     step[T]

	// Bodies of loops, made once, so that a step allocates nothing.
	work, sum func(lo, hi int)
	// θ and its gradient, as the optimiser takes them.
	thetas, gradients [1]linalg.Matrix[T]
}

// A step is what the goroutines work on.
type step[T linalg.Float] struct {
	batch    Batch[T]
	blocks   int          // how many
	next     atomic.Int64 // the first that no goroutine has taken
	gradient bool         // is asked for
}

// A worker is what a goroutine needs for itself.
type worker[T linalg.Float] struct {
	tape    ad.Tape[T]
	network Network[T]
	leaves  []*ad.Var[T]
	stream  hvae.Keyed
}

// A block is the result of some columns of a batch.
type block[T linalg.Float] struct {
	elbo     float64          // summed over columns
	gradient linalg.Matrix[T] // likewise; as θ
}

// NewTrainer returns a trainer of the given parameters by Adamax. It changes them in place,
// and moves their elements to one vector θ.
func NewTrainer[T linalg.Float](c Config, params []Param[T], rate float64) *Trainer[T] {
	t := &Trainer[T]{Config: c, Params: params, Optimiser: hvae.NewAdamax(T(rate))}
	n := 0
	for _, p := range params {
		n += len(p.Value.Data)
	}
	t.theta = linalg.New[T](n, 1)
	for i, m := range t.split(t.theta) {
		linalg.Copy(m, params[i].Value)
		params[i].Value = m
	}
	t.thetas[0] = t.theta
	t.work = t.takeBlocks
	t.sum = t.addBlocks
	return t
}

// split views a vector like θ as a matrix for each parameter.
func (t *Trainer[T]) split(theta linalg.Matrix[T]) iter.Seq2[int, linalg.Matrix[T]] {
	return func(yield func(int, linalg.Matrix[T]) bool) {
		lo := 0
		for i, p := range t.Params {
			hi := lo + len(p.Value.Data)
			if !yield(i, linalg.Of(p.Value.Rows, p.Value.Cols, theta.Data[lo:hi:hi])) {
				return
			}
			lo = hi
		}
	}
}

// Step estimates the mean ELBO over a batch and its gradient, and updates the
// parameters. If either is not finite it leaves the parameters as they are and returns
// an error that names the first operation whose result was not.
func (t *Trainer[T]) Step(b Batch[T]) (elbo float64, err error) {
	n := t.run(b, true)
	gradient := t.blocks[0].gradient
	linalg.For(gradient.Rows, addGrain, t.sum)
	elbo = t.mean(n, b.Len())
	if math.IsNaN(elbo) || math.IsInf(elbo, 0) || !linalg.Finite(gradient) {
		return elbo, fmt.Errorf("the ELBO (%v) or its gradient is not finite: %s", elbo, t.blame(b))
	}
	t.gradients[0] = gradient
	t.Optimiser.Ascend(t.thetas[:], t.gradients[:])
	return elbo, nil
}

// addGrain is how many elements of the gradient outweigh starting a goroutine.
const addGrain = 1 << 15

// addBlocks sets elements lo to hi-1 of the first block's gradient to those of the batch's
// mean, adding blocks up in their order.
func (t *Trainer[T]) addBlocks(lo, hi int) {
	const piece = 1 << 11 // stays in the nearest cache from block to block
	for ; lo < hi; lo += piece {
		total := t.blocks[0].gradient.RowRange(lo, min(lo+piece, hi))
		for i := 1; i < t.now.blocks; i++ {
			linalg.Add(total, total, t.blocks[i].gradient.RowRange(lo, min(lo+piece, hi)))
		}
		linalg.Scale(total, 1/T(t.now.batch.Len()), total)
	}
}

// ELBO estimates the mean ELBO over a batch.
func (t *Trainer[T]) ELBO(b Batch[T]) float64 { return t.mean(t.run(b, false), b.Len()) }

func (t *Trainer[T]) mean(blocks, images int) float64 {
	sum := 0.0
	for _, b := range t.blocks[:blocks] {
		sum += b.elbo
	}
	return sum / float64(images)
}

// run computes the blocks of a batch, with gradients if asked for, and returns how many
// there are.
func (t *Trainer[T]) run(b Batch[T], gradients bool) int {
	n := t.Config.blocks(b.Len())
	for len(t.blocks) < n {
		t.blocks = append(t.blocks, block[T]{})
	}
	goroutines := min(n, runtime.GOMAXPROCS(0))
	for len(t.workers) < goroutines {
		w := new(worker[T])
		if t.Recompute {
			w.network.Recompute()
		}
		t.workers = append(t.workers, w)
	}
	t.now.batch, t.now.blocks, t.now.gradient = b, n, gradients
	t.now.next.Store(0)
	linalg.For(goroutines, 1, t.work)
	return n
}

// takeBlocks lets workers lo to hi-1 compute blocks until none is left.
func (t *Trainer[T]) takeBlocks(lo, hi int) {
	for _, w := range t.workers[lo:hi] {
		for i := int(t.now.next.Add(1)) - 1; i < t.now.blocks; i = int(t.now.next.Add(1)) - 1 {
			t.block(w, t.now.batch, i, t.now.gradient)
		}
	}
}

// block computes block i of a batch.
func (t *Trainer[T]) block(w *worker[T], b Batch[T], i int, gradients bool) {
	elbo := t.bound(w, b, i, gradients)
	sum := ad.Sum(elbo)
	out := &t.blocks[i]
	out.elbo = float64(sum.Scalar())
	if !gradients {
		return
	}
	if out.gradient.Data == nil {
		out.gradient = linalg.New[T](t.theta.Rows, 1)
	}
	for j, g := range t.split(out.gradient) {
		w.leaves[j].GradientInto(g, false)
	}
	ad.Backward(sum, w.leaves...)
}

// bound puts the ELBO of block i on the worker's tape.
func (t *Trainer[T]) bound(w *worker[T], b Batch[T], i int, gradients bool) *ad.Var[T] {
	size := t.Config.blockSize(b.Len())
	lo := i * size
	n := min(size, b.Len()-lo)
	w.tape.Reset()
	w.leaves = w.network.Bind(&w.tape, t.Config, t.Params, gradients, w.leaves)
	x := w.tape.Matrix(pixels, n)
	epsilon, gamma0 := w.tape.Matrix(t.Config.Latent, n), w.tape.Matrix(t.Config.Latent, n)
	b.Fill(lo, x, epsilon, gamma0, &w.stream)
	return w.network.ELBO(w.tape.Const(x), w.tape.Const(epsilon), w.tape.Const(gamma0))
}

// blame runs a batch again, recording the gradient too, and says which operation first
// had a result that is not finite.
func (t *Trainer[T]) blame(b Batch[T]) string {
	w := new(worker[T]) // which keeps everything
	size := t.Config.blockSize(b.Len())
	for i := range t.Config.blocks(b.Len()) {
		sum := ad.Sum(t.bound(w, b, i, true))
		what := w.tape.FirstNonFinite()
		if what == "" {
			for j, g := range t.split(t.blocks[i].gradient) {
				if !linalg.Finite(g) { // one sweep that is kept, of all there are
					ad.Grad(sum, w.leaves[j])
					if what = w.tape.FirstNonFinite(); what != "" {
						break
					}
				}
			}
		}
		if what != "" {
			return fmt.Sprintf("images %d to %d of the batch, first in %s", i*size+1, min((i+1)*size, b.Len()), what)
		}
	}
	return "only in the sum over the batch"
}
