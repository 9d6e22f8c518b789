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

// A Dataset is a set of images on which a model is evaluated.
type Dataset struct {
	Name        string // value of Evaluation.Data
	Description string // such as "test images of mnist"
	Indices     []int  // indices of the images, which also select their random streams
	Simulated   bool   // whether the images are drawn from the model

	seed   uint64
	images data.Images // empty if Simulated

	// The step sizes of annealed importance sampling are tuned on images that are not evaluated.
	others data.Images // empty if Simulated
	tuning []int       // indices of the images
}

// Split returns the test or validation images of a dataset. split is "test" or "validation".
// trainSeed, the seed of the training run, determines which images are validation images. Step
// sizes are tuned on images of the other split. seed determines the binarisation and the noise.
func Split(set data.Set, split string, trainSeed, seed uint64) Dataset {
	_, validation := data.Split(set.Train, trainSeed)
	d := Dataset{Name: set.Name, Description: fmt.Sprintf("%s images of %s", split, set.Name), seed: seed,
		images: set.Test, Indices: first(set.Test.Len()), others: set.Train, tuning: validation}
	if split == "validation" {
		d.images, d.Indices, d.others, d.tuning = d.others, d.tuning, d.images, d.Indices
	}
	d.tuning = d.tuning[:min(tuningImages, len(d.tuning))]
	return d
}

// Simulated returns a dataset of n images drawn from the model. Each run draws new images.
func Simulated(n int, seed uint64) Dataset {
	return Dataset{Name: "simulated", Description: "images drawn from the model", Indices: first(n), Simulated: true,
		seed: seed, tuning: first(tuningImages)}
}

// tuningImages is the largest number of images on which step sizes are tuned.
const tuningImages = 16

// first returns the indices 0 … n−1.
func first(n int) []int {
	indices := make([]int, n)
	for i := range indices {
		indices[i] = i
	}
	return indices
}

// draw returns random binary images x [784×n] for a run. If the images are simulated, draw also
// returns their latent variables z [ℓ×n].
func (d *Dataset) draw(ctx context.Context, c model.Checkpoint, run int) (x, z linalg.Matrix[float32], err error) {
	if d.Simulated {
		return model.Simulate(ctx, c.Config, c.Params, len(d.Indices), d.stream("mnist eval simulated", run))
	}
	return binarise(d.images, d.Indices, d.stream("mnist eval pixels", run)), z, nil
}

// drawTuning returns random binary images [784×n], on which the step sizes of annealed importance
// sampling are tuned.
func (d *Dataset) drawTuning(ctx context.Context, c model.Checkpoint) (x linalg.Matrix[float32], err error) {
	if d.Simulated {
		x, _, err = model.Simulate(ctx, c.Config, c.Params, len(d.tuning), d.stream("mnist ais tuning simulated"))
		return x, err
	}
	return binarise(d.others, d.tuning, d.stream("mnist ais tuning pixels")), nil
}

// stream returns a function from the index i of an image to a random stream. The stream depends on
// the seed of the dataset, the purpose, the run, if any, and i.
func (d *Dataset) stream(purpose string, run ...int) func(i int) *rand.Rand {
	return func(i int) *rand.Rand { return random.Stream(d.seed, purpose, append(run[:len(run):len(run)], i)...) }
}

// chainStream returns a function from j and chain to the random stream of a Markov chain for the image
// with index Indices[j].
func (d *Dataset) chainStream(purpose string, run int) func(j, chain int) *rand.Rand {
	return func(j, chain int) *rand.Rand { return random.Stream(d.seed, purpose, run, d.Indices[j], chain) }
}

// binarise returns random binarisations [784×n] of the images with the given indices.
func binarise(images data.Images, indices []int, stream func(i int) *rand.Rand) linalg.Matrix[float32] {
	x := linalg.New[float32](data.Side*data.Side, len(indices))
	for j, i := range indices {
		data.Binarise(x, j, images.Image(i), stream(i))
	}
	return x
}
