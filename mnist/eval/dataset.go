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
	Name        string // for Evaluation.Data
	Description string // follows the number of images, such as "test images of mnist"
	Indices     []int  // of the images in their source, for their random streams
	Simulated   bool   // whether the images are drawn from the model

	seed uint64
	// begin returns the images of a run and, if they are simulated, the latent variables z
	// from which they were drawn.
	begin func(run int) (fill Fill, z linalg.Matrix[float32], err error)
	// tuning returns images [784×n] that are not evaluated, to tune the step sizes of
	// annealing.
	tuning func() (linalg.Matrix[float32], error)
}

// A Fill sets x [784×1] to the binary image i and k to the start of the image's noise stream.
type Fill = func(i int, x linalg.Matrix[float32], k *random.Keyed)

// Binarise returns a Fill for the images with the given indices. Binarisation and noise depend
// on the seed, the run and the index only.
func Binarise(images data.Images, indices []int, seed uint64, run int) Fill {
	return func(i int, x linalg.Matrix[float32], k *random.Keyed) {
		index := indices[i]
		data.Binarise(x, 0, images.Image(index), k.Reset(seed, "mnist eval pixels", run, index))
		k.Reset(seed, "mnist eval noise", run, index)
	}
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

// Split returns the images of a split, test or validation. A run with seed
// trainSeed determines the validation images. Step sizes are tuned on the other split.
func Split(set data.Set, split string, trainSeed, seed uint64) Dataset {
	test := func() (data.Images, []int) { return set.Test, First(set.Test.Len()) }
	validation := func() (data.Images, []int) {
		_, indices := data.Split(set.Train, trainSeed)
		return set.Train, indices
	}
	this, other := test, validation
	if split == "validation" {
		this, other = validation, test
	}
	images, indices := this()
	return Dataset{
		Name: set.Name, Description: fmt.Sprintf("%s images of %s", split, set.Name), Indices: indices, seed: seed,
		begin: func(run int) (Fill, linalg.Matrix[float32], error) {
			return Binarise(images, indices, seed, run), linalg.Matrix[float32]{}, nil
		},
		tuning: func() (linalg.Matrix[float32], error) {
			images, indices := other()
			x := linalg.New[float32](data.Side*data.Side, min(tuningImages, len(indices)))
			for j := range x.Cols {
				i := indices[j]
				data.Binarise(x, j, images.Image(i), random.Stream(seed, "mnist ais tuning pixels", i))
			}
			return x, nil
		},
	}
}

// Simulated returns n images that are drawn from the model, new ones for each run. Step sizes
// are tuned on further simulated images.
func Simulated(ctx context.Context, c model.Checkpoint, n int, seed uint64) Dataset {
	return Dataset{
		Name: "simulated", Description: "images drawn from the model", Indices: First(n), Simulated: true, seed: seed,
		begin: func(run int) (Fill, linalg.Matrix[float32], error) {
			x, z, err := model.Simulate(ctx, c.Config, c.Params, n, func(image int) *rand.Rand {
				return random.Stream(seed, "mnist eval simulated", run, image)
			})
			fill := func(image int, one linalg.Matrix[float32], k *random.Keyed) {
				for i := range one.Rows {
					one.Data[i] = x.At(i, image)
				}
				k.Reset(seed, "mnist eval noise", run, image)
			}
			return fill, z, err
		},
		tuning: func() (linalg.Matrix[float32], error) {
			x, _, err := model.Simulate(ctx, c.Config, c.Params, tuningImages, func(image int) *rand.Rand {
				return random.Stream(seed, "mnist ais tuning simulated", image)
			})
			return x, err
		},
	}
}
