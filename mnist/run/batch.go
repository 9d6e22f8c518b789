package run

import (
	"slices"

	"hvae/linalg"
	"hvae/linalg/random"
	"hvae/mnist/data"
)

// shuffled returns the training images in the order of an epoch.
func shuffled(training []int, seed uint64, epoch int) []int {
	order := slices.Clone(training)
	random.Stream(seed, "mnist shuffle", epoch).Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	return order
}

// A batch is a model.Batch of images with the given indices. Training batches are binarised in
// each epoch. Validation batches are binarised once and get new noise in each epoch, as in the
// authors' code; the noise affects when early stopping ends a run (results/README.md).
type batch struct {
	images     data.Images
	indices    []int
	seed       uint64
	epoch      int
	validation bool
}

func (b *batch) Len() int { return len(b.indices) }

func (b *batch) Fill(lo int, x, epsilon, gamma0 linalg.Matrix[float32], k *random.Keyed) {
	for j := range x.Cols {
		i := b.indices[lo+j]
		noise := "mnist train noise"
		if b.validation {
			data.Binarise(x, j, b.images.Image(i), k.Reset(b.seed, "mnist validation pixels", i))
			noise = "mnist validation noise"
		} else {
			data.Binarise(x, j, b.images.Image(i), k.Reset(b.seed, "mnist train pixels", b.epoch, i))
		}
		rng := k.Reset(b.seed, noise, b.epoch, i)
		random.FillNormalColumn(rng, epsilon, j)
		random.FillNormalColumn(rng, gamma0, j)
	}
}
