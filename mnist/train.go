package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hvae/bench/command"
	"hvae/bench/filelock"
	"hvae/bench/progress"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/mnist/data"
	"hvae/mnist/model"
)

// settings is what a training run is: its flags. All but out and resume are kept in the
// state.
type settings struct {
	config    model.Config
	epochs    int
	patience  int
	batch     int
	rate      float64
	seed      uint64
	train     int    // images to train on; 0 for all
	data      string // where they are
	dataset   string // what they are called
	recompute bool

	out    string
	resume bool

	stored map[string]string // the settings as the state has them, by flag
}

// flags defines the flags that set s.
func (s *settings) flags() *command.Flags {
	f := command.NewFlags()
	c := &s.config
	f.String(&c.Kind, "model", "vae", "`model`: vae or hvae")
	f.Range(&c.K, "K", 0, 0, model.MaxK, "`number` of leapfrog steps of an hvae")
	f.String(&c.Tempering, "tempering", "none", "`scheme` of tempering of an hvae: none, fixed or free")
	f.Bool(&c.VaryEps, "vary-eps", "learn step sizes for each leapfrog step of an hvae")
	f.Range(&c.Latent, "latent", 64, 1, model.MaxLatent, "`number` of latent dimensions")
	f.Count(&s.epochs, "epochs", 2000, 1, "`number` of epochs at most")
	f.Count(&s.patience, "patience", 100, 1, "stop after this `number` of epochs without a better validation ELBO")
	f.Count(&s.batch, "batch", 100, 1, "`number` of images in a batch")
	f.Rate(&s.rate, 1e-3, "learning `rate` of Adamax")
	f.Seed(&s.seed, "seed: the same one gives the same bits, on any number of cores")
	source(f, &s.data, &s.dataset)
	f.Count(&s.train, "train", 0, 0, "train on this `number` of images only; 0 for all 50,000")
	f.Bool(&s.recompute, "recompute", "forget what lies within leapfrog steps and compute it again for the gradient: the same results in memory that does not grow with K, but slower")
	f.String(&s.out, "out", "", "`folder` for the run's files (required)")
	f.Bool(&s.resume, "resume", "go on with the run in the folder, with its settings; -epochs, -patience, -lr, -data, -dataset and -recompute may be others")
	return f
}

// mayChange are the settings that a resume may give anew. All others make the run what
// it is.
var mayChange = map[string]bool{"epochs": true, "patience": true, "lr": true, "data": true, "dataset": true, "recompute": true}

// keep notes the settings for the state.
func (s *settings) keep(f *command.Flags) error {
	s.stored = f.Values()
	delete(s.stored, "out")
	delete(s.stored, "resume")
	if s.data != "" && s.data != data.Synthetic {
		folder, err := filepath.Abs(s.data) // a resume may be elsewhere
		if err != nil {
			return err
		}
		s.stored["data"] = folder
	}
	return nil
}

// adopt takes from a state what the command line leaves open, and reports all that
// contradicts it.
func (s *settings) adopt(f *command.Flags, stored map[string]string) error {
	given, values := f.Given(), f.Values()
	var wrong []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value, ok := stored[name]
		switch {
		case name == "out" || name == "resume" || !ok && mayChange[name]:
		case !ok:
			return fmt.Errorf("cannot resume from %s: its metadata lack the setting %s", s.path(stateFile), name)
		case !slices.Contains(given, name):
			if err := f.Set(name, value); err != nil {
				return fmt.Errorf("cannot resume from %s: its metadata have %s = %q: %w", s.path(stateFile), name, value, err)
			}
		case value != values[name] && !mayChange[name]:
			wrong = append(wrong, fmt.Sprintf("%s = %s, not %s", name, value, values[name]))
		}
	}
	if wrong != nil {
		return fmt.Errorf("the run in %s was started with %s: resume it without these flags, or start another run with another -out", s.out, strings.Join(wrong, "; "))
	}
	return nil
}

// check reports what is impossible about the settings.
func (s settings) check() error {
	if err := s.config.Check(); err != nil {
		return command.UsageError("%v", err)
	}
	if s.config.Kind == "hvae" && s.config.K == 0 && !s.resume {
		return command.UsageError("-model hvae needs -K, the number of leapfrog steps, of at least 1: without them it is a vae")
	}
	if s.recompute && s.config.Kind != "hvae" {
		return command.UsageError("-recompute is about leapfrog steps: it needs -model hvae")
	}
	return nil
}

// train is the command: it trains until an epoch, the patience or the user ends it.
func train(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var s settings
	f := s.flags()
	if err := f.Parse(args); err != nil {
		return err
	}
	if s.out == "" {
		return command.UsageError("-out is missing: name a folder for the run's files")
	}
	var state *model.State
	var lock *filelock.Lock
	if s.resume {
		l, was, err := s.openFolder(stderr)
		if err != nil {
			return err
		}
		lock = l
		defer lock.Release()
		if err := s.adopt(f, storedSettings(was)); err != nil {
			return err
		}
		state = &was
	}
	if err := s.check(); err != nil {
		return err
	}
	if err := s.keep(f); err != nil {
		return err
	}
	set, err := load(ctx, s.data, s.dataset, stderr)
	if err != nil {
		return err
	}
	t, err := newSession(s, set, stdout, stderr)
	if err != nil {
		return err
	}
	if !s.resume {
		if lock, err = s.makeFolder(); err != nil {
			return err
		}
		defer lock.Release()
	}
	if err := t.open(lock, state); err != nil {
		return err
	}
	return t.loop(ctx)
}

// A session is a run at work.
type session struct {
	*run
	pixels         data.Images
	training       []int
	validation     *validation
	stdout, stderr io.Writer
	began          time.Time // the time that the run's Seconds do not have yet
	again          string    // how to go on after an interrupt
}

// newSession prepares a run on a set of images. open begins or resumes it.
func newSession(s settings, set data.Set, stdout, stderr io.Writer) (*session, error) {
	training, validation := data.Split(set.Train, s.seed)
	if s.train > len(training) {
		return nil, command.UsageError("invalid value %d for flag -train: there are %d training images", s.train, len(training))
	}
	if s.train > 0 {
		training = training[:s.train]
	}
	if s.batch > len(training) {
		return nil, command.UsageError("invalid value %d for flag -batch: there are only %d images to train on", s.batch, len(training))
	}
	params := model.NewParams[float32](s.config, data.MeanLogit(set.Train, training), s.seed)
	trainer := model.NewTrainer(s.config, params, s.rate)
	trainer.Recompute = s.recompute
	return &session{
		run:    &run{settings: s, trainer: trainer, name: set.Name, digest: set.SHA256(), images: len(training), validationImages: len(validation)},
		pixels: set.Train, training: training, validation: newValidation(set.Train, validation, s.seed),
		stdout: stdout, stderr: stderr, again: "go on with -resume",
	}, nil
}

// open begins the run in the folder that lock holds, or goes on from a state.
func (t *session) open(lock *filelock.Lock, state *model.State) error {
	t.lock = lock
	if state == nil {
		return t.begin()
	}
	was := storedSettings(*state)
	digest, ok := was["dataset_sha256"]
	switch {
	case ok && digest != t.digest && was["dataset"] == t.name:
		return fmt.Errorf("the run in %s was started on other images called %s: name their folder with -data", t.out, t.name)
	case was["dataset"] != t.name && digest != t.digest:
		return fmt.Errorf("the run in %s was started on the data %s, not %s: name their folder with -data", t.out, was["dataset"], t.name)
	}
	t.name = was["dataset"]
	if old, now := was["kernels"], kernels(); old != "" && old != now {
		fmt.Fprintf(t.stderr, "note: the run in %s was trained with the %s kernels and goes on with the %s ones (HVAE_SIMD): from here on its bits differ from those of an undisturbed run\n", t.out, old, now)
	}
	if err := t.restore(*state); err != nil {
		return fmt.Errorf("cannot resume from %s: %w", t.path(stateFile), err)
	}
	return nil
}

// loop trains epoch after epoch. The state is saved every few minutes, and when ctx ends.
func (t *session) loop(ctx context.Context) error {
	total := t.batches()
	line := progress.New(t.stderr, func(time.Duration) string { return t.soFar() })
	defer line.Clear()
	line.Begin(t.done())
	t.began = time.Now()

	for t.Epoch <= t.epochs && t.Epoch-t.BestEpoch <= t.patience {
		line.Until(t.doneAtLeast())
		order := shuffled(t.training, t.seed, t.Epoch)
		for t.Batch < total {
			b := &batch{images: t.pixels, which: order[t.Batch*t.batch : min((t.Batch+1)*t.batch, len(order))], seed: t.seed, epoch: t.Epoch}
			elbo, err := t.trainer.Step(ctx, b)
			if err != nil {
				line.Clear()
				if ctx.Err() != nil {
					return t.interrupt(context.Cause(ctx))
				}
				return fmt.Errorf("epoch %d, batch %d: %w; %s", t.Epoch, t.Batch+1, err, t.goOn())
			}
			t.Sum += elbo * float64(b.Len())
			t.Batch++
			if err := t.saveInTime(); err != nil {
				return err
			}
			line.Set(t.done())
		}
		for t.validation.next(t.Epoch, t.Validated) {
			elbo, err := t.trainer.ELBO(ctx, t.validation)
			if err != nil {
				line.Clear()
				return t.interrupt(context.Cause(ctx))
			}
			t.ValidationSum += elbo * float64(t.validation.Len())
			t.Validated = t.validation.hi
			if err := t.saveInTime(); err != nil {
				return err
			}
		}
		t.clock()
		m := metrics{Epoch: t.Epoch, TrainELBO: t.Sum / float64(len(order)), ValELBO: t.ValidationSum / float64(t.Validated), Seconds: t.Seconds}
		line.Clear()
		if math.IsNaN(m.ValELBO) || math.IsInf(m.ValELBO, 0) {
			return fmt.Errorf("epoch %d: the validation ELBO is %v; %s", t.Epoch, m.ValELBO, t.goOn())
		}
		better, err := t.finishEpoch(m)
		if err != nil {
			return err
		}
		note := ""
		if better {
			note = "  best so far"
		}
		if _, err := fmt.Fprintf(t.stdout, "epoch %d  train %.2f  validation %.2f  %.1f s%s\n", m.Epoch, m.TrainELBO, m.ValELBO, m.Seconds, note); err != nil {
			return fmt.Errorf("cannot write results: %w", err)
		}
	}
	line.Clear()
	_, err := fmt.Fprintf(t.stdout, "best validation ELBO %.2f on %s after epoch %d; the model is %s\n", t.Best, t.name, t.BestEpoch, t.path(modelFile))
	return err
}

// soFar says where the run is, with the mean ELBO of the epoch's images until now.
func (r *run) soFar() string {
	images := min(r.Batch*r.batch, r.images)
	return fmt.Sprintf("epoch %d, batch %d of %d, ELBO %.2f", r.Epoch, r.Batch, r.batches(), r.Sum/float64(images))
}

// done returns how much of the run is done, if it takes all its epochs.
func (r *run) done() float64 {
	return (float64(r.Epoch-1) + float64(r.Batch)/float64(r.batches())) / float64(r.epochs)
}

// doneAtLeast returns how much of the run will be done when it ends, if no epoch is better
// than the best until now.
func (r *run) doneAtLeast() float64 {
	return float64(min(r.epochs, r.BestEpoch+r.patience)) / float64(r.epochs)
}

// goOn says what the user of a run that diverged can do.
func (t *session) goOn() string {
	return fmt.Sprintf("the last state that was saved is kept in %s: go on from it with -resume and a smaller -lr", t.out)
}

// clock adds the time since the last call to what the epoch has taken.
func (t *session) clock() {
	now := time.Now()
	t.Seconds += now.Sub(t.began).Seconds()
	t.began = now
}

// saveInTime saves the state if the last save is some time ago.
func (t *session) saveInTime() error {
	if time.Since(t.saved) < saveEvery {
		return nil
	}
	t.clock()
	return t.saveState()
}

// interrupt saves the state and returns the cause with what there is to know. What a batch
// or part of the validation at work had computed is lost.
func (t *session) interrupt(cause error) error {
	t.clock()
	if err := t.saveState(); err != nil {
		return fmt.Errorf("%w, and %w", cause, err)
	}
	return fmt.Errorf("%w after batch %d of epoch %d; the state is saved in %s, %s", cause, t.Batch, t.Epoch, t.out, t.again)
}

// shuffled returns the training images in the order of an epoch.
func shuffled(training []int, seed uint64, epoch int) []int {
	order := append([]int(nil), training...)
	hvae.Stream(seed, "mnist shuffle", epoch).Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	return order
}

// A batch is images of an epoch, binarised afresh, with noise from a stream for each
// image and epoch.
type batch struct {
	images data.Images
	which  []int
	seed   uint64
	epoch  int
}

func (b *batch) Len() int { return len(b.which) }

func (b *batch) Fill(lo int, x, epsilon, gamma0 linalg.Matrix[float32], k *hvae.Keyed) {
	for j := range x.Cols {
		i := b.which[lo+j]
		data.Binarise(x, j, b.images.Image(i), k.Reset(b.seed, "mnist train pixels", b.epoch, i))
		rng := k.Reset(b.seed, "mnist train noise", b.epoch, i)
		hvae.FillNormalColumn(rng, epsilon, j)
		hvae.FillNormalColumn(rng, gamma0, j)
	}
}

// A validation is the validation images: binarised once, with fresh noise for each epoch, as
// in the authors' code. The noise decides when early stopping ends a run (results/README.md).
type validation struct {
	images data.Images
	which  []int
	seed   uint64
	epoch  int
	lo, hi int // the batch is images lo to hi−1
}

func newValidation(images data.Images, which []int, seed uint64) *validation {
	return &validation{images: images, which: which, seed: seed}
}

// next makes the images after the first done ones the batch, 1,000 at most, and reports
// whether there are any.
func (v *validation) next(epoch, done int) bool {
	v.epoch, v.lo, v.hi = epoch, done, min(done+1000, len(v.which))
	return v.lo < v.hi
}

func (v *validation) Len() int { return v.hi - v.lo }

func (v *validation) Fill(lo int, x, epsilon, gamma0 linalg.Matrix[float32], k *hvae.Keyed) {
	for j := range x.Cols {
		i := v.which[v.lo+lo+j]
		data.Binarise(x, j, v.images.Image(i), k.Reset(v.seed, "mnist validation pixels", i))
		rng := k.Reset(v.seed, "mnist validation noise", v.epoch, i)
		hvae.FillNormalColumn(rng, epsilon, j)
		hvae.FillNormalColumn(rng, gamma0, j)
	}
}
