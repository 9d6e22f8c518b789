package model

import (
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
)

// blockSize is how many columns of a batch share a tape. It is fixed, not a share of
// the batch: sums over blocks then run in one order on any number of cores.
const blockSize = 25

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

	workers []*worker[T]
	blocks  []block[T]
	values  []linalg.Matrix[T]
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
	elbo  float64 // summed over columns
	grads []linalg.Matrix[T]
}

// NewTrainer returns a trainer of the given parameters, which it changes in place, by
// Adamax.
func NewTrainer[T linalg.Float](c Config, params []Param[T], rate float64) *Trainer[T] {
	t := &Trainer[T]{Config: c, Params: params, Optimiser: hvae.NewAdamax(T(rate))}
	for _, p := range params {
		t.values = append(t.values, p.Value)
	}
	return t
}

// Step estimates the mean ELBO over a batch and its gradient, and updates the
// parameters. If either is not finite it leaves the parameters as they are and returns
// an error that names the first operation whose result was not.
func (t *Trainer[T]) Step(b Batch[T]) (elbo float64, err error) {
	n := t.run(b, true)
	total := &t.blocks[0]
	for i := 1; i < n; i++ {
		for j, g := range t.blocks[i].grads {
			linalg.Add(total.grads[j], total.grads[j], g)
		}
	}
	elbo = t.mean(n, b.Len())
	good := !math.IsNaN(elbo) && !math.IsInf(elbo, 0)
	for _, g := range total.grads {
		linalg.Scale(g, 1/T(b.Len()), g)
		good = good && finite(g)
	}
	if !good {
		return elbo, fmt.Errorf("the ELBO (%v) or its gradient is not finite: %s", elbo, t.blame(b))
	}
	t.Optimiser.Ascend(t.values, total.grads)
	return elbo, nil
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
	n := (b.Len() + blockSize - 1) / blockSize
	for len(t.blocks) < n {
		t.blocks = append(t.blocks, block[T]{})
	}
	goroutines := min(n, runtime.GOMAXPROCS(0))
	for len(t.workers) < goroutines {
		t.workers = append(t.workers, new(worker[T]))
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for _, w := range t.workers[:goroutines] {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				t.block(w, b, i, gradients)
			}
		})
	}
	wg.Wait()
	return n
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
	ad.Backward(sum, w.leaves...)
	for j, leaf := range w.leaves {
		if len(out.grads) == j {
			out.grads = append(out.grads, linalg.New[T](leaf.Rows(), leaf.Cols()))
		}
		linalg.Copy(out.grads[j], leaf.Grad())
	}
}

// bound puts the ELBO of block i on the worker's tape.
func (t *Trainer[T]) bound(w *worker[T], b Batch[T], i int, gradients bool) *ad.Var[T] {
	lo := i * blockSize
	n := min(blockSize, b.Len()-lo)
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
	w := t.workers[0]
	for i := range (b.Len() + blockSize - 1) / blockSize {
		sum := ad.Sum(t.bound(w, b, i, true))
		what := w.tape.FirstNonFinite()
		for j := 0; what == "" && j < len(w.leaves); j++ {
			if !finite(t.blocks[i].grads[j]) { // one sweep that is kept, of all there are
				ad.Grad(sum, w.leaves[j])
				what = w.tape.FirstNonFinite()
			}
		}
		if what != "" {
			return fmt.Sprintf("images %d to %d of the batch, first in %s", i*blockSize+1, min((i+1)*blockSize, b.Len()), what)
		}
	}
	return "only in the sum over the batch"
}

// finite reports whether every element of m is finite.
func finite[T linalg.Float](m linalg.Matrix[T]) bool {
	for _, v := range m.Data {
		if v-v != 0 {
			return false
		}
	}
	return true
}
