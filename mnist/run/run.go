// Package run trains a model and saves its files in a folder. An interrupted or killed run can be resumed
// after its last finished epoch. All random numbers are keyed by the epoch, so the resumed run and an
// uninterrupted run with the same kernels (vector or plain Go) write the same bytes, except for times.
//
// Read run.go (a run and its training loop), then settings.go, state.go (metrics and state) and folder.go
// (files and lock).
package run

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"time"

	"hvae/bench/command"
	"hvae/bench/plot"
	"hvae/bench/progress"
	"hvae/linalg"
	"hvae/linalg/random"
	"hvae/mnist/data"
	"hvae/mnist/model"
	"hvae/mnist/sheet"
)

// A Run is a training run.
type Run struct {
	State
	Best []model.Param[float32] // weights after the best epoch, nil in the first epoch

	own                  *State // the state whose files Train may replace; nil for a new run
	set                  data.Set
	training, validation []int // indices of images in set.Train
	trainer              *model.Trainer[float32]

	images int     // number of images trained in the current epoch
	sum    float64 // training ELBO, summed over these images
}

// New returns a new run or, if state is not nil, the run with this state. It returns an error if the settings
// do not fit the dataset, or if the state has other images or other settings. The number of epochs, the
// patience, the learning rate, the folder of the images and Recompute may differ from the state.
func New(s Settings, set data.Set, state *State) (*Run, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	r := &Run{State: State{Settings: s, Data: set.Name, DataSHA256: set.SHA256()}, set: set}
	r.training, r.validation = data.Split(set.Train, s.Seed)
	if s.Train > len(r.training) {
		return nil, command.UsageError("invalid value %d for flag -train: there are %d training images", s.Train, len(r.training))
	}
	if s.Train > 0 {
		r.training = r.training[:s.Train]
	}
	params := model.NewParams[float32](s.Config, data.MeanLogit(set.Train, r.training), s.Seed)
	if s.Start != "" && state == nil {
		if err := model.CopyWeights(params, s.Start); err != nil {
			return nil, err
		}
	}
	r.trainer = model.NewTrainer(s.Config, params, s.Rate, s.Seed)
	r.trainer.Recompute = s.Recompute
	if state == nil {
		return r, nil
	}
	if err := r.resume(state); err != nil {
		return nil, fmt.Errorf("cannot resume from %s: %w", StateFile, err)
	}
	return r, nil
}

// resume restores progress and weights from a state, or returns an error if the state does not match the run.
func (r *Run) resume(state *State) (err error) {
	s := r.Settings
	s.Epochs, s.Patience, s.Rate, s.Data, s.Recompute = state.Settings.Epochs, state.Settings.Patience, state.Settings.Rate, state.Settings.Data, state.Settings.Recompute
	if wrong := Differences(state.Settings, s); wrong != "" {
		return fmt.Errorf("the run was started with %s, and these settings cannot be changed", wrong)
	}
	if r.DataSHA256 != state.DataSHA256 {
		return fmt.Errorf("the images differ from the dataset %.40q, with which the run was started: specify the folder of this dataset with -data", state.Data)
	}
	r.own, r.Metrics, r.RateChanged = &r.State, state.Metrics, state.RateChanged || state.Settings.Rate != r.Settings.Rate
	batches := (len(r.training) + s.Batch - 1) / s.Batch
	r.Best, err = r.trainer.Restore(state.weights, len(r.Metrics)*batches)
	if err == nil && (r.Best == nil) != (len(r.Metrics) == 0) {
		err = fmt.Errorf("it has metrics of %d epochs, but the weights of the best epoch do not fit", len(r.Metrics))
	}
	return err
}

// Train trains until training has ended (see Ended) or ctx is done. After each epoch, it writes the state and
// then the other files. If the folder does not match the run, it returns an error and writes nothing. It
// prints its results to stdout and its progress to stderr, and ignores failures to print. If ctx is done, it
// returns an error that ends with advice, which explains how to continue.
func (r *Run) Train(ctx context.Context, folder *Folder, stdout, stderr io.Writer, advice string) error {
	if err := folder.check(r.own); err != nil {
		return err
	}
	if err := r.save(folder, true); err != nil {
		return err
	}
	line := progress.New(stderr, r.done(), func(time.Duration) string { return r.status() })
	defer line.Clear()
	for {
		best := Best(r.Metrics)
		if why := Ended(r.Metrics, r.Settings.Epochs, r.Settings.Patience); why != "" {
			fmt.Fprintf(stdout, "training has ended: %s\nbest validation ELBO %.2f on %s after epoch %d; the model is %s\n",
				why, best.ValELBO, r.Data, best.Epoch, filepath.Join(folder.root.Name(), ModelFile))
			return nil
		}
		m, err := r.trainEpoch(ctx, line)
		line.Clear()
		if err != nil && ctx.Err() != nil {
			return fmt.Errorf("%w in epoch %d, which will start again; the state is saved in %s; %s", context.Cause(ctx), len(r.Metrics)+1, folder.root.Name(), advice)
		}
		if err != nil {
			return fmt.Errorf("training diverged in epoch %d; the state before this epoch is saved in %s, and the train command can continue from it with -resume and a smaller -lr (%w)",
				len(r.Metrics)+1, folder.root.Name(), err)
		}
		r.Metrics = append(r.Metrics, m)
		improved, note := Best(r.Metrics) == m, ""
		if improved {
			note = "  best so far"
			r.Best = model.CloneParams(r.trainer.Params)
		}
		if err := r.save(folder, improved); err != nil {
			return err
		}
		fmt.Fprintf(stdout, "epoch %d  train %.2f  validation %.2f  %.1f s%s\n", m.Epoch, m.TrainELBO, m.ValELBO, m.Seconds, note)
	}
}

// trainEpoch trains an epoch and returns its metrics. The validation ELBO is computed in batches of 1,000
// images.
func (r *Run) trainEpoch(ctx context.Context, line *progress.Line) (m Metrics, err error) {
	began, epoch, order := time.Now(), len(r.Metrics)+1, slices.Clone(r.training)
	random.Stream(r.Settings.Seed, "mnist shuffle", epoch).Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	r.images, r.sum = 0, 0
	for batch := range slices.Chunk(order, r.Settings.Batch) {
		elbo, err := r.trainer.Step(ctx, batch, r.binarise)
		if err != nil {
			return m, fmt.Errorf("after %d of %d images: %w", r.images, len(order), err)
		}
		r.sum += elbo * float64(len(batch))
		r.images += len(batch)
		line.Set(r.done())
	}
	validation, validated := 0.0, 0
	for batch := range slices.Chunk(r.validation, 1000) {
		noise := random.Stream(r.Settings.Seed, "mnist validation noise", epoch, validated).Uint64()
		elbo, err := r.trainer.ELBO(ctx, batch, r.binariseOnce, noise)
		if err == nil && math.IsInf(elbo, 0) {
			err = fmt.Errorf("the ELBO is %v", elbo)
		}
		if err != nil {
			return m, fmt.Errorf("validation: %w", err)
		}
		validation += elbo * float64(len(batch))
		validated += len(batch)
	}
	m = Metrics{Epoch: epoch, TrainELBO: r.sum / float64(len(order)), ValELBO: validation / float64(validated), Seconds: time.Since(began).Seconds(), Flow: model.FlowOf(r.trainer.Params)}
	if r.RateChanged {
		m.Rate = r.Settings.Rate
	}
	return m, nil
}

// status returns the text of the progress line, which contains the mean training ELBO of the epoch so far.
func (r *Run) status() string {
	return fmt.Sprintf("epoch %d, image %d of %d, ELBO %.2f", len(r.Metrics)+1, r.images, len(r.training), r.sum/float64(r.images))
}

// done returns the finished fraction of the run, assuming no early stopping.
func (r *Run) done() float64 {
	return (float64(len(r.Metrics)) + float64(r.images)/float64(len(r.training))) / float64(r.Settings.Epochs)
}

// binarise binarises a training image. Each use of an image has new pixels.
func (r *Run) binarise(x linalg.Matrix[float32], j, image int, rng *rand.Rand) {
	data.Binarise(x, j, r.set.Train.Image(image), rng)
}

// binariseOnce binarises a validation image. Its pixels are the same in each epoch, as in the authors' code, but
// the noise is new. This noise affects when early stopping ends a run (mnist/results/README.md).
func (r *Run) binariseOnce(x linalg.Matrix[float32], j, image int, _ *rand.Rand) {
	data.Binarise(x, j, r.set.Train.Image(image), random.Stream(r.Settings.Seed, "mnist validation pixels", image))
}

// save writes the state and then the other files from it. It writes the best model only if best is true.
func (r *Run) save(folder *Folder, best bool) error {
	b, _ := json.Marshal(r.State) // cannot fail, because all numbers are finite
	if err := folder.Write(StateFile, r.trainer.State(string(b), r.Best).Encode()); err != nil || r.Best == nil {
		return err
	}
	if err := folder.Write(MetricsFile, encodeMetrics(r.Metrics)); err != nil {
		return err
	}
	if err := folder.Write(curveFile, r.curve()); err != nil || !best {
		return err
	}
	s, m := r.Settings, Best(r.Metrics)
	c := model.Checkpoint{Config: s.Config, Params: r.Best, Seed: s.Seed, Epoch: m.Epoch, ELBO: m.ValELBO, Data: r.Data, DataSHA256: r.DataSHA256}
	if err := folder.Write(ModelFile, c.File().Encode()); err != nil {
		return err
	}
	return folder.Write(samplesFile, sheet.Samples(s.Config, r.Best, 64, s.Seed))
}

// curve returns a plot of the metrics as SVG.
func (r *Run) curve() []byte {
	train, validation := plot.Series{Label: "training"}, plot.Series{Label: "validation"}
	for _, m := range r.Metrics {
		train.X, train.Y = append(train.X, float64(m.Epoch)), append(train.Y, m.TrainELBO)
		validation.X, validation.Y = append(validation.X, float64(m.Epoch)), append(validation.Y, m.ValELBO)
	}
	epoch := Best(r.Metrics).Epoch
	best := plot.Series{Label: fmt.Sprintf("best epoch, %d", epoch), X: train.X[epoch-1 : epoch], Y: validation.Y[epoch-1 : epoch], Style: plot.Points}
	return plot.Chart{
		Title: fmt.Sprintf("Training: %v, on %s", r.Settings.Config, r.Data), XLabel: "epoch", YLabel: "ELBO (nats)",
		LogX: true, Series: []plot.Series{train, validation, best},
	}.SVG()
}
