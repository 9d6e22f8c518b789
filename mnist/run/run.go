// Package run trains a model and saves its files in a folder. An interrupted or killed run can be resumed.
// The resumed run and an uninterrupted run with the same kernels (vector or plain Go) give bit-identical
// results, except for times.
//
// Read run.go (a run and its training loop), then settings.go (settings and dataset), position.go
// (progress) and folder.go (files and lock).
package run

import (
	"bytes"
	"cmp"
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

// SaveEvery is the time between two saves of the state within an epoch. A killed run loses at most this
// much training. A save takes about 40 ms.
var SaveEvery = 2 * time.Minute

// diverged is the advice at the end of the error messages about divergence.
const diverged = "the last saved state is in %s: the train command can continue from it with -resume and a smaller -lr"

// A Run is a training run. It replaces each file atomically and writes the state last. If the program is
// killed, a resumed run repeats all steps after the saved state, with bit-identical results.
type Run struct {
	settings *Settings
	stored   map[string]string // settings to save in the state, by flag name, and dataset_sha256
	folder   *Folder
	position position

	set                  data.Set
	training, validation []int // indices of images in set.Train
	batches              int   // number of training batches in an epoch

	trainer *model.Trainer[float32]
	Best    []model.Param[float32] // weights after the best epoch, nil in the first epoch

	clock          time.Time // time of the last call to tick, or of New
	stdout, stderr io.Writer
}

// New starts a run in a folder or, if state is not nil, resumes the run with this state. It rewrites all
// files of a resumed run, because a killed run may have left files from different epochs. The run prints
// its results to stdout, and its progress to stderr.
func New(s *Settings, set data.Set, folder *Folder, state *model.State, stdout, stderr io.Writer) (*Run, error) {
	training, validation := data.Split(set.Train, s.Seed)
	if s.Train > len(training) {
		return nil, command.UsageError("invalid value %d for flag -train: there are %d training images", s.Train, len(training))
	}
	if s.Train > 0 {
		training = training[:s.Train]
	}
	var err error
	if f := &s.Source.Folder; *f != "" && *f != data.Synthetic {
		if *f, err = filepath.Abs(*f); err != nil { // the run may be resumed in another working directory
			return nil, err
		}
	}
	r := &Run{
		settings: s, stored: s.values(), folder: folder, position: position{Epoch: 1}, clock: time.Now(),
		set: set, training: training, validation: validation, batches: (len(training) + s.BatchSize - 1) / s.BatchSize,
		stdout: stdout, stderr: stderr,
	}
	r.stored["dataset"], r.stored["dataset_sha256"] = set.Name, set.SHA256()
	params := model.NewParams[float32](s.Config, data.MeanLogit(set.Train, training), s.Seed)
	if s.Start != "" && state == nil {
		if err := model.CopyWeights(params, s.Start); err != nil {
			return nil, err
		}
	}
	r.trainer = model.NewTrainer(s.Config, params, s.Rate, s.Seed)
	r.trainer.Recompute = s.Recompute
	if state == nil {
		err = folder.checkNew()
	} else if err = r.resume(state); err != nil {
		err = fmt.Errorf("cannot resume from %s: %w", filepath.Join(folder.path, StateFile), err)
	}
	if err == nil && r.Best != nil {
		err = cmp.Or(r.writeMetrics(), r.writeBest())
	}
	if err == nil {
		err = r.saveState()
	}
	return r, err
}

// resume restores weights and progress from a state, or returns an error if the state does not match the
// run.
func (r *Run) resume(state *model.State) (err error) {
	was, p := state.Settings, &r.position
	if r.stored["dataset_sha256"] != was["dataset_sha256"] {
		return fmt.Errorf("the images differ from the dataset %s, with which the run was started: specify the folder of this dataset with -data", was["dataset"])
	}
	if r.Best, err = r.trainer.Restore(*state); err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(state.Progress), p); err != nil {
		return fmt.Errorf("the key progress in its metadata is damaged: %w", err)
	}
	p.RateChanged = p.RateChanged || was["lr"] != r.stored["lr"]
	return nil
}

// binarise binarises a training image. Each use of an image has new pixels.
func (r *Run) binarise(x linalg.Matrix[float32], j, image int, rng *rand.Rand) {
	data.Binarise(x, j, r.set.Train.Image(image), rng)
}

// binariseOnce binarises a validation image. Its pixels are the same in each epoch, as in the authors' code, but
// the noise is new. This noise affects when early stopping ends a run (mnist/results/README.md).
func (r *Run) binariseOnce(x linalg.Matrix[float32], j, image int, _ *rand.Rand) {
	data.Binarise(x, j, r.set.Train.Image(image), random.Stream(r.settings.Seed, "mnist validation pixels", image))
}

// Train trains until the maximum number of epochs is reached, early stopping ends the run, or ctx is done.
// It saves the state every SaveEvery, after each epoch and when ctx is done. If ctx is done, Train returns
// an error. Its message ends with advice, which explains how to continue.
func (r *Run) Train(ctx context.Context, advice string) error {
	line := progress.New(r.stderr, r.done(), func(time.Duration) string { return r.status() })
	defer line.Clear()
	for r.position.Epoch <= r.settings.MaxEpochs && r.position.Epoch-r.position.best().Epoch <= r.settings.Patience {
		err := r.trainEpoch(ctx, line)
		line.Clear()
		if err == nil {
			err = r.finishEpoch()
		} else if ctx.Err() != nil { // a resumed run will repeat the current batch
			err = fmt.Errorf("%w after batch %d of epoch %d; the state is saved in %s; %s", context.Cause(ctx), r.position.Batch, r.position.Epoch, r.settings.Out, advice)
			if failed := r.saveState(); failed != nil {
				err = fmt.Errorf("%w, and %w", context.Cause(ctx), failed)
			}
		}
		if err != nil {
			return err
		}
	}
	best := r.position.best()
	_, err := fmt.Fprintf(r.stdout, "best validation ELBO %.2f on %s after epoch %d; the model is %s\n", best.ValELBO, r.set.Name, best.Epoch, filepath.Join(r.settings.Out, ModelFile))
	return err
}

// trainEpoch trains on the remaining batches of the epoch. Then it sums the ELBO over the remaining
// validation images, in batches of 1,000.
func (r *Run) trainEpoch(ctx context.Context, line *progress.Line) error {
	p, size, order := &r.position, r.settings.BatchSize, slices.Clone(r.training)
	random.Stream(r.settings.Seed, "mnist shuffle", p.Epoch).Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	for p.Batch < r.batches || p.Validated < len(r.validation) {
		if p.Batch < r.batches {
			batch := order[p.Batch*size : min((p.Batch+1)*size, len(order))]
			elbo, err := r.trainer.Step(ctx, batch, r.binarise)
			if err != nil {
				return fmt.Errorf("training diverged in epoch %d, batch %d: %w; "+diverged, p.Epoch, p.Batch+1, err, r.settings.Out)
			}
			p.Sum += elbo * float64(len(batch))
			p.Batch++
		} else {
			batch := r.validation[p.Validated:min(p.Validated+1000, len(r.validation))]
			noise := random.Stream(r.settings.Seed, "mnist validation noise", p.Epoch, p.Validated).Uint64()
			elbo, err := r.trainer.ELBO(ctx, batch, r.binariseOnce, noise)
			if err == nil && math.IsInf(elbo, 0) {
				err = fmt.Errorf("the ELBO is %v", elbo)
			}
			if err != nil {
				return fmt.Errorf("training diverged in epoch %d: validation: %w; "+diverged, p.Epoch, err, r.settings.Out)
			}
			p.ValidationSum += elbo * float64(len(batch))
			p.Validated += len(batch)
		}
		if time.Since(r.clock) >= SaveEvery {
			if err := r.saveState(); err != nil {
				return err
			}
		}
		line.Set(r.done())
	}
	return nil
}

// finishEpoch writes the files of a finished epoch, begins the next epoch and prints the metrics.
func (r *Run) finishEpoch() error {
	r.tick()
	p := &r.position
	m := Metrics{Epoch: p.Epoch, TrainELBO: p.Sum / float64(len(r.training)), ValELBO: p.ValidationSum / float64(p.Validated), Seconds: p.Seconds}
	if p.RateChanged {
		m.Rate = r.settings.Rate
	}
	m.Flow = model.FlowOf(r.trainer.Params)
	p.Metrics = append(p.Metrics, m)
	note := ""
	if p.best() == m {
		note = "  best so far"
		r.Best = model.CloneParams(r.trainer.Params)
		if err := r.writeBest(); err != nil {
			return err
		}
	}
	if err := r.writeMetrics(); err != nil {
		return err
	}
	p.Epoch++
	p.Batch, p.Sum, p.Seconds, p.Validated, p.ValidationSum = 0, 0, 0, 0, 0
	if err := r.saveState(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(r.stdout, "epoch %d  train %.2f  validation %.2f  %.1f s%s\n", m.Epoch, m.TrainELBO, m.ValELBO, m.Seconds, note)
	return err
}

// status returns the text of the progress line, which contains the mean training ELBO of the epoch so far.
func (r *Run) status() string {
	p := &r.position
	images := min(p.Batch*r.settings.BatchSize, len(r.training))
	return fmt.Sprintf("epoch %d, batch %d of %d, ELBO %.2f", p.Epoch, p.Batch, r.batches, p.Sum/float64(images))
}

// done returns the finished fraction of the run, assuming no early stopping.
func (r *Run) done() float64 {
	return (float64(r.position.Epoch-1) + float64(r.position.Batch)/float64(r.batches)) / float64(r.settings.MaxEpochs)
}

// tick adds the time since its last call to the duration of the epoch.
func (r *Run) tick() {
	now := time.Now()
	r.position.Seconds += now.Sub(r.clock).Seconds()
	r.clock = now
}

func (r *Run) saveState() error {
	r.tick()
	p, _ := json.Marshal(r.position) // cannot fail, because all numbers are finite
	return r.folder.Write(StateFile, r.trainer.State(r.stored, string(p), r.Best).Encode())
}

// writeBest writes the model after the best epoch and a picture of digits that the model generates.
func (r *Run) writeBest() error {
	s, best := r.settings, r.position.best()
	c := model.Checkpoint{Config: s.Config, Params: r.Best, Seed: s.Seed, Epoch: best.Epoch, ELBO: best.ValELBO, Data: r.set.Name, DataSHA256: r.stored["dataset_sha256"]}
	digits := sheet.Draw(model.Generate(s.Config, r.Best, 64, s.Seed), nil, 8)
	return cmp.Or(r.folder.Write(ModelFile, c.File().Encode()), r.folder.Write(samplesFile, digits))
}

// writeMetrics writes the metrics and their plot.
func (r *Run) writeMetrics() error {
	p := r.position
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	train, validation := plot.Series{Label: "training"}, plot.Series{Label: "validation"}
	for _, m := range p.Metrics {
		encoder.Encode(m) // cannot fail, because all numbers are finite
		train.X, train.Y = append(train.X, float64(m.Epoch)), append(train.Y, m.TrainELBO)
		validation.X, validation.Y = append(validation.X, float64(m.Epoch)), append(validation.Y, m.ValELBO)
	}
	epoch := p.best().Epoch
	best := plot.Series{Label: fmt.Sprintf("best epoch, %d", epoch), X: train.X[epoch-1 : epoch], Y: validation.Y[epoch-1 : epoch], Style: plot.Points}
	curve := plot.Chart{
		Title: fmt.Sprintf("Training: %v, on %s", r.settings.Config, r.set.Name), XLabel: "epoch", YLabel: "ELBO (nats)",
		LogX: true, Series: []plot.Series{train, validation, best},
	}
	return cmp.Or(r.folder.Write(MetricsFile, lines.Bytes()), r.folder.Write(curveFile, curve.SVG()))
}
