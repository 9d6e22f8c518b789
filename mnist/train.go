package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"time"

	"hvae/bench/command"
	"hvae/bench/progress"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/mnist/data"
	"hvae/mnist/model"
)

// settings is what a training run is. A resumed run must have the same, but for the
// last.
type settings struct {
	config  model.Config
	batch   int
	rate    float64
	seed    uint64
	train   int    // images to train on
	dataset string // the data's name

	// These may change on resume.
	epochs   int
	patience int
	data     string // where the data are
	out      string
	resume   bool

	recompute bool
}

// batches returns how many an epoch has.
func (s settings) batches() int { return (s.train + s.batch - 1) / s.batch }

// train is the command: it trains until an epoch, the patience or the user ends it.
func train(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s, err := parseTrain(args)
	if err != nil {
		return err
	}
	set, err := data.Load(ctx, s.data, func(m string) { fmt.Fprintln(stderr, m) })
	if err != nil {
		return err
	}
	training, validation := data.Split(set.Train, s.seed)
	if s.train > len(training) {
		return command.UsageError("invalid value %d for flag -train: there are %d training images", s.train, len(training))
	}
	if s.train > 0 {
		training = training[:s.train]
	}
	s.train, s.dataset = len(training), set.Name
	if s.batch > len(training) {
		return command.UsageError("invalid value %d for flag -batch: there are only %d images to train on", s.batch, len(training))
	}

	params := model.NewParams[float32](s.config, data.MeanLogit(set.Train, training), s.seed)
	trainer := model.NewTrainer(s.config, params, s.rate)
	trainer.Recompute = s.recompute
	r, err := openRun(s, trainer)
	if err != nil {
		return err
	}
	t := &session{
		settings: s, trainer: trainer, run: r, images: set.Train, training: training,
		validation: newValidation(set.Train, validation, s.seed),
		stdout:     stdout, stderr: stderr,
	}
	return t.loop(ctx)
}

func parseTrain(args []string) (s settings, err error) {
	f := command.NewFlags()
	c := &s.config
	f.String(&c.Kind, "model", "vae", "`model`: vae or hvae")
	f.Count(&c.K, "K", 0, 0, "`number` of leapfrog steps of an hvae")
	f.String(&c.Tempering, "tempering", "none", "`scheme` of tempering of an hvae: none, fixed or free")
	f.Bool(&c.VaryEps, "vary-eps", "learn step sizes for each leapfrog step of an hvae")
	f.Count(&c.Latent, "latent", 64, 1, "`number` of latent dimensions")
	f.Count(&s.epochs, "epochs", 2000, 1, "`number` of epochs at most")
	f.Count(&s.patience, "patience", 100, 1, "stop after this `number` of epochs without a better validation ELBO")
	f.Count(&s.batch, "batch", 100, 1, "`number` of images in a batch")
	f.Rate(&s.rate, 1e-3, "learning `rate` of Adamax")
	f.Seed(&s.seed, "seed: the same one gives the same bits, on any number of cores")
	f.String(&s.data, "data", "", dataUsage)
	f.Count(&s.train, "train", 0, 0, "train on this `number` of images only; 0 for all 50,000")
	f.String(&s.out, "out", "", "`folder` for the run's files (required)")
	f.Bool(&s.recompute, "recompute", "forget what lies within leapfrog steps and compute it again for the gradient: the same results in memory that does not grow with K, but slower")
	f.Bool(&s.resume, "resume", "go on with the run in the folder")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	if err := c.Check(); err != nil {
		return s, command.UsageError("%v", err)
	}
	if s.recompute && c.Kind != "hvae" {
		return s, command.UsageError("-recompute is about leapfrog steps: it needs -model hvae")
	}
	if s.out == "" {
		return s, command.UsageError("-out is missing: name a folder for the run's files")
	}
	return s, nil
}

// A session is a run at work.
type session struct {
	settings
	trainer        *model.Trainer[float32]
	run            *run
	images         data.Images
	training       []int
	validation     *validation
	stdout, stderr io.Writer
}

// loop trains epoch after epoch. An interrupt saves the state in the middle of an epoch,
// between two batches or two parts of the validation.
func (t *session) loop(ctx context.Context) error {
	r := t.run
	epochs := t.epochs
	var step int
	total := t.batches()
	line := progress.New(t.stderr, func(elapsed time.Duration) string {
		return fmt.Sprintf("epoch %d, batch %d of %d", r.epoch, step, total)
	})
	part := func() float64 { return (float64(r.epoch-1) + float64(step)/float64(total)) / float64(epochs) }
	step = r.batch
	line.Begin(part())

	for r.epoch <= epochs && r.epoch-r.bestEpoch <= t.patience {
		began := time.Now()
		order := shuffled(t.training, t.seed, r.epoch)
		for step = r.batch; step < total; step++ {
			b := &batch{images: t.images, which: order[step*t.batch : min((step+1)*t.batch, len(order))], seed: t.seed, epoch: r.epoch}
			elbo, err := t.trainer.Step(ctx, b)
			if err != nil {
				line.Clear()
				if ctx.Err() != nil {
					return t.interrupt(context.Cause(ctx), step, began)
				}
				return fmt.Errorf("epoch %d, batch %d: %w; the state before this epoch, or the last one saved in it, is kept in %s; try a smaller -lr", r.epoch, step+1, err, r.folder)
			}
			r.sum += elbo * float64(b.Len())
			line.Set(part())
		}
		elbo, err := t.validation.elbo(ctx, t.trainer)
		if err != nil {
			line.Clear()
			return t.interrupt(context.Cause(ctx), step, began)
		}
		m := metrics{Epoch: r.epoch, TrainELBO: r.sum / float64(len(order)), ValELBO: elbo}
		m.Seconds = r.seconds + time.Since(began).Seconds()
		if math.IsNaN(m.ValELBO) || math.IsInf(m.ValELBO, 0) {
			return fmt.Errorf("epoch %d: the validation ELBO is %v; the state before this epoch is kept in %s; try a smaller -lr", r.epoch, m.ValELBO, r.folder)
		}
		line.Clear()
		better, err := r.finishEpoch(t.trainer, m)
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
	_, err := fmt.Fprintf(t.stdout, "best validation ELBO %.2f after epoch %d; the model is %s\n", r.best, r.bestEpoch, r.path(modelFile))
	return err
}

// interrupt saves the state after so many batches of an epoch that began then, and
// returns the cause with what there is to know; after all batches, the epoch's validation
// is still to come.
func (t *session) interrupt(cause error, batches int, began time.Time) error {
	r := t.run
	r.batch, r.seconds = batches, r.seconds+time.Since(began).Seconds()
	if err := r.saveState(t.trainer); err != nil {
		return fmt.Errorf("%w, and %w", cause, err)
	}
	return fmt.Errorf("%w after batch %d of epoch %d; the state is saved in %s, go on with -resume", cause, batches, r.epoch, r.folder)
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

// validation is the validation images, binarised once. Their noise, too, is the same
// after every epoch, so that epochs differ by their weights only.
type validation struct {
	images data.Images
	which  []int
	seed   uint64
	lo, hi int // the part that is a batch now
}

func newValidation(images data.Images, which []int, seed uint64) *validation {
	return &validation{images: images, which: which, seed: seed}
}

// elbo returns the mean ELBO over all validation images, or ctx's error if ctx ends
// before the last part.
func (v *validation) elbo(ctx context.Context, t *model.Trainer[float32]) (float64, error) {
	const part = 1000
	sum := 0.0
	for v.lo = 0; v.lo < len(v.which); v.lo = v.hi {
		v.hi = min(v.lo+part, len(v.which))
		elbo, err := t.ELBO(ctx, v)
		if err != nil {
			return 0, err
		}
		sum += elbo * float64(v.Len())
	}
	return sum / float64(len(v.which)), nil
}

func (v *validation) Len() int { return v.hi - v.lo }

func (v *validation) Fill(lo int, x, epsilon, gamma0 linalg.Matrix[float32], k *hvae.Keyed) {
	for j := range x.Cols {
		i := v.which[v.lo+lo+j]
		data.Binarise(x, j, v.images.Image(i), k.Reset(v.seed, "mnist validation pixels", i))
		rng := k.Reset(v.seed, "mnist validation noise", i)
		hvae.FillNormalColumn(rng, epsilon, j)
		hvae.FillNormalColumn(rng, gamma0, j)
	}
}
