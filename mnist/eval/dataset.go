package eval

import (
	"context"
	"math/rand/v2"

	"hvae/linalg"
	"hvae/linalg/random"
	"hvae/mnist/data"
	"hvae/mnist/model"
)

// A Dataset is a set of images on which a model is evaluated.
type Dataset struct {
	Indices []int // indices of the images, which also select their random streams

	name      string      // value of Evaluation.Data
	simulated bool        // whether the images are drawn from the model
	images    data.Images // empty if simulated
	seed      uint64
	tuning    *Dataset // other images, on which the step sizes of annealed importance sampling are tuned
}

// tuningImages is the largest number of images on which step sizes are tuned.
const tuningImages = 16

// Split returns the test images (split = "test") or the validation images (split = "validation") of a
// dataset. trainSeed is the seed of the training run, which determines the validation images. seed
// determines the binarisation and the noise. Step sizes are tuned on images of the other split.
func Split(set data.Set, split string, trainSeed, seed uint64) Dataset {
	_, validation := data.Split(set.Train, trainSeed)
	d := Dataset{name: set.Name, Indices: first(set.Test.Len()), images: set.Test, seed: seed}
	other := Dataset{name: set.Name, Indices: validation, images: set.Train, seed: seed}
	if split == "validation" {
		d, other = other, d
	}
	other.Indices = other.Indices[:min(tuningImages, len(other.Indices))]
	d.tuning = &other
	return d
}

// Simulated returns a dataset of n images drawn from the model. Each run draws new images.
func Simulated(n int, seed uint64) Dataset {
	other := Dataset{Indices: first(tuningImages), simulated: true, seed: seed}
	return Dataset{name: "simulated", Indices: first(n), simulated: true, seed: seed, tuning: &other}
}

// first returns the indices 0 … n−1.
func first(n int) (indices []int) {
	for i := range n {
		indices = append(indices, i)
	}
	return indices
}

// draw returns random binary images x [784×n]. If the images are simulated, draw also returns their
// latent variables z [ℓ×n]. purpose and run select the random streams.
func (d *Dataset) draw(ctx context.Context, c model.Checkpoint, purpose string, run ...int) (x, z linalg.Matrix[float32], err error) {
	if d.simulated {
		return model.Simulate(ctx, c.Config, c.Params, len(d.Indices), d.stream(purpose+" simulated", run...))
	}
	x, stream := linalg.New[float32](data.Side*data.Side, len(d.Indices)), d.stream(purpose+" pixels", run...)
	for j, i := range d.Indices {
		data.Binarise(x, j, d.images.Image(i), stream(i))
	}
	return x, z, nil
}

// stream returns a function that returns the random stream of image i. The stream depends on d.seed,
// purpose, run and i.
func (d *Dataset) stream(purpose string, run ...int) func(i int) *rand.Rand {
	return func(i int) *rand.Rand { return random.Stream(d.seed, purpose, append(run[:len(run):len(run)], i)...) }
}
