package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"

	"hvae/bench/command"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/mnist/data"
	"hvae/mnist/model"
)

// Subjects are the images that a model is evaluated on.
type subjects struct {
	name        string // of the data
	description string // after their number: "test images of mnist"
	elsewhere   string // what the model was trained on, if it is known and is not the data
	which       []int  // numbers of the images, for their noise

	// begin begins a run: fill sets x to an image, drawn afresh, and k to its noise. z has
	// the latent variables that images were drawn for, if they are simulated.
	begin func(run int) (fill filler, z linalg.Matrix[float32], err error)
	// tuning returns other images, to tune step sizes on.
	tuning func() (linalg.Matrix[float32], error)
}

type filler = func(image int, x linalg.Matrix[float32], k *hvae.Keyed)

// tuningImages is how many images the step sizes are tuned on, side by side.
const tuningImages = 16

// splitOf returns the first images of a split, all for limit 0. Step sizes are tuned on the
// other split.
func splitOf(ctx context.Context, c model.Checkpoint, folder, name, split string, limit int, seed uint64, stderr io.Writer) (subjects, error) {
	set, err := load(ctx, folder, name, stderr)
	if err != nil {
		return subjects{}, err
	}
	s := subjects{name: set.Name, description: fmt.Sprintf("%s images of %s", split, set.Name), elsewhere: otherData(c, set)}
	if s.elsewhere != "" {
		fmt.Fprintf(stderr, "note: the model was%s not on these images\n", s.elsewhere)
	}
	test := func() (data.Images, []int) {
		which := make([]int, set.Test.Len())
		for i := range which {
			which[i] = i
		}
		return set.Test, which
	}
	validation := func() (data.Images, []int) {
		_, which := data.Split(set.Train, c.Seed)
		return set.Train, which
	}
	this, other := test, validation
	if split == "validation" {
		this, other = validation, test
	}
	images, which := this()
	if limit > len(which) {
		return subjects{}, command.UsageError("invalid value %d for flag -limit: the %s split has %d images", limit, split, len(which))
	}
	if limit > 0 {
		which = which[:limit]
	}
	s.which = which
	s.begin = func(run int) (filler, linalg.Matrix[float32], error) {
		return evaluationOf(images, which, seed, run), linalg.Matrix[float32]{}, nil
	}
	s.tuning = func() (linalg.Matrix[float32], error) {
		images, which := other()
		x := linalg.New[float32](28*28, min(tuningImages, len(which)))
		for j := range x.Cols {
			data.Binarise(x, j, images.Image(which[j]), hvae.Stream(seed, "mnist ais tuning pixels", which[j]))
		}
		return x, nil
	}
	return s, nil
}

// simulatedSubjects returns images that are drawn from the model, 10,000 for limit 0. Step
// sizes are tuned on others.
func simulatedSubjects(ctx context.Context, c model.Checkpoint, limit int, seed uint64) subjects {
	if limit == 0 {
		limit = 10_000
	}
	s := subjects{name: "simulated", description: "images drawn from the model", which: make([]int, limit)}
	for i := range s.which {
		s.which[i] = i
	}
	s.begin = func(run int) (filler, linalg.Matrix[float32], error) {
		x, z, err := model.Simulate(ctx, c.Config, c.Params, limit, func(image int) *rand.Rand {
			return hvae.Stream(seed, "mnist eval simulated", run, image)
		})
		fill := func(image int, one linalg.Matrix[float32], k *hvae.Keyed) {
			for i := range one.Rows {
				one.Data[i] = x.At(i, image)
			}
			k.Reset(seed, "mnist eval noise", run, image)
		}
		return fill, z, err
	}
	s.tuning = func() (linalg.Matrix[float32], error) {
		x, _, err := model.Simulate(ctx, c.Config, c.Params, tuningImages, func(image int) *rand.Rand {
			return hvae.Stream(seed, "mnist ais tuning simulated", image)
		})
		return x, err
	}
	return s
}
