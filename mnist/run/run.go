// Package run trains a model in a folder of files, from which an interrupted or killed run
// resumes with the same bits.
//
// A Run and its training loop are in run.go, its settings and dataset in settings.go, its progress
// in position.go, its folder and lock in folder.go, and its batches in batch.go.
package run

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"time"

	"hvae/bench/atomicfile"
	"hvae/bench/command"
	"hvae/bench/plot"
	"hvae/bench/progress"
	"hvae/linalg"
	"hvae/mnist/data"
	"hvae/mnist/model"
	"hvae/mnist/sheet"
)

// SaveEvery is the time between two saves of the state within an epoch, at most the time that
// a kill loses. A save takes about 40 ms.
var SaveEvery = 2 * time.Minute

// A Run is a training run. Each of its files is replaced as a whole, the state last. Whenever
// the program is killed, the saved state repeats all later steps with the same bits.
type Run struct {
	settings Settings
	position position
	folder   *Folder

	name, digest         string // of the dataset
	images               data.Images
	training, validation []int // indices of images

	trainer *model.Trainer[float32]
	best    []model.Param[float32] // weights of the best epoch, nil before the first

	saved          time.Time // when the state was written last
	clock          time.Time // when Seconds of the position was updated last
	stdout, stderr io.Writer
}

// New prepares a run on a dataset. It prints results on stdout, notes and progress on stderr.
func New(s Settings, set data.Set, stdout, stderr io.Writer) (*Run, error) {
	training, validation := data.Split(set.Train, s.Seed)
	if s.Train > len(training) {
		return nil, command.UsageError("invalid value %d for flag -train: there are %d training images", s.Train, len(training))
	}
	if s.Train > 0 {
		training = training[:s.Train]
	}
	if s.BatchSize > len(training) {
		return nil, command.UsageError("invalid value %d for flag -batch: there are only %d images to train on", s.BatchSize, len(training))
	}
	r := &Run{settings: s, name: set.Name, digest: set.SHA256(), images: set.Train, training: training, validation: validation, stdout: stdout, stderr: stderr}
	r.trainer = model.NewTrainer(s.Config, model.NewParams[float32](s.Config, data.MeanLogit(set.Train, training), s.Seed), s.Rate)
	r.trainer.Recompute = s.Recompute
	return r, nil
}

// Open starts the run in its folder, or resumes it from a state that is not nil.
func (r *Run) Open(folder *Folder, state *model.State) error {
	r.folder = folder
	if state != nil {
		return r.resume(*state)
	}
	r.position.Epoch = 1
	if err := folder.clean(); err != nil {
		return err
	}
	if err := r.saveState(); err != nil {
		return fmt.Errorf("%w; give another folder with -out", err)
	}
	return nil
}

// resume restores a state and rewrites the files that do not agree with it.
func (r *Run) resume(state model.State) error {
	was, out := state.Settings, r.settings.Out
	if r.digest != was["dataset_sha256"] {
		if r.name == was["dataset"] {
			return fmt.Errorf("the run in %s was started on other images called %s: use -data to name the folder of the original data", out, r.name)
		}
		return fmt.Errorf("the run in %s was started on the data %s, not %s: use -data to name the folder of the original data", out, was["dataset"], r.name)
	}
	r.name = was["dataset"]
	if old, now := was["kernels"], kernels(); old != "" && old != now {
		fmt.Fprintf(r.stderr, "note: the run in %s was trained with the %s kernels and continues with the %s ones (HVAE_SIMD): its bits will differ from an uninterrupted run\n", out, old, now)
	}
	if err := r.restore(state); err != nil {
		return fmt.Errorf("cannot resume from %s: %w", r.path(StateFile), err)
	}
	if err := r.folder.clean(); err != nil {
		return err
	}
	if err := r.writeMetrics(); err != nil {
		return err
	}
	if r.best != nil {
		if err := r.writeBest(); err != nil {
			return err
		}
	}
	if maps.Equal(was, r.metadata()) {
		r.saved = time.Now()
		return nil
	}
	return r.saveState()
}

// restore sets weights and position to a state's.
func (r *Run) restore(state model.State) (err error) {
	if r.best, err = r.trainer.Restore(state); err != nil {
		return err
	}
	if r.position, err = parsePosition(state.Progress, r.batchesPerEpoch(), len(r.validation)); err != nil {
		return err
	}
	p := &r.position
	if steps := (p.Epoch-1)*r.batchesPerEpoch() + p.Batch; state.Steps != steps {
		return fmt.Errorf("its metadata contradicts itself: the optimiser has taken %d steps, the run %d", state.Steps, steps)
	}
	if r.best == nil && p.BestEpoch > 0 {
		return fmt.Errorf("it lacks the weights of the best epoch")
	}
	if state.Settings["lr"] != r.settings.stored["lr"] {
		if n := len(p.Rates); n > 0 && p.Rates[n-1].Epoch == p.Epoch && p.Rates[n-1].Batch == p.Batch {
			p.Rates = p.Rates[:n-1] // no batch was trained with it
		}
		p.Rates = append(p.Rates, newRate{p.Epoch, p.Batch, r.settings.Rate})
	}
	return nil
}

// Best returns the weights of the best epoch.
func (r *Run) Best() []model.Param[float32] { return r.best }

// RateChanged reports whether a resume has changed the learning rate.
func (r *Run) RateChanged() bool { return len(r.position.Rates) > 0 }

func (r *Run) batchesPerEpoch() int {
	return (len(r.training) + r.settings.BatchSize - 1) / r.settings.BatchSize
}

func (r *Run) path(file string) string { return filepath.Join(r.settings.Out, file) }

// Train trains until an epoch, the patience or ctx ends the run. It saves the state every
// SaveEvery, after each epoch and when ctx ends. The error of an interrupted run ends with the
// advice, which says how to continue.
func (r *Run) Train(ctx context.Context, advice string) error {
	line := progress.New(r.stderr, func(time.Duration) string { return r.status() })
	defer line.Clear()
	line.Begin(r.done())
	r.clock = time.Now()
	for r.position.Epoch <= r.settings.MaxEpochs && r.position.Epoch-r.position.BestEpoch <= r.settings.Patience {
		line.Until(r.doneAtLeast())
		err := r.trainEpoch(ctx, line)
		if err == nil {
			err = r.validate(ctx)
		}
		line.Clear()
		if ctx.Err() != nil && err != nil {
			return r.interrupt(context.Cause(ctx), advice)
		}
		if err != nil {
			return err
		}
		if err := r.finishEpoch(); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(r.stdout, "best validation ELBO %.2f on %s after epoch %d; the model is %s\n", r.position.Best, r.name, r.position.BestEpoch, r.path(ModelFile))
	return err
}

// trainEpoch trains on the remaining batches of the epoch.
func (r *Run) trainEpoch(ctx context.Context, line *progress.Line) error {
	p, size := &r.position, r.settings.BatchSize
	order := shuffled(r.training, r.settings.Seed, p.Epoch)
	for p.Batch < r.batchesPerEpoch() {
		b := &batch{images: r.images, indices: order[p.Batch*size : min((p.Batch+1)*size, len(order))], seed: r.settings.Seed, epoch: p.Epoch}
		elbo, err := r.trainer.Step(ctx, b)
		if err != nil {
			return fmt.Errorf("epoch %d, batch %d: %w; %s", p.Epoch, p.Batch+1, err, r.diverged())
		}
		p.Sum += elbo * float64(b.Len())
		p.Batch++
		if err := r.saveInTime(); err != nil {
			return err
		}
		line.Set(r.done())
	}
	return nil
}

// validate adds up the ELBO of the remaining validation images, 1,000 at a time.
func (r *Run) validate(ctx context.Context) error {
	p := &r.position
	for p.Validated < len(r.validation) {
		end := min(p.Validated+1000, len(r.validation))
		b := &batch{images: r.images, indices: r.validation[p.Validated:end], seed: r.settings.Seed, epoch: p.Epoch, validation: true}
		elbo, err := r.trainer.ELBO(ctx, b)
		if err != nil {
			return err
		}
		p.ValidationSum += elbo * float64(b.Len())
		p.Validated = end
		if err := r.saveInTime(); err != nil {
			return err
		}
	}
	return nil
}

// finishEpoch prints the epoch's metrics, writes all files and begins the next epoch.
func (r *Run) finishEpoch() error {
	r.tick()
	p := &r.position
	m := Metrics{Epoch: p.Epoch, TrainELBO: p.Sum / float64(len(r.training)), ValELBO: p.ValidationSum / float64(p.Validated), Seconds: p.Seconds}
	if math.IsNaN(m.ValELBO) || math.IsInf(m.ValELBO, 0) {
		return fmt.Errorf("epoch %d: the validation ELBO is %v; %s", p.Epoch, m.ValELBO, r.diverged())
	}
	if r.RateChanged() {
		m.Rate = r.settings.Rate
	}
	p.Metrics = append(p.Metrics, m)
	note := ""
	if p.BestEpoch == 0 || m.ValELBO > p.Best {
		note = "  best so far"
		p.Best, p.BestEpoch, r.best = m.ValELBO, m.Epoch, model.CloneParams(r.trainer.Params)
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
	if _, err := fmt.Fprintf(r.stdout, "epoch %d  train %.2f  validation %.2f  %.1f s%s\n", m.Epoch, m.TrainELBO, m.ValELBO, m.Seconds, note); err != nil {
		return fmt.Errorf("cannot write results: %w", err)
	}
	return nil
}

// status returns the text of the progress line, with the mean ELBO of the epoch's images so far.
func (r *Run) status() string {
	p := &r.position
	images := min(p.Batch*r.settings.BatchSize, len(r.training))
	return fmt.Sprintf("epoch %d, batch %d of %d, ELBO %.2f", p.Epoch, p.Batch, r.batchesPerEpoch(), p.Sum/float64(images))
}

// done returns the fraction of the run that is done, if it takes all its epochs.
func (r *Run) done() float64 {
	return (float64(r.position.Epoch-1) + float64(r.position.Batch)/float64(r.batchesPerEpoch())) / float64(r.settings.MaxEpochs)
}

// doneAtLeast returns the fraction of the run that will be done if no later epoch is better
// than the best so far.
func (r *Run) doneAtLeast() float64 {
	return float64(min(r.settings.MaxEpochs, r.position.BestEpoch+r.settings.Patience)) / float64(r.settings.MaxEpochs)
}

// diverged returns the advice for a run that diverged.
func (r *Run) diverged() string {
	return fmt.Sprintf("the last saved state is in %s: continue from it with -resume and a smaller -lr", r.settings.Out)
}

// tick adds the time since its last call to the epoch's time.
func (r *Run) tick() {
	now := time.Now()
	r.position.Seconds += now.Sub(r.clock).Seconds()
	r.clock = now
}

// saveInTime saves the state if the last save was SaveEvery ago.
func (r *Run) saveInTime() error {
	if time.Since(r.saved) < SaveEvery {
		return nil
	}
	r.tick()
	return r.saveState()
}

// interrupt saves the state and returns the cause and the advice. A batch in progress is
// trained again after a resume.
func (r *Run) interrupt(cause error, advice string) error {
	r.tick()
	if err := r.saveState(); err != nil {
		return fmt.Errorf("%w, and %w", cause, err)
	}
	return fmt.Errorf("%w after batch %d of epoch %d; the state is saved in %s, %s", cause, r.position.Batch, r.position.Epoch, r.settings.Out, advice)
}

// saveState writes the state.
func (r *Run) saveState() error {
	r.saved = time.Now()
	p, err := json.Marshal(r.position)
	if err != nil {
		return fmt.Errorf("cannot encode the position: %w", err)
	}
	return r.folder.Write(StateFile, r.trainer.State(r.metadata(), string(p), r.best).Encode())
}

// metadata returns the settings that the state stores, with the dataset and the kernels.
func (r *Run) metadata() map[string]string {
	all := maps.Clone(r.settings.stored)
	all["dataset"], all["dataset_sha256"], all["kernels"] = r.name, r.digest, kernels()
	return all
}

// kernels returns plain or vector, the kernels in use. All vector kernels give the same bits.
func kernels() string {
	if name, _ := linalg.Vectors(); name == "none" {
		return "plain"
	}
	return "vector"
}

// writeBest writes the model of the best epoch and digits that it generates.
func (r *Run) writeBest() error {
	s, p := r.settings, &r.position
	c := model.Checkpoint{Config: s.Config, Params: r.best, Seed: s.Seed, Epoch: p.BestEpoch, ELBO: p.Best, Data: r.name, DataSHA256: r.digest}
	b := c.File().Encode()
	if old, err := atomicfile.Read(r.path(ModelFile), int64(len(b))); err != nil || !bytes.Equal(old, b) {
		if err := r.folder.Write(ModelFile, b); err != nil {
			return err
		}
	}
	return r.folder.Write(SamplesFile, sheet.Draw(model.Generate(s.Config, r.best, 64, s.Seed), nil, 8))
}

// writeMetrics writes the metrics and their curve, unless there are none.
func (r *Run) writeMetrics() error {
	p := &r.position
	if len(p.Metrics) == 0 {
		return nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	train, validation := plot.Series{Label: "training"}, plot.Series{Label: "validation"}
	for _, m := range p.Metrics {
		if err := enc.Encode(m); err != nil {
			return fmt.Errorf("cannot encode the metrics of epoch %d: %w", m.Epoch, err)
		}
		train.X, train.Y = append(train.X, float64(m.Epoch)), append(train.Y, m.TrainELBO)
		validation.X, validation.Y = append(validation.X, float64(m.Epoch)), append(validation.Y, m.ValELBO)
	}
	if err := r.folder.Write(MetricsFile, b.Bytes()); err != nil {
		return err
	}
	var ticks []float64
	for power := 1; power <= len(p.Metrics); power *= 10 {
		for _, epoch := range []int{power, 2 * power, 5 * power} {
			if epoch <= len(p.Metrics) {
				ticks = append(ticks, float64(epoch))
			}
		}
	}
	best := plot.Series{Label: fmt.Sprintf("best epoch, %d", p.BestEpoch), X: []float64{float64(p.BestEpoch)}, Y: []float64{p.Best}, Style: plot.Points}
	curve := plot.Chart{
		Title: fmt.Sprintf("Training: %v, on %s", r.settings.Config, r.name), XLabel: "epoch", YLabel: "ELBO (nats)",
		LogX: true, XTicks: ticks, Series: []plot.Series{train, validation, best},
	}
	return r.folder.Write(CurveFile, curve.SVG())
}
