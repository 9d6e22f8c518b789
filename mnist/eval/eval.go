// Package eval estimates the ELBO and the negative log-likelihood of a model by importance
// sampling, and bounds log p(x) by annealed importance sampling.
//
// Read eval.go, then images.go, estimators.go (importance sampling and annealed importance sampling) and
// statistics.go (means, standard errors and bounds).
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
	"hvae/hvae"
	"hvae/linalg"
	"hvae/mnist/model"
)

// An Evaluation is the result of the eval command, which evaluates a model in one or more runs. Each run binarises the
// images again. ELBO and NLL are means over runs. ELBOSD and NLLSD are standard deviations over runs.
type Evaluation struct {
	ELBO    Number  `json:"elbo"` // nats, negative
	ELBOSD  Number  `json:"elbo_sd"`
	NLL     Number  `json:"nll"` // nats, positive
	NLLSD   Number  `json:"nll_sd"`
	Images  int     `json:"images"`
	Samples int     `json:"samples"`
	Runs    int     `json:"runs"`
	Data    string  `json:"data"`       // name of the images
	Trained *string `json:"trained_on"` // name of the training images; null if the checkpoint lacks it

	// TailShape is the tail shape of the importance weights (hvae.Evidence), averaged over images and runs.
	// HeavyTails is the fraction of tail shapes above 0.7, which indicate unreliable estimates. Both are
	// undefined if there are fewer than 21 samples, or if any tail shape is NaN or infinite.
	TailShape  Number `json:"tail_shape"`
	HeavyTails Number `json:"heavy_tails"`

	*Bounds // nil without Options.Annealing

	Seconds float64 `json:"seconds"`

	ELBOs, NLLs []float64 `json:"-"` // for each run, the mean over images
}

// Options are the settings of an evaluation.
type Options struct {
	Samples, Runs int        // numbers of importance samples per image and of runs
	Annealing     *Annealing // settings of annealed importance sampling; if nil, no bounds are computed
}

// results holds the results of a run.
type results struct {
	estimates    []estimate // from importance sampling, for each image
	lower, upper []float64  // bounds on log p(x) for each image; upper is NaN unless the images are simulated
	acceptance   float64    // mean acceptance rate of annealed importance sampling
}

// Evaluate evaluates a model on images and prints its progress on stderr. It returns an error if
// ctx is done, or if the ELBO or the NLL is not finite.
func Evaluate(ctx context.Context, c model.Checkpoint, images Images, o Options, stderr io.Writer) (Evaluation, error) {
	began := time.Now()
	e := Evaluation{Images: images.N, Samples: o.Samples, Runs: o.Runs, Data: "simulated"}
	if images.Set != nil {
		e.Data = images.Set.Name
	}
	if c.Data != "" {
		e.Trained = &c.Data
	}
	w := newWork(c, images, o, stderr)
	defer w.line.Clear()
	runs := runAll(ctx, c, images, o, w)
	if ctx.Err() != nil {
		return e, fmt.Errorf("%w after %.0f %% of the evaluation of %d images, which is not saved", context.Cause(ctx), 100*w.done(), images.N)
	}
	var tails []float64
	heavy := 0.0
	for _, r := range runs {
		elbo, nll := 0.0, 0.0
		for _, x := range r.estimates {
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
	if o.Annealing != nil {
		e.Bounds = newBounds(*o.Annealing, runs)
	}
	e.Seconds = time.Since(began).Seconds()
	return e, nil
}

// runAll evaluates the model o.Runs times and returns the results of each run. If ctx is done, the results are
// incomplete.
func runAll(ctx context.Context, c model.Checkpoint, images Images, o Options, w *work) (all []results) {
	var stepSizes []float64
	if o.Annealing != nil {
		stepSizes = o.Annealing.tune(ctx, c, images.drawForTuning(ctx, c), images.stream("mnist ais tuning"))
	}
	for run := range o.Runs {
		x, z := images.draw(ctx, c, run)
		r, noise := results{estimates: make([]estimate, images.N)}, images.stream("mnist eval noise", run)
		each(ctx, images.N, 1, 1, func(b *hvae.Block[float32]) {
			r.estimates[b.First] = importance(ctx, b.Tape, c, b.Columns(x).Value.Clone(), o.Samples, noise(b.First))
			w.add(w.sampling)
		})
		if a := o.Annealing; a != nil {
			done := func(chains int) { w.add(chains * w.chain) }
			r.lower, r.acceptance = a.Bound(ctx, c, stepSizes, x, linalg.Matrix[float32]{}, images.stream("mnist ais forward", run), done)
			r.upper = slices.Repeat([]float64{math.NaN()}, images.N)
			if images.Set == nil {
				r.upper, _ = a.Bound(ctx, c, stepSizes, x, z, images.stream("mnist ais reverse", run), done)
			}
		}
		all = append(all, r)
	}
	return all
}

// String returns the results as lines of text: ELBO, NLL, tail shape and bounds.
func (e Evaluation) String() string {
	s := fmt.Sprintf("ELBO %s\nNLL  %s\n", PlusMinus(e.ELBO, e.ELBOSD), PlusMinus(e.NLL, e.NLLSD))
	if finite(e.TailShape) {
		s += fmt.Sprintf("tail shape of the importance weights %.2f, above 0.7 for %.0f %% of the images\n", e.TailShape, 100*e.HeavyTails)
	}
	b := e.Bounds
	if b == nil {
		return s
	}
	s += fmt.Sprintf("annealed importance sampling, %d steps, %d chains", b.Steps, b.Chains)
	if finite(b.Acceptance) {
		s += fmt.Sprintf(", acceptance %.2f", b.Acceptance)
	}
	s += fmt.Sprintf(" (± standard errors over images)\nlog p(x) ≥ %s\n", PlusMinus(b.Lower, b.LowerSE))
	if finite(b.Upper) {
		s += fmt.Sprintf("log p(x) ≤ %s, a gap of %s\n", PlusMinus(b.Upper, b.UpperSE), PlusMinus(b.Gap, b.GapSE))
	}
	return s + fmt.Sprintf("the importance-sampling estimate is %s below the lower bound\n", PlusMinus(b.Missed, b.MissedSE))
}

// work measures the progress of an evaluation. The unit is a forward or backward pass through the decoder, because
// importance sampling and Markov chains need different numbers of passes.
type work struct {
	sampling, chain int          // numbers of passes for the importance sampling of one image and for one chain
	finished        atomic.Int64 // number of finished passes
	total           float64
	line            *progress.Line
}

func newWork(c model.Checkpoint, images Images, o Options, stderr io.Writer) *work {
	w := &work{sampling: o.Samples}
	if c.Config.K > 0 { // the flow evaluates ∇U at K + 1 points
		w.sampling *= 2 * (c.Config.K + 1)
	}
	chains := 0
	if a := o.Annealing; a != nil {
		w.chain, chains = 2*(1+(a.Steps-1)*leapfrogs), a.Chains
		if images.Set == nil { // there are also reverse chains
			chains *= 2
		}
	}
	w.total = float64(o.Runs*images.N) * float64(w.sampling+chains*w.chain)
	w.line = progress.New(stderr, 0, func(time.Duration) string { return fmt.Sprintf("evaluating %d images", images.N) })
	return w
}

// done returns the fraction of the work that is finished.
func (w *work) done() float64 { return float64(w.finished.Load()) / w.total }

func (w *work) add(passes int) {
	w.finished.Add(int64(passes))
	w.line.Set(w.done())
}
