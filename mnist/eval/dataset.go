package eval

import (
	"context"
	"fmt"
	"math/rand/v2"

	"hvae/linalg"
	"hvae/linalg/random"
	"hvae/mnist/data"
	"hvae/mnist/model"
)

// A Dataset is a set of images to evaluate a model on.
type Dataset struct {
	Name        string // value of Evaluation.Data
	Description string // such as "test images of mnist"
	Indices     []int  // numbers of the images, which also select their random streams
	Simulated   bool   // whether the images are drawn from the model

	seed uint64
	// draw returns binary images x [784×n] for a run. If the images are simulated, it also returns
	// their latent variables z [ℓ×n].
	draw func(run int, indices []int) (x, z linalg.Matrix[float32], err error)
	// tuning returns images [784×n] that are not evaluated. The step sizes of annealed importance
	// sampling are tuned on them.
	tuning func() (linalg.Matrix[float32], error)
}

// Binarise returns random binary images [784×n] of the images with the given indices. Each binary
// image depends only on the image, its index, the seed and the run.
func Binarise(images data.Images, indices []int, seed uint64, run int) linalg.Matrix[float32] {
	return binarise(images, indices, func(i int) *rand.Rand { return random.Stream(seed, "mnist eval pixels", run, i) })
}

// binarise is like Binarise, but draws from the random streams that noise returns.
func binarise(images data.Images, indices []int, noise func(index int) *rand.Rand) linalg.Matrix[float32] {
	x := linalg.New[float32](data.Side*data.Side, len(indices))
	for j, i := range indices {
		data.Binarise(x, j, images.Image(i), noise(i))
	}
	return x
}

// Noise returns a function, for model.Evaluate, that returns the random stream for each of the
// images with the given indices. A stream depends only on the image's index, the seed and the run.
func Noise(indices []int, seed uint64, run int) func(image int) *rand.Rand {
	return func(image int) *rand.Rand { return random.Stream(seed, "mnist eval noise", run, indices[image]) }
}

// First returns the indices 0 … n−1 of the first n images.
func First(n int) []int {
	indices := make([]int, n)
	for i := range indices {
		indices[i] = i
	}
	return indices
}

// tuningImages is the number of images on which step sizes are tuned.
const tuningImages = 16

// Split returns the test or validation images of a dataset. split is "test" or "validation".
// trainSeed, the seed of the training run, determines which images are validation images. Step
// sizes are tuned on the other split.
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
			return binarise(others, tuning, func(i int) *rand.Rand { return random.Stream(seed, "mnist ais tuning pixels", i) }), nil
		},
	}
}

// Simulated returns a dataset of n images drawn from the model. Each run draws new images. Step
// sizes are tuned on further simulated images.
func Simulated(ctx context.Context, c model.Checkpoint, n int, seed uint64) Dataset {
	return Dataset{
		Name: "simulated", Description: "images drawn from the model", Indices: First(n), Simulated: true, seed: seed,
		draw: func(run int, indices []int) (x, z linalg.Matrix[float32], err error) {
			return model.Simulate(ctx, c.Config, c.Params, len(indices), func(image int) *rand.Rand {
				return random.Stream(seed, "mnist eval simulated", run, image)
			})
		},
		tuning: func() (linalg.Matrix[float32], error) {
			x, _, err := model.Simulate(ctx, c.Config, c.Params, tuningImages, func(image int) *rand.Rand {
				return random.Stream(seed, "mnist ais tuning simulated", image)
			})
			return x, err
		},
	}
}
