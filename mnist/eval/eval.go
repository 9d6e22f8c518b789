// Package eval estimates the ELBO and the negative log-likelihood of a model by importance
// sampling, and bounds log p(x) by annealed importance sampling.
//
// Read eval.go, then dataset.go (the images) and statistics.go (means, standard errors, correlations,
// and bounds).
package eval

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"hvae/bench/progress"
	"hvae/linalg"
	"hvae/linalg/random"
	"hvae/mnist/model"
)

// An Evaluation is the result of the eval command, which evaluates a model in one or more runs. Each run
// binarises the images again. ELBO and NLL are means over runs. ELBOSD and NLLSD are standard deviations.
type Evaluation struct {
	ELBO    float64  `json:"elbo"`    // nats, negative
	ELBOSD  *float64 `json:"elbo_sd"` // null if there is only one run
	NLL     float64  `json:"nll"`     // nats, positive
	NLLSD   *float64 `json:"nll_sd"`
	Images  int      `json:"images"`
	Samples int      `json:"samples"`
	Runs    int      `json:"runs"`
	Data    string   `json:"data"`       // name of the images
	Trained *string  `json:"trained_on"` // name of the training images; null if the checkpoint lacks it

	// TailShape is the tail shape of the importance weights (hvae.Evidence), averaged over images and runs.
	// HeavyTails is the fraction of tail shapes above 0.7, which indicate unreliable estimates. Both are
	// null if there are fewer than 21 samples, or if any tail shape is NaN or infinite.
	TailShape  *float64 `json:"tail_shape"`
	HeavyTails *float64 `json:"heavy_tails"`

	*Correlation // nil for a VAE, and if a correlation is undefined
	*Bounds      // nil without Options.Annealing

	Seconds float64 `json:"seconds"`

	ELBOs, NLLs []float64 `json:"-"` // for each run, the mean over images
}

// Options are the settings of an evaluation.
type Options struct {
	Model         string           // name of the model's file, for error messages
	Samples, Runs int              // number of importance samples for each image, number of runs
	Annealing     *model.Annealing // settings of annealed importance sampling; if nil, no bounds are computed
}

// results holds the results of a run. Each slice has an element for each image.
type results struct {
	estimates    []model.Estimate // from importance sampling
	lower, upper []float64        // bounds on log p(x) from annealed importance sampling; nil if not computed
	acceptance   float64          // mean acceptance rate of annealed importance sampling
}

// Evaluate evaluates a model on images and prints its progress on stderr. It returns an error if
// ctx is done, or if the ELBO or the NLL is not finite.
func Evaluate(ctx context.Context, c model.Checkpoint, images Dataset, o Options, stderr io.Writer) (Evaluation, error) {
	began := time.Now()
	t := newTracker(stderr, c.Config, images, o)
	defer t.line.Clear()
	e := Evaluation{Images: len(images.Indices), Samples: o.Samples, Runs: o.Runs, Data: images.name}
	if c.Data != "" {
		e.Trained = &c.Data
	}
	runs, err := runAll(ctx, c, images, o, t)
	if err != nil {
		return e, fmt.Errorf("%w after %v; the evaluation is not saved", context.Cause(ctx), t)
	}
	tailShape, heavyTails, n := 0.0, 0.0, float64(o.Runs*e.Images)
	for _, r := range runs {
		elbo, nll := 0.0, 0.0
		for _, estimate := range r.estimates {
			elbo += estimate.ELBO / float64(e.Images)
			nll -= estimate.LogEvidence / float64(e.Images)
			tailShape += estimate.TailShape / n
			if estimate.TailShape > 0.7 {
				heavyTails += 1 / n
			}
		}
		e.ELBOs, e.NLLs = append(e.ELBOs, elbo), append(e.NLLs, nll)
	}
	e.ELBO, e.ELBOSD = MeanSD(e.ELBOs)
	e.NLL, e.NLLSD = MeanSD(e.NLLs)
	if sum := e.ELBO + e.NLL; math.IsNaN(sum) || math.IsInf(sum, 0) {
		return e, fmt.Errorf("the evaluation of %s is not finite (ELBO %v, NLL %v): the model is damaged or has diverged", o.Model, e.ELBO, e.NLL)
	}
	if !math.IsNaN(tailShape) && !math.IsInf(tailShape, 0) {
		e.TailShape, e.HeavyTails = &tailShape, &heavyTails
	}
	if c.Config.K > 0 {
		e.Correlation = newCorrelation(runs, o.Samples)
	}
	if o.Annealing != nil {
		e.Bounds = newBounds(o.Annealing, runs)
	}
	e.Seconds = time.Since(began).Seconds()
	return e, nil
}

// runAll evaluates the model o.Runs times and returns the results of each run. It returns an error
// only if ctx is done.
func runAll(ctx context.Context, c model.Checkpoint, images Dataset, o Options, t *tracker) (all []results, err error) {
	if o.Annealing != nil {
		x, _, err := images.tuning.draw(ctx, c, "mnist ais tuning")
		if err == nil {
			err = o.Annealing.Tune(ctx, c.Config, c.Params, x, images.stream("mnist ais tuning"))
		}
		if err != nil {
			return nil, err
		}
	}
	for run := range o.Runs {
		x, z, err := images.draw(ctx, c, "mnist eval", run)
		if err != nil {
			return nil, err
		}
		var r results
		noise := images.stream("mnist eval noise", run)
		r.estimates, err = model.Evaluate(ctx, c.Config, c.Params, x, o.Samples,
			func(j int) *rand.Rand { return noise(images.Indices[j]) }, func() { t.add(t.sampling) })
		bound := func(purpose string, z linalg.Matrix[float32]) (bounds []float64, acceptance float64, err error) {
			stream := func(j, chain int) *rand.Rand {
				return random.Stream(images.seed, purpose, run, images.Indices[j], chain)
			}
			return o.Annealing.Bound(ctx, c.Config, c.Params, x, z, stream, func(chains int) { t.add(chains * t.chain) })
		}
		if err == nil && o.Annealing != nil {
			r.lower, r.acceptance, err = bound("mnist ais forward", linalg.Matrix[float32]{})
		}
		if err == nil && o.Annealing != nil && images.simulated {
			r.upper, _, err = bound("mnist ais reverse", z)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// String returns the results as lines of text: ELBO, NLL, tail shape, correlations and bounds.
func (e Evaluation) String() string {
	s := fmt.Sprintf("ELBO %s\nNLL  %s\n", PlusMinus(2, e.ELBO, e.ELBOSD), PlusMinus(2, e.NLL, e.NLLSD))
	if e.TailShape != nil {
		s += fmt.Sprintf("tail shape of the importance weights %.2f, above 0.7 for %.0f %% of the images\n", *e.TailShape, 100**e.HeavyTails)
	}
	if c := e.Correlation; c != nil {
		s += fmt.Sprintf("mean |correlation| of two dimensions given x: z_K %s, z_0 %s, independent %.4f\n",
			PlusMinus(4, c.ZK, c.ZKSE), PlusMinus(4, c.Z0, c.Z0SE), c.Independent)
	}
	if b := e.Bounds; b != nil {
		s += fmt.Sprintf("annealed importance sampling, %d steps, %d chains", b.Steps, b.Chains)
		if b.Acceptance != nil {
			s += fmt.Sprintf(", acceptance %.2f", *b.Acceptance)
		}
		s += fmt.Sprintf(" (± standard errors over images)\nlog p(x) ≥ %s\n", PlusMinus(2, b.Lower, b.LowerSE))
		if b.Upper != nil {
			s += fmt.Sprintf("log p(x) ≤ %s, a gap of %s\n", PlusMinus(2, *b.Upper, b.UpperSE), PlusMinus(2, *b.Gap, b.GapSE))
		}
		s += fmt.Sprintf("the importance-sampling estimate is %s below the lower bound\n", PlusMinus(2, b.Missed, b.MissedSE))
	}
	return s
}

// A tracker prints the progress of an evaluation. It measures work in passes through the decoder,
// forward or backward, because importance sampling and Markov chains need different numbers of passes.
type tracker struct {
	images          int          // number of images in all runs
	sampling, chain int          // number of passes for importance sampling of an image, and for a chain
	perImage        int          // number of all passes for an image
	finished        atomic.Int64 // number of finished passes
	line            *progress.Line
}

func newTracker(stderr io.Writer, c model.Config, images Dataset, o Options) *tracker {
	t := &tracker{images: o.Runs * len(images.Indices), sampling: o.Samples}
	if c.K > 0 { // the flow evaluates ∇U at K + 1 points
		t.sampling *= 2 * (c.K + 1)
	}
	t.perImage = t.sampling
	if o.Annealing != nil {
		t.chain = 2 * o.Annealing.Cost()
		t.perImage += t.chain * o.Annealing.Chains
		if images.simulated { // reverse chains
			t.perImage += t.chain * o.Annealing.Chains
		}
	}
	t.line = progress.New(stderr, 0, func(elapsed time.Duration) string {
		return fmt.Sprintf("%v  %.1f images/s", t, t.done()/elapsed.Seconds())
	})
	return t
}

// done returns the number of finished images, which may be fractional.
func (t *tracker) done() float64 { return float64(t.finished.Load()) / float64(t.perImage) }

func (t *tracker) add(passes int) {
	t.finished.Add(int64(passes))
	t.line.Set(t.done() / float64(t.images))
}

func (t *tracker) String() string { return fmt.Sprintf("%d of %d images", int(t.done()), t.images) }
