package main

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"hvae/bench/command"
	"hvae/bench/progress"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/linalg/random"
	"hvae/mnist/data"
	"hvae/mnist/model"
)

// A run is a training run: its settings and metrics (in state) and its trainer. A run resumed from the state after an
// epoch draws the same random numbers as an uninterrupted run and, if it uses the same kernels (vector or plain Go),
// has the same results, except for times.
type run struct {
	state
	set                  data.Set
	training, validation []int // indices of images in set.Train
	network              *model.Network[float32]
	trainer              *hvae.Trainer[float32] // of network

	images int     // number of images trained in the current epoch
	sum    float64 // training ELBO, summed over these images
}

// newRun returns a run with the settings s. If old is not empty, it is the state of the run that is resumed. newRun
// returns an error if the settings do not fit the dataset, or if the resumed run used a different dataset.
func newRun(s model.Settings, old state, set data.Set) (*run, error) {
	isNew := old.Format == ""
	if !isNew && old.DataSHA256 != set.SHA256 {
		return nil, fmt.Errorf("the images differ from the dataset %.40q of the run: specify the folder of this dataset with -data", old.Data)
	}
	r := &run{state: old, set: set}
	r.Format, r.Settings, r.Data, r.DataSHA256 = stateFormat, s, set.Name, set.SHA256
	r.Settings.Data = set.Folder // absolute, so that a run can be resumed in another working directory
	r.training, r.validation = data.Split(set.Train, s.Seed)
	n := cmp.Or(s.Train, len(r.training))
	if n > len(r.training) {
		return nil, command.Usage("invalid value %d for flag -train: there are %d training images", n, len(r.training))
	}
	r.training = r.training[:n]
	r.network = model.New[float32](s.Config, data.MeanLogit(set.Train, r.training), s.Seed)
	if isNew && s.Start != "" {
		c, _, err := readCheckpoint(s.Start)
		if err != nil {
			return nil, err
		}
		if c.Config.Latent != s.Latent {
			return nil, fmt.Errorf("%s has %d latent dimensions, but the new model has %d (-latent)",
				s.Start, c.Config.Latent, s.Latent)
		}
		r.network.SetEncoderAndDecoder(c.Network)
	}
	binarise := func(x linalg.Matrix[float32], j, image int, rng *rand.Rand) {
		data.Binarise(x, j, set.Train.Image(image), rng) // new pixels each time an image is used
	}
	r.trainer = model.NewTrainer(s, r.network, model.Bound(s, r.network, binarise))
	if isNew {
		return r, nil
	}
	return r, r.trainer.Restore(old.Trainer)
}

// next trains for one epoch, and returns and stores the metrics of the epoch. If its model is the best so far, next
// also stores the model.
func (r *run) next(ctx context.Context, line *progress.Line) (m model.Metrics, err error) {
	began := time.Now()
	m = model.Metrics{Epoch: len(r.Metrics) + 1, Rate: r.Settings.Rate}
	order := slices.Clone(r.training)
	shuffle := random.Stream(r.Settings.Seed, "mnist shuffle", m.Epoch)
	shuffle.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	r.images, r.sum = 0, 0
	for batch := range slices.Chunk(order, r.Settings.Batch) {
		r.trainer.BlockSize = r.Settings.BlockSize(len(batch))
		elbo, err := r.trainer.Step(ctx, batch)
		if err != nil {
			return m, fmt.Errorf("after %d of %d images: %w", r.images, len(order), err)
		}
		r.sum += elbo * float64(len(batch))
		r.images += len(batch)
		line.Add(len(batch))
	}
	m.TrainELBO = r.sum / float64(len(order))
	m.ValELBO, err = r.validate(ctx, m.Epoch)
	if err != nil {
		return m, fmt.Errorf("validation: %w", err)
	}
	m.FlowSummary = r.network.FlowSummary()
	m.Seconds = time.Since(began).Seconds()
	r.Metrics = append(r.Metrics, m)
	if model.Best(r.Metrics) == m {
		c := model.Checkpoint{Network: r.network, Seed: r.Settings.Seed, Epoch: m.Epoch, ELBO: m.ValELBO}
		c.Data, c.DataSHA256 = r.Data, r.DataSHA256
		r.Best = c.Encode()
	}
	return m, nil
}

// validate returns the mean ELBO of the validation images, computed in batches of 1,000 images. As in the authors'
// code, the binary images are the same in each epoch, but the noise (ε and γ₀) is new. This noise affects when early
// stopping ends a run (see mnist/results/README.md).
func (r *run) validate(ctx context.Context, epoch int) (mean float64, err error) {
	bound := model.Bound(r.Settings, r.network, func(x linalg.Matrix[float32], j, image int, _ *rand.Rand) {
		pixels := random.Stream(r.Settings.Seed, "mnist validation pixels", image)
		data.Binarise(x, j, r.set.Train.Image(image), pixels)
	})
	done := 0
	for batch := range slices.Chunk(r.validation, 1000) {
		noise := random.Stream(r.Settings.Seed, "mnist validation noise", epoch, done).Uint64()
		r.trainer.BlockSize = r.Settings.BlockSize(len(batch))
		elbo, _, err := r.trainer.Evaluate(ctx, batch, noise, bound)
		if err != nil {
			return 0, err
		}
		mean += elbo * float64(len(batch))
		done += len(batch)
	}
	return mean / float64(done), nil
}
