package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
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

// A trainingRun trains a model and saves its files in a folder. An interrupted or killed run can be resumed after its
// last finished epoch. A resumed run draws the same random numbers as an uninterrupted run. With the same kernels
// (vector or plain Go), it writes the same bytes, except for times.
type trainingRun struct {
	state
	folder               string
	set                  data.Set
	training, validation []int // indices of images in set.Train
	network              *model.Network[float32]
	trainer              *hvae.Trainer[float32] // of network

	images int     // number of images trained in the current epoch
	sum    float64 // training ELBO, summed over these images
}

// newRun returns a new run or, if s was read from a file, the resumed run with this state. Settings of a resumed run may
// differ from the settings of its past epochs, but only in ways that do not affect these epochs. newRun returns an error
// if the settings do not fit the dataset, or if a resumed run was started with other images.
func newRun(folder string, s state, set data.Set) (*trainingRun, error) {
	if s.file != nil && s.DataSHA256 != set.SHA256 {
		return nil, fmt.Errorf("the images differ from the dataset %.40q, with which the run was started: specify its folder with -data", s.Data)
	}
	s.Format = stateFormat
	s.Data = set.Name
	s.DataSHA256 = set.SHA256
	s.Settings.Data = set.Folder // so that a resumed run finds the images in another working directory
	r := &trainingRun{state: s, folder: folder, set: set}
	r.training, r.validation = data.Split(set.Train, s.Settings.Seed)
	n := cmp.Or(s.Settings.Train, len(r.training))
	if n > len(r.training) {
		return nil, command.Usage("invalid value %d for flag -train: there are %d training images", n, len(r.training))
	}
	r.training = r.training[:n]
	r.network = model.New[float32](s.Settings.Config, data.MeanLogit(set.Train, r.training), s.Settings.Seed)
	if s.file == nil && s.Settings.Start != "" {
		c, err := readCheckpoint(s.Settings.Start)
		if err != nil {
			return nil, err
		}
		if c.Config.Latent != s.Settings.Latent {
			return nil, fmt.Errorf("%s has %d latent dimensions, but the new model has %d (-latent)",
				s.Settings.Start, c.Config.Latent, s.Settings.Latent)
		}
		r.network.SetEncoderAndDecoder(c.Network)
	}
	binarise := func(x linalg.Matrix[float32], j, image int, rng *rand.Rand) {
		data.Binarise(x, j, set.Train.Image(image), rng) // new pixels each time an image is used
	}
	r.trainer = model.NewTrainer(s.Settings, r.network, model.Bound(s.Settings, r.network, binarise))
	if s.file == nil {
		return r, nil
	}
	return r, r.trainer.Restore(s.Trainer)
}

// train trains until training has ended (see model.Ended) or ctx is done. After each epoch, it saves the run. It prints
// its results to stdout and its progress to stderr, and ignores failures to print.
func (r *trainingRun) train(ctx context.Context, stdout, stderr io.Writer) error {
	if err := r.begin(); err != nil {
		return err
	}
	line := progress.New(stderr, r.done(), func(time.Duration) string {
		elbo := r.sum / float64(r.images) // mean over the images of the epoch so far
		return fmt.Sprintf("epoch %d, image %d of %d, ELBO %.2f", len(r.Metrics)+1, r.images, len(r.training), elbo)
	})
	for {
		best := model.Best(r.Metrics)
		if why := model.Ended(r.Metrics, r.Settings.Epochs, r.Settings.Patience); why != "" {
			fmt.Fprintf(stdout, "training has ended: %s\nbest validation ELBO %.2f on %s after epoch %d; the model is %s\n",
				why, best.ValELBO, r.Data, best.Epoch, filepath.Join(r.folder, modelFile))
			return nil
		}
		m, err := r.trainEpoch(ctx, line)
		if err != nil && ctx.Err() != nil {
			return fmt.Errorf("%w in epoch %d, which will start again; the state is saved in %s; continue with -resume", context.Cause(ctx), len(r.Metrics)+1, r.folder)
		}
		if err != nil {
			return fmt.Errorf("training diverged in epoch %d; the state before it is saved in %s, and -resume can continue with a smaller -lr (%w)", len(r.Metrics)+1, r.folder, err)
		}
		r.Metrics = append(r.Metrics, m)
		note := ""
		if model.Best(r.Metrics) == m {
			note = "  best so far"
			c := model.Checkpoint{Network: r.network, Seed: r.Settings.Seed, Epoch: m.Epoch, ELBO: m.ValELBO}
			c.Data, c.DataSHA256 = r.Data, r.DataSHA256
			r.Best = c.Encode()
		}
		if err := r.save(); err != nil {
			return err
		}
		fmt.Fprintf(stdout, "epoch %d  train %.2f  validation %.2f  %.1f s%s\n", m.Epoch, m.TrainELBO, m.ValELBO, m.Seconds, note)
	}
}

// trainEpoch trains for one epoch and returns the metrics of the epoch.
func (r *trainingRun) trainEpoch(ctx context.Context, line *progress.Line) (m model.Metrics, err error) {
	began := time.Now()
	m.Epoch = len(r.Metrics) + 1
	m.Rate = r.Settings.Rate
	order := slices.Clone(r.training)
	shuffle := random.Stream(r.Settings.Seed, "mnist shuffle", m.Epoch)
	shuffle.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	r.images, r.sum = 0, 0
	for batch := range slices.Chunk(order, r.Settings.Batch) {
		r.trainer.BlockSize = r.Settings.BlockSize(len(batch))
		elbo, err := r.trainer.Step(ctx, hvae.Columns(batch))
		if err != nil {
			return m, fmt.Errorf("after %d of %d images: %w", r.images, len(order), err)
		}
		r.sum += elbo * float64(len(batch))
		r.images += len(batch)
		line.Set(r.done())
	}
	m.TrainELBO = r.sum / float64(len(order))
	m.ValELBO, err = r.validate(ctx, m.Epoch)
	if err != nil {
		return m, fmt.Errorf("validation: %w", err)
	}
	m.Flow = model.FlowOf(r.network)
	m.Seconds = time.Since(began).Seconds()
	return m, nil
}

// validate returns the mean ELBO of the validation images, computed in batches of 1,000 images. As in the authors' code,
// their pixels are the same in each epoch, but the noise (ε and γ₀) is new. This noise affects when early stopping ends a
// run (mnist/results/README.md).
func (r *trainingRun) validate(ctx context.Context, epoch int) (mean float64, err error) {
	bound := model.Bound(r.Settings, r.network, func(x linalg.Matrix[float32], j, image int, _ *rand.Rand) {
		pixels := random.Stream(r.Settings.Seed, "mnist validation pixels", image)
		data.Binarise(x, j, r.set.Train.Image(image), pixels)
	})
	done := 0
	for batch := range slices.Chunk(r.validation, 1000) {
		noise := random.Stream(r.Settings.Seed, "mnist validation noise", epoch, done).Uint64()
		r.trainer.BlockSize = r.Settings.BlockSize(len(batch))
		elbo, _, err := r.trainer.Evaluate(ctx, hvae.Columns(batch), noise, bound)
		if err != nil {
			return 0, err
		}
		mean += elbo * float64(len(batch))
		done += len(batch)
	}
	return mean / float64(done), nil
}

// done returns the finished fraction of the run, assuming no early stopping.
func (r *trainingRun) done() float64 {
	return (float64(len(r.Metrics)) + float64(r.images)/float64(len(r.training))) / float64(r.Settings.Epochs)
}
