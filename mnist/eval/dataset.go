package eval

import (
	"context"
	"fmt"
	"math/rand/v2"

	"hvae/hvae"
	"hvae/linalg"
	"hvae/mnist/data"
	"hvae/mnist/model"
)

// A Dataset is a set of images to evaluate a model on.
type Dataset struct {
	Name        string // for Evaluation.Data
	Description string // follows the number of images, such as "test images of mnist"
	Indices     []int  // of the images in their source, for their random streams
	Simulated   bool   // whether the images are drawn from the model

	seed uint64
	// draw returns the binary images x [784×n] of a run and, if they are simulated, the latent
	// variables z [ℓ×n] from which they were drawn.
	draw func(run int, indices []int) (x, z linalg.Matrix[float32], err error)
	// tuning returns images [784×n] that are not evaluated, to tune the step sizes of
	// annealing.
	tuning func() (linalg.Matrix[float32], error)
}

// Binarise returns binary images [784×n] with the given indices. They depend only on the seed,
// the run and the index.
func Binarise(images data.Images, indices []int, seed uint64, run int) linalg.Matrix[float32] {
	return binarise(images, indices, func(i int) *rand.Rand { return hvae.Stream(seed, "mnist eval pixels", run, i) })
}

// binarise returns binary images [784×n] with the given indices, where noise returns the stream
// of an index.
func binarise(images data.Images, indices []int, noise func(index int) *rand.Rand) linalg.Matrix[float32] {
	x := linalg.New[float32](data.Side*data.Side, len(indices))
	for j, i := range indices {
		data.Binarise(x, j, images.Image(i), noise(i))
	}
	return x
}

// Noise returns the noise of importance sampling for model.Evaluate. It depends only on the seed,
// the run and the index of an image.
func Noise(indices []int, seed uint64, run int) func(image int) *rand.Rand {
	return func(image int) *rand.Rand { return hvae.Stream(seed, "mnist eval noise", run, indices[image]) }
}

// First returns 0 to n−1, the indices of the first n images.
func First(n int) []int {
	indices := make([]int, n)
	for i := range indices {
		indices[i] = i
	}
	return indices
}

// tuningImages is the number of images for which step sizes are tuned together.
const tuningImages = 16

// Split returns the images of a split, test or validation. The seed of the training, trainSeed,
// determines the validation images. Step sizes are tuned on the other split.
func Split(set data.Set, split string, trainSeed, seed uint64) Dataset {
	_, validation := data.Split(set.Train, trainSeed)
	images, indices := set.Test, First(set.Test.Len())
	others, tuning := set.Train, validation
	if split == "validation" {
		images, indices, others, tuning = others, tuning, images, indices
	}
	tuning = tuning[:min(tuningImages, len(tuning))]
	return Dataset{
		Name: set.Name, Description: fmt.Sprintf("%s images of %s", split, set.Name), Indices: indices, seed: seed,
		draw: func(run int, indices []int) (x, z linalg.Matrix[float32], err error) {
			return Binarise(images, indices, seed, run), z, nil
		},
		tuning: func() (linalg.Matrix[float32], error) {
			return binarise(others, tuning, func(i int) *rand.Rand { return hvae.Stream(seed, "mnist ais tuning pixels", i) }), nil
		},
	}
}

// Simulated returns n images that are drawn from the model, new ones for each run. Step sizes
// are tuned on further simulated images.
func Simulated(ctx context.Context, c model.Checkpoint, n int, seed uint64) Dataset {
	return Dataset{
		Name: "simulated", Description: "images drawn from the model", Indices: First(n), Simulated: true, seed: seed,
		draw: func(run int, indices []int) (x, z linalg.Matrix[float32], err error) {
			return model.Simulate(ctx, c.Config, c.Params, len(indices), func(image int) *rand.Rand {
				return hvae.Stream(seed, "mnist eval simulated", run, image)
			})
		},
		tuning: func() (linalg.Matrix[float32], error) {
			x, _, err := model.Simulate(ctx, c.Config, c.Params, tuningImages, func(image int) *rand.Rand {
				return hvae.Stream(seed, "mnist ais tuning simulated", image)
			})
			return x, err
		},
	}
}
