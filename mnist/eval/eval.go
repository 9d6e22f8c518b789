// Package eval estimates the ELBO and the negative log-likelihood of a model by importance sampling, and bounds
// log p(x) by annealed importance sampling. Read eval.go, then estimators.go and statistics.go.
package eval

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"hvae/ad"
	"hvae/bench/progress"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/linalg/random"
	"hvae/mnist/data"
	"hvae/mnist/model"
)

// An Evaluation is the result of the eval command, which evaluates a model in one or more runs. Each run binarises the
// images again. ELBO and NLL are means over runs. ELBOSD and NLLSD are standard deviations over runs.
type Evaluation struct {
	ELBO    Number `json:"elbo"` // nats, negative
	ELBOSD  Number `json:"elbo_sd"`
	NLL     Number `json:"nll"` // nats, positive
	NLLSD   Number `json:"nll_sd"`
	Images  int    `json:"images"`
	Samples int    `json:"samples"`
	Runs    int    `json:"runs"`
	Data    string `json:"data"`       // name of the images
	Trained string `json:"trained_on"` // name of the training images; "" if the checkpoint lacks it

	// TailShape is the tail shape of the importance weights (hvae.Evidence), averaged over images and runs.
	// HeavyTails is the fraction of tail shapes above 0.7, which indicate unreliable estimates. Both are
	// undefined if there are fewer than 100 samples, or if any tail shape is NaN or infinite.
	TailShape  Number `json:"tail_shape"`
	HeavyTails Number `json:"heavy_tails"`

	*Bounds // nil without annealed importance sampling

	Seconds float64 `json:"seconds"`

	ELBOs, NLLs []float64 `json:"-"` // for each run, the mean over images
}

// Options are the settings of an evaluation.
type Options struct {
	Samples, Runs int // numbers of importance samples per image and of runs

	// Settings of annealed importance sampling (hvae.AIS) from the encoder's variational prior to the posterior. Its
	// bounds on the evidence do not use the flow, so they check the flow's estimates independently.
	Steps  int // K, the number of steps from the prior to the posterior
	Chains int // number of Markov chains for each image; if it is 0, no bounds are computed
}

// Images describes the images on which a model is evaluated. Each run binarises or draws them again.
type Images struct {
	Set  *data.Set // dataset whose first N test images are evaluated; nil for N images drawn from the model
	N    int
	Seed uint64 // seed of the binarisation and the noise
}

// Evaluate evaluates a model on images and prints its progress on stderr. It returns an error if
// ctx is done, or if the ELBO or the NLL is not finite.
func Evaluate(ctx context.Context, c model.Checkpoint, images Images, o Options, stderr io.Writer) (Evaluation, error) {
	began := time.Now()
	runs, acceptance := runAll(ctx, c, images, o, stderr)
	if ctx.Err() != nil {
		return Evaluation{}, fmt.Errorf("%w during the evaluation of %d images, which is not saved", context.Cause(ctx), images.N)
	}
	e := Evaluation{Images: images.N, Samples: o.Samples, Runs: o.Runs, Data: "simulated", Trained: c.Data}
	if images.Set != nil {
		e.Data = images.Set.Name
	}
	var tails []float64
	heavy := 0.0
	for _, estimates := range runs {
		elbo, nll := 0.0, 0.0
		for _, x := range estimates {
			elbo += x.elbo / float64(images.N)
			nll -= x.logEvidence / float64(images.N)
			if tails = append(tails, x.tailShape); x.tailShape > 0.7 {
				heavy++
			}
		}
		e.ELBOs, e.NLLs = append(e.ELBOs, elbo), append(e.NLLs, nll)
	}
	e.ELBO, e.ELBOSD = MeanSD(e.ELBOs)
	e.NLL, e.NLLSD = MeanSD(e.NLLs)
	if !finite(e.ELBO + e.NLL) {
		return e, fmt.Errorf("the evaluation is not finite (ELBO %v, NLL %v): the model is damaged or has diverged", e.ELBO, e.NLL)
	}
	if e.TailShape, _ = MeanSD(tails); !finite(e.TailShape) {
		e.TailShape, heavy = undefined, math.NaN()
	}
	e.HeavyTails = Number(heavy / float64(len(tails)))
	if o.Chains > 0 {
		e.Bounds = newBounds(o, runs, acceptance)
	}
	e.Seconds = time.Since(began).Seconds()
	return e, nil
}

// runAll evaluates the model o.Runs times. It returns the estimates for all images of each run, and the mean acceptance
// rate of annealed importance sampling. If ctx is done, the results are incomplete.
func runAll(ctx context.Context, c model.Checkpoint, images Images, o Options, stderr io.Writer) (
	runs [][]estimate, acceptance float64) {
	line := progress.New(stderr, 0, func(time.Duration) string { return fmt.Sprintf("evaluating %d images", images.N) })
	// Progress is measured in evaluations of ∇U, of which a sample and a chain need different numbers.
	sample, chain, chains := c.Config.K+1, 1+(o.Steps-1)*leapfrogs, o.Chains
	if images.Set == nil { // there are also reverse chains
		chains *= 2
	}
	total := float64(o.Runs*images.N) * float64(o.Samples*sample+chains*chain)
	var finished atomic.Int64
	add := func(n int) { line.Set(float64(finished.Add(int64(n))) / total) }
	addChains := func(n int) { add(n * chain) }
	var stepSizes []float64
	if o.Chains > 0 {
		stepSizes = o.tune(ctx, c, images.drawForTuning(ctx, c), images.stream("mnist ais tuning"))
	}
	for run := range o.Runs {
		x, z := images.draw(ctx, c, run)
		estimates, noise := make([]estimate, images.N), images.stream("mnist eval noise", run)
		each(ctx, images.N, 1, 1, func(b *hvae.Block[float32]) {
			estimates[b.First] = importance(ctx, b.Tape, c, b.Columns(x).Value.Clone(), o.Samples, noise(b.First))
			add(o.Samples * sample)
		})
		if o.Chains > 0 {
			lower, rate := o.Bound(ctx, c, stepSizes, x, linalg.Matrix[float32]{}, images.stream("mnist ais forward", run), addChains)
			upper := slices.Repeat([]float64{math.NaN()}, images.N)
			if images.Set == nil {
				upper, _ = o.Bound(ctx, c, stepSizes, x, z, images.stream("mnist ais reverse", run), addChains)
			}
			for i := range estimates {
				estimates[i].lower, estimates[i].upper = lower[i], upper[i]
			}
			acceptance += rate / float64(o.Runs)
		}
		runs = append(runs, estimates)
	}
	return runs, acceptance
}

// String returns the results as lines of text: ELBO, NLL, tail shape and bounds.
func (e Evaluation) String() string {
	s := fmt.Sprintf("ELBO %s\nNLL  %s\n", PlusMinus(e.ELBO, e.ELBOSD), PlusMinus(e.NLL, e.NLLSD))
	if finite(e.TailShape) {
		s += fmt.Sprintf("tail shape of the importance weights %.2f, above 0.7 for %.0f %% of the images\n", e.TailShape, 100*e.HeavyTails)
	}
	if e.Bounds == nil {
		return s
	}
	s += fmt.Sprintf("annealed importance sampling, %d steps, %d chains, acceptance %.2f (± standard errors over images)\n", e.Steps, e.Chains, e.Acceptance)
	s += fmt.Sprintf("log p(x) ≥ %s\n", PlusMinus(e.Lower, e.LowerSE))
	if finite(e.Upper) {
		s += fmt.Sprintf("log p(x) ≤ %s, a gap of %s\n", PlusMinus(e.Upper, e.UpperSE), PlusMinus(e.Gap, e.GapSE))
	}
	return s + fmt.Sprintf("the importance-sampling estimate is %s below the lower bound\n", PlusMinus(e.Missed, e.MissedSE))
}

// draw returns the binary images x [784×n] of a run. If the images are drawn from the model, draw also returns
// their latent variables z [ℓ×n].
func (m *Images) draw(ctx context.Context, c model.Checkpoint, run int) (x, z linalg.Matrix[float32]) {
	if m.Set == nil {
		return Simulate(ctx, c, m.N, m.stream("mnist eval simulated", run))
	}
	x = linalg.New[float32](data.Side*data.Side, m.N)
	for i := range m.N {
		data.Binarise(x, i, m.Set.Test.Image(i), random.Stream(m.Seed, "mnist eval pixels", run, i))
	}
	return x, z
}

// drawForTuning returns binary images for tuning the step sizes of annealed importance sampling. They are not among the
// evaluated images. If m.Set is not nil, they are validation images of the training run.
func (m *Images) drawForTuning(ctx context.Context, c model.Checkpoint) (x linalg.Matrix[float32]) {
	const n = 16
	if m.Set == nil {
		x, _ = Simulate(ctx, c, n, m.stream("mnist ais tuning simulated"))
		return x
	}
	_, validation := data.Split(m.Set.Train, c.Seed)
	x = linalg.New[float32](data.Side*data.Side, min(n, len(validation)))
	for j, i := range validation[:x.Cols] {
		data.Binarise(x, j, m.Set.Train.Image(i), random.Stream(m.Seed, "mnist ais tuning pixels", i))
	}
	return x
}

// stream returns a function that returns the random stream for a purpose, a prefix and an index.
func (m *Images) stream(purpose string, prefix ...int) func(index ...int) *rand.Rand {
	return func(index ...int) *rand.Rand {
		return random.Stream(m.Seed, purpose, slices.Concat(prefix, index)...)
	}
}

// Simulate draws z ~ N(0, I) [ℓ×n] and then images x ~ p_θ(x|z) [784×n]. Therefore, each column of z is
// an exact draw from the posterior p_θ(z|x) of its image. If ctx is done, the results are incomplete.
func Simulate(ctx context.Context, c model.Checkpoint, n int, stream func(image ...int) *rand.Rand) (x, z linalg.Matrix[float32]) {
	x, z = linalg.New[float32](data.Side*data.Side, n), linalg.New[float32](c.Config.Latent, n)
	each(ctx, n, 1, 1, func(b *hvae.Block[float32]) {
		rng := stream(b.First)
		random.FillNormalColumn(rng, z, b.First)
		for i, p := range ad.Sigmoid(c.Const(b.Tape).Decode(b.Columns(z))).Value.Data {
			if rng.Float32() < p {
				x.Row(i)[b.First] = 1
			}
		}
	})
	return x, z
}
