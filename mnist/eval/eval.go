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
	"slices"
	"sync/atomic"
	"time"

	"hvae/bench/progress"
	"hvae/mnist/model"
)

// An Evaluation is the result of the command eval. ELBO and NLL are means over runs, with standard
// deviations. Each run binarises the images again.
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

	// Mean tail shape of the importance weights over images and runs, and the fraction of unreliable
	// estimates, whose tail shape is above 0.7. Both are null for fewer than 21 samples.
	TailShape  *float64 `json:"tail_shape"`
	HeavyTails *float64 `json:"heavy_tails"`

	*Correlation // nil unless the model is an HVAE
	*Bounds      // nil without Options.Annealing

	Seconds float64 `json:"seconds"`
}

// Options are the settings of an evaluation.
type Options struct {
	Samples, Runs int
	Annealing     *model.Annealing // for bounds from annealed importance sampling; may be nil
}

// Evaluate evaluates a model on images and prints its progress on stderr. It returns an error only
// if ctx ends.
func Evaluate(ctx context.Context, c model.Checkpoint, images Dataset, o Options, stderr io.Writer) (Evaluation, error) {
	began := time.Now()
	t := newTracker(stderr, c.Config, images, o)
	defer t.line.Clear()
	stopped := func() (Evaluation, error) {
		t.line.Clear()
		return Evaluation{}, fmt.Errorf("%w: %v were evaluated, nothing is saved", context.Cause(ctx), t)
	}
	var bounds *bounder
	if o.Annealing != nil {
		var err error
		if bounds, err = newBounder(ctx, c, *o.Annealing, images); err != nil {
			return stopped()
		}
	}
	var elbos, nlls []float64
	var all [][]model.Estimate
	for run := range o.Runs {
		x, z, err := images.draw(run, images.Indices)
		if err != nil {
			return stopped()
		}
		noise := Noise(images.Indices, images.seed, run)
		estimates, err := model.Evaluate(ctx, c.Config, c.Params, x, o.Samples, noise, func() { t.add(1, 0) })
		if err == nil && bounds != nil {
			err = bounds.add(ctx, run, x, z, estimates, func(chains int) { t.add(0, chains) })
		}
		if err != nil {
			return stopped()
		}
		elbo, nll := Means(estimates)
		elbos, nlls, all = append(elbos, elbo), append(nlls, nll), append(all, estimates)
	}
	e := Evaluation{Images: len(images.Indices), Samples: o.Samples, Runs: o.Runs, Seconds: time.Since(began).Seconds(), Data: images.Name}
	if c.Data != "" {
		e.Trained = &c.Data
	}
	e.ELBO, e.ELBOSD = MeanSD(elbos)
	e.NLL, e.NLLSD = MeanSD(nlls)
	e.TailShape, e.HeavyTails = tailShapes(slices.Concat(all...))
	if c.Config.K > 0 {
		e.Correlation = newCorrelation(all, o.Samples)
	}
	if bounds != nil {
		e.Bounds = bounds.bounds()
	}
	return e, nil
}

// Means returns the mean ELBO and the mean negative log-likelihood of a run's estimates.
func Means(estimates []model.Estimate) (elbo, nll float64) {
	for _, e := range estimates {
		elbo += e.ELBO / float64(len(estimates))
		nll -= e.LogEvidence / float64(len(estimates))
	}
	return elbo, nll
}

// NotFinite returns the error for an evaluation whose ELBO or NLL is not finite.
func NotFinite(checkpoint string, elbo, nll float64) error {
	return fmt.Errorf("the evaluation of %s is not finite (ELBO %v, NLL %v): the model is damaged or has diverged", checkpoint, elbo, nll)
}

// tailShapes returns the mean tail shape and the fraction of tail shapes above 0.7. It returns nil
// if a tail shape is NaN.
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

// A tracker counts the images and the chains of annealed importance sampling that are done, and
// prints the counts on a progress line.
type tracker struct {
	images, chains           atomic.Int64
	totalImages, totalChains int
	imageCost, chainCost     int // number of forward and backward passes of the decoder
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
