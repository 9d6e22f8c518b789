package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"time"

	"hvae/bench/atomicfile"
	"hvae/bench/command"
	"hvae/bench/plot"
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
	model.State
	resumed bool // whether the folder contains files of the run

	set                  data.Set
	training, validation []int                  // indices of images in set.Train
	trainer              *hvae.Trainer[float32] // of State.Params

	images int     // number of images trained in the current epoch
	sum    float64 // training ELBO, summed over these images
}

// newRun returns a new run or, if old is not nil, resumes the run with this state. The settings may then differ from
// the settings in old, but only in ways that do not affect past epochs. newRun returns an error if the settings do not
// fit the dataset, or if the run in old uses other images.
func newRun(s model.Settings, set data.Set, old *model.State) (*trainingRun, error) {
	s.Data = set.Folder // so that a resumed run finds the images even if the working directory or $HVAE_MNIST has changed
	r := &trainingRun{State: model.State{Settings: s, Data: set.Name, DataSHA256: set.SHA256}, resumed: old != nil, set: set}
	r.training, r.validation = data.Split(set.Train, s.Seed)
	n := cmp.Or(s.Train, len(r.training))
	if n > len(r.training) {
		return nil, command.UsageError("invalid value %d for flag -train: there are %d training images", n, len(r.training))
	}
	r.training = r.training[:n]
	r.Params = model.NewParams[float32](s.Config, data.MeanLogit(set.Train, r.training), s.Seed)
	if s.Start != "" && old == nil {
		start, err := readCheckpoint(s.Start)
		if err != nil {
			return nil, err
		}
		if start.Config.Latent != s.Latent {
			return nil, fmt.Errorf("%s has %d latent dimensions, but the new model has %d (-latent)", s.Start, start.Config.Latent, s.Latent)
		}
		copy(r.Params, start.WithoutFlow().Params) // the parameters of the encoder and decoder come first
	}
	r.trainer = model.NewTrainer(s, r.Params, model.Bound(s, r.Params, r.binarise))
	if old == nil {
		return r, nil
	}
	if r.DataSHA256 != old.DataSHA256 {
		return nil, fmt.Errorf("the images differ from the dataset %.40q, with which the run was started: specify the folder of this dataset with -data", old.Data)
	}
	r.Metrics, r.Best, r.RateChanged = old.Metrics, old.Best, old.RateChanged || old.Settings.Rate != s.Rate
	batches := (len(r.training) + s.Batch - 1) / s.Batch
	saved := hvae.State[float32]{Seed: s.Seed, Steps: len(r.Metrics) * batches}
	for i, p := range old.Params {
		saved.Params = append(saved.Params, hvae.ParamState[float32]{Name: p.Name, Value: p.Value, Averages: old.Averages[i]})
	}
	return r, r.trainer.Restore(saved)
}

// train trains until training has ended (see model.Ended) or ctx is done. After each epoch, it writes the state and
// then the other files. If the folder does not match the run, it returns an error and writes nothing. It prints its
// results to stdout and its progress to stderr, and ignores failures to print. If ctx is done, it returns an error that
// ends with the argument advice, a text that explains how to continue.
func (r *trainingRun) train(ctx context.Context, f *folder, stdout, stderr io.Writer, advice string) error {
	if err := r.check(f); err != nil {
		return err
	}
	if err := r.save(f, true); err != nil {
		return err
	}
	line := progress.New(stderr, r.done(), func(time.Duration) string { return r.status() })
	for {
		best := model.Best(r.Metrics)
		if why := model.Ended(r.Metrics, r.Settings.Epochs, r.Settings.Patience); why != "" {
			fmt.Fprintf(stdout, "training has ended: %s\nbest validation ELBO %.2f on %s after epoch %d; the model is %s\n",
				why, best.ValELBO, r.Data, best.Epoch, filepath.Join(f.Name(), modelFile))
			return nil
		}
		m, err := r.trainEpoch(ctx, line)
		if err != nil && ctx.Err() != nil {
			return fmt.Errorf("%w in epoch %d, which will start again; the state is saved in %s; %s", context.Cause(ctx), len(r.Metrics)+1, f.Name(), advice)
		}
		if err != nil {
			return fmt.Errorf("training diverged in epoch %d; the state before this epoch is saved in %s, and the train command can continue from it with -resume and a smaller -lr (%w)",
				len(r.Metrics)+1, f.Name(), err)
		}
		r.Metrics = append(r.Metrics, m)
		improved, note := model.Best(r.Metrics) == m, ""
		if improved {
			note, r.Best = "  best so far", model.CloneParams(r.Params)
		}
		if err := r.save(f, improved); err != nil {
			return err
		}
		fmt.Fprintf(stdout, "epoch %d  train %.2f  validation %.2f  %.1f s%s\n", m.Epoch, m.TrainELBO, m.ValELBO, m.Seconds, note)
	}
}

// trainEpoch trains for one epoch and returns the metrics of the epoch. The validation ELBO is computed in batches of
// 1,000 images.
func (r *trainingRun) trainEpoch(ctx context.Context, line *progress.Line) (m model.Metrics, err error) {
	began, epoch, order := time.Now(), len(r.Metrics)+1, slices.Clone(r.training)
	random.Stream(r.Settings.Seed, "mnist shuffle", epoch).Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
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
	bound, validation, validated := model.Bound(r.Settings, r.Params, r.binariseOnce), 0.0, 0
	for batch := range slices.Chunk(r.validation, 1000) {
		noise := random.Stream(r.Settings.Seed, "mnist validation noise", epoch, validated).Uint64()
		r.trainer.BlockSize = r.Settings.BlockSize(len(batch))
		elbo, _, err := r.trainer.Evaluate(ctx, hvae.Columns(batch), noise, bound)
		if err == nil && math.IsInf(elbo, 0) {
			err = fmt.Errorf("the ELBO is %v", elbo)
		}
		if err != nil {
			return m, fmt.Errorf("validation: %w", err)
		}
		validation += elbo * float64(len(batch))
		validated += len(batch)
	}
	m = model.Metrics{Epoch: epoch, TrainELBO: r.sum / float64(len(order)), ValELBO: validation / float64(validated), Flow: model.FlowOf(r.Params)}
	if m.Seconds = time.Since(began).Seconds(); r.RateChanged {
		m.Rate = r.Settings.Rate
	}
	return m, nil
}

// status returns the text of the progress line, which contains the mean training ELBO of the epoch so far.
func (r *trainingRun) status() string {
	return fmt.Sprintf("epoch %d, image %d of %d, ELBO %.2f", len(r.Metrics)+1, r.images, len(r.training), r.sum/float64(r.images))
}

// done returns the finished fraction of the run, assuming no early stopping.
func (r *trainingRun) done() float64 {
	return (float64(len(r.Metrics)) + float64(r.images)/float64(len(r.training))) / float64(r.Settings.Epochs)
}

// binarise binarises a training image. It draws new pixels each time an image is used.
func (r *trainingRun) binarise(x linalg.Matrix[float32], j, image int, rng *rand.Rand) {
	data.Binarise(x, j, r.set.Train.Image(image), rng)
}

// binariseOnce binarises a validation image. As in the authors' code, its pixels are the same in each epoch, but the
// noise (ε and γ₀) is new. This noise affects when early stopping ends a run (mnist/results/README.md).
func (r *trainingRun) binariseOnce(x linalg.Matrix[float32], j, image int, _ *rand.Rand) {
	data.Binarise(x, j, r.set.Train.Image(image), random.Stream(r.Settings.Seed, "mnist validation pixels", image))
}

// check returns an error if the folder contains files that the run must not replace. A new run must not replace any
// file of a run. A resumed run may replace the metrics and the model only if it has written them itself.
func (r *trainingRun) check(f *folder) error {
	own := map[string]func(b []byte) bool{
		metricsFile: func(b []byte) bool { return bytes.HasPrefix(encodeMetrics(r.Metrics), b) },
		modelFile: func(b []byte) bool {
			c, err := model.DecodeCheckpoint(b)
			return err == nil && slices.ContainsFunc(r.Metrics, func(m model.Metrics) bool { return m.Epoch == c.Epoch && m.ValELBO == c.ELBO })
		},
	}
	for _, file := range []string{stateFile, metricsFile, modelFile, curveFile, samplesFile, evaluationFile} {
		b, err := atomicfile.ReadIn(f.Root, file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case !r.resumed:
			return fmt.Errorf("%s already contains %s of a run: continue it with -resume, or choose another folder with -out", f.Name(), file)
		case own[file] != nil && !own[file](b):
			return fmt.Errorf("%s is damaged, or is not from the same run as %s: put back the state of this run, or move %[3]s away to write it again from the state",
				filepath.Join(f.Name(), file), stateFile, file)
		}
	}
	return nil
}

// Encode returns the contents of the state file.
func (r *trainingRun) Encode() []byte {
	r.Averages = nil
	for _, p := range r.trainer.State().Params {
		r.Averages = append(r.Averages, p.Averages)
	}
	return r.State.Encode()
}

// save writes the state and, if an epoch has ended, then the other files, but the model and its samples only if best is
// true.
func (r *trainingRun) save(f *folder, best bool) error {
	if err := f.write(stateFile, r.Encode()); err != nil || r.Best == nil {
		return err
	}
	files := map[string][]byte{metricsFile: encodeMetrics(r.Metrics), curveFile: r.curve()}
	if best {
		s, m := r.Settings, model.Best(r.Metrics)
		c := model.Checkpoint{Config: s.Config, Params: r.Best, Seed: s.Seed, Epoch: m.Epoch, ELBO: m.ValELBO, Data: r.Data, DataSHA256: r.DataSHA256}
		files[modelFile], files[samplesFile] = c.File().Encode(), samples(c, 64, s.Seed)
	}
	for file, content := range files {
		if err := f.write(file, content); err != nil {
			return err
		}
	}
	return nil
}

// curve returns a plot of the metrics as SVG.
func (r *trainingRun) curve() []byte {
	train, validation := plot.Series{Label: "training"}, plot.Series{Label: "validation"}
	for _, m := range r.Metrics {
		train.X, train.Y = append(train.X, float64(m.Epoch)), append(train.Y, m.TrainELBO)
		validation.Y = append(validation.Y, m.ValELBO)
	}
	validation.X = train.X
	epoch := model.Best(r.Metrics).Epoch
	best := plot.Series{Label: fmt.Sprintf("best epoch, %d", epoch), X: train.X[epoch-1 : epoch], Y: validation.Y[epoch-1 : epoch], Style: plot.Points}
	return plot.Chart{
		Title: fmt.Sprintf("Training: %v, on %s", r.Settings.Config, r.Data), XLabel: "epoch", YLabel: "ELBO (nats)",
		LogX: true, Series: []plot.Series{train, validation, best},
	}.SVG()
}
