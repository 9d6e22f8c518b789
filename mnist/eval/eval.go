// Package eval estimates the ELBO and the negative log-likelihood of a model by importance
// sampling, and bounds log p(x) by annealed importance sampling.
//
// Read eval.go, then dataset.go (the images), bounds.go (annealed importance sampling) and
// statistics.go (means, standard errors and correlations).
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
	"hvae/mnist/model"
)

// An Evaluation is the result of the eval command. ELBO and NLL are means over runs, with standard
// deviations over runs. Each run binarises the images again.
type Evaluation struct {
	ELBO    float64  `json:"elbo"`    // nats, negative
	ELBOSD  *float64 `json:"elbo_sd"` // null for one run
	NLL     float64  `json:"nll"`     // nats, positive
	NLLSD   *float64 `json:"nll_sd"`
	Images  int      `json:"images"`
	Samples int      `json:"samples"`
	Runs    int      `json:"runs"`
	Data    string   `json:"data"`       // name of the images
	Trained *string  `json:"trained_on"` // name of the training images; null if the checkpoint lacks it

	// TailShape is the mean tail shape of the importance weights over images and runs. HeavyTails is the
	// fraction of estimates with a tail shape above 0.7, which are unreliable. Both are null for fewer
	// than 21 samples.
	TailShape  *float64 `json:"tail_shape"`
	HeavyTails *float64 `json:"heavy_tails"`

	*Correlation // nil for a VAE, one sample or one latent dimension
	*Bounds      // nil without Options.Annealing

	Seconds float64 `json:"seconds"`

	ELBOs, NLLs []float64 `json:"-"` // of each run: means over images
}

// Options are the settings of an evaluation.
type Options struct {
	Model         string // name of the model's file, for error messages
	Samples, Runs int
	Annealing     *model.Annealing // for bounds from annealed importance sampling; may be nil
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
	e := Evaluation{Images: len(images.Indices), Samples: o.Samples, Runs: o.Runs, Data: images.Name}
	if c.Data != "" {
		e.Trained = &c.Data
	}
	runs, err := runAll(ctx, c, images, o, t)
	if err != nil {
		return e, fmt.Errorf("%w after %v; the evaluation is not saved", context.Cause(ctx), t)
	}
	var all []model.Estimate
	for _, r := range runs {
		elbo, nll := 0.0, 0.0
		for _, estimate := range r.estimates {
			elbo += estimate.ELBO / float64(e.Images)
			nll -= estimate.LogEvidence / float64(e.Images)
		}
		e.ELBOs, e.NLLs, all = append(e.ELBOs, elbo), append(e.NLLs, nll), append(all, r.estimates...)
	}
	e.ELBO, e.ELBOSD = MeanSD(e.ELBOs)
	e.NLL, e.NLLSD = MeanSD(e.NLLs)
	if sum := e.ELBO + e.NLL; math.IsNaN(sum) || math.IsInf(sum, 0) {
		return e, fmt.Errorf("the evaluation of %s is not finite (ELBO %v, NLL %v): the model is damaged or has diverged", o.Model, e.ELBO, e.NLL)
	}
	e.TailShape, e.HeavyTails = tailShapes(all)
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
		x, err := images.drawTuning(ctx, c)
		if err == nil {
			err = o.Annealing.Tune(ctx, c.Config, c.Params, x, images.stream("mnist ais tuning"))
		}
		if err != nil {
			return nil, err
		}
	}
	for run := range o.Runs {
		x, z, err := images.draw(ctx, c, run)
		if err != nil {
			return nil, err
		}
		var r results
		noise := images.stream("mnist eval noise", run)
		r.estimates, err = model.Evaluate(ctx, c.Config, c.Params, x, o.Samples,
			func(j int) *rand.Rand { return noise(images.Indices[j]) }, func() { t.add(1, 0) })
		if err == nil && o.Annealing != nil {
			done := func(chains int) { t.add(0, chains) }
			r.lower, r.acceptance, err = o.Annealing.Bound(ctx, c.Config, c.Params, x, linalg.Matrix[float32]{}, images.chainStream("mnist ais forward", run), done)
			if err == nil && images.Simulated {
				r.upper, _, err = o.Annealing.Bound(ctx, c.Config, c.Params, x, z, images.chainStream("mnist ais reverse", run), done)
			}
		}
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// tailShapes returns the mean tail shape of estimates and the fraction of tail shapes above 0.7. If a
// tail shape is NaN, both results are nil.
func tailShapes(estimates []model.Estimate) (mean, heavy *float64) {
	mean, heavy = new(float64), new(float64)
	for _, e := range estimates {
		*mean += e.TailShape / float64(len(estimates))
		if e.TailShape > 0.7 {
			*heavy += 1 / float64(len(estimates))
		}
	}
	if math.IsNaN(*mean) {
		return nil, nil
	}
	return mean, heavy
}

// String returns the lines that the eval command prints after its first line.
func (e Evaluation) String() string {
	s := fmt.Sprintf("ELBO %s\nNLL  %s\n", PlusMinus(2, e.ELBO, e.ELBOSD), PlusMinus(2, e.NLL, e.NLLSD))
	if e.TailShape != nil {
		s += fmt.Sprintf("tail shape of the importance weights %.2f, above 0.7 for %.0f %% of the images\n", *e.TailShape, 100**e.HeavyTails)
	}
	if c := e.Correlation; c != nil {
		s += fmt.Sprintf("|correlation| of dimensions given x %s of z_K, %s of z_0, %.4f if independent\n",
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
		s += fmt.Sprintf("importance sampling gives %s less than the lower bound\n", PlusMinus(2, b.Missed, b.MissedSE))
	}
	return s
}

// A tracker counts the finished images and the finished Markov chains of annealed importance
// sampling, and prints the counts on a progress line.
type tracker struct {
	images, chains           atomic.Int64
	totalImages, totalChains int
	imageCost, chainCost     int // decoder passes, forward or backward, of an image and of a chain
	line                     *progress.Line
}

func newTracker(stderr io.Writer, c model.Config, images Dataset, o Options) *tracker {
	t := &tracker{totalImages: o.Runs * len(images.Indices), imageCost: o.Samples * (1 + 2*c.K)}
	if o.Annealing != nil {
		t.totalChains, t.chainCost = t.totalImages*o.Annealing.Chains, 2*o.Annealing.Cost()
		if images.Simulated {
			t.totalChains *= 2 // forward and reverse
		}
	}
	t.line = progress.New(stderr, func(elapsed time.Duration) string {
		n, unit := t.images.Load(), "images"
		if chains := t.chains.Load(); chains > 0 {
			n, unit = chains, "chains"
		}
		return fmt.Sprintf("%v  %.1f %s/s", t, float64(n)/elapsed.Seconds(), unit)
	})
	return t
}

func (t *tracker) add(images, chains int) {
	i, c := int(t.images.Add(int64(images))), int(t.chains.Add(int64(chains)))
	t.line.Set(float64(i*t.imageCost+c*t.chainCost) / float64(t.totalImages*t.imageCost+t.totalChains*t.chainCost))
}

func (t *tracker) String() string {
	s := fmt.Sprintf("%d of %d images", t.images.Load(), t.totalImages)
	if t.totalChains > 0 {
		s += fmt.Sprintf(", %d of %d chains", t.chains.Load(), t.totalChains)
	}
	return s
}
