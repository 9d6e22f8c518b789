// Package eval estimates the ELBO and the negative log-likelihood of a model by importance
// sampling, and bounds log p(x) by annealed importance sampling.
//
// Read eval.go, then images.go, importance.go, anneal.go and statistics.go (means, standard errors and bounds).
package eval

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"

	"hvae/ad"
	"hvae/bench/progress"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/mnist/data"
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

	*Bounds // nil without Options.Annealing

	Seconds float64 `json:"seconds"`

	ELBOs, NLLs []float64 `json:"-"` // for each run, the mean over images
}

// Options are the settings of an evaluation.
type Options struct {
	Model         string     // name of the model's file, for error messages
	Samples, Runs int        // number of importance samples for each image, number of runs
	Annealing     *Annealing // settings of annealed importance sampling; if nil, no bounds are computed
}

// results holds the results of a run.
type results struct {
	estimates    []estimate // from importance sampling, for each image
	lower, upper []float64  // bounds on log p(x) for each image; nil if not computed
	acceptance   float64    // mean acceptance rate of annealed importance sampling
}

// Evaluate evaluates a model on images and prints its progress on stderr. It returns an error if
// ctx is done, or if the ELBO or the NLL is not finite.
func Evaluate(ctx context.Context, c model.Checkpoint, images Images, o Options, stderr io.Writer) (Evaluation, error) {
	began := time.Now()
	e := Evaluation{Images: images.n, Samples: o.Samples, Runs: o.Runs, Data: images.name}
	if c.Data != "" {
		e.Trained = &c.Data
	}
	w := newWork(ctx, c, images, o, stderr)
	defer w.line.Clear()
	runs, err := runAll(ctx, c, images, o, w)
	if err != nil {
		return e, fmt.Errorf("%w after %.0f %% of the evaluation of %d images, which is not saved", context.Cause(ctx), 100*w.done(), images.n)
	}
	var tails []float64
	heavy := 0.0
	for _, r := range runs {
		elbo, nll := 0.0, 0.0
		for _, x := range r.estimates {
			elbo += x.elbo / float64(images.n)
			nll -= x.logEvidence / float64(images.n)
			if tails = append(tails, x.tailShape); x.tailShape > 0.7 {
				heavy++
			}
		}
		e.ELBOs, e.NLLs = append(e.ELBOs, elbo), append(e.NLLs, nll)
	}
	e.ELBO, e.ELBOSD = MeanSD(e.ELBOs)
	e.NLL, e.NLLSD = MeanSD(e.NLLs)
	if !finite(e.ELBO + e.NLL) {
		return e, fmt.Errorf("the evaluation of %s is not finite (ELBO %v, NLL %v): the model is damaged or has diverged", o.Model, e.ELBO, e.NLL)
	}
	if mean, _ := MeanSD(tails); finite(mean) {
		e.TailShape, e.HeavyTails = &mean, new(heavy/float64(len(tails)))
	}
	if o.Annealing != nil {
		e.Bounds = newBounds(*o.Annealing, runs)
	}
	e.Seconds = time.Since(began).Seconds()
	return e, nil
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// runAll evaluates the model o.Runs times and returns the results of each run. It returns an error
// only if ctx is done.
func runAll(ctx context.Context, c model.Checkpoint, images Images, o Options, w *work) (all []results, err error) {
	var stepSizes []float64
	if o.Annealing != nil {
		x, err := images.drawForTuning(ctx, c)
		if err == nil {
			stepSizes, err = o.Annealing.tune(ctx, c, x, images.stream("mnist ais tuning"))
		}
		if err != nil {
			return nil, err
		}
	}
	for run := range o.Runs {
		x, z, err := images.draw(ctx, c, run)
		r, noise := results{estimates: make([]estimate, images.n)}, images.stream("mnist eval noise", run)
		if err == nil {
			err = each(ctx, numbers(images.n, 1), 1, func(b *hvae.Block[float32]) {
				r.estimates[b.First] = importance(ctx, b.Tape, c, b.Columns(x).Value.Clone(), o.Samples, noise(b.First))
				w.add(w.sampling)
			})
		}
		done := func(chains int) { w.add(chains * w.chain) }
		if err == nil && o.Annealing != nil {
			r.lower, r.acceptance, err = o.Annealing.Bound(ctx, c, stepSizes, x, linalg.Matrix[float32]{}, images.stream("mnist ais forward", run), done)
		}
		if err == nil && o.Annealing != nil && images.simulated() {
			r.upper, _, err = o.Annealing.Bound(ctx, c, stepSizes, x, z, images.stream("mnist ais reverse", run), done)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// String returns the results as lines of text: ELBO, NLL, tail shape and bounds.
func (e Evaluation) String() string {
	s := fmt.Sprintf("ELBO %s\nNLL  %s\n", PlusMinus(2, e.ELBO, e.ELBOSD), PlusMinus(2, e.NLL, e.NLLSD))
	if e.TailShape != nil {
		s += fmt.Sprintf("tail shape of the importance weights %.2f, above 0.7 for %.0f %% of the images\n", *e.TailShape, 100**e.HeavyTails)
	}
	b := e.Bounds
	if b == nil {
		return s
	}
	s += fmt.Sprintf("annealed importance sampling, %d steps, %d chains", b.Steps, b.Chains)
	if b.Acceptance != nil {
		s += fmt.Sprintf(", acceptance %.2f", *b.Acceptance)
	}
	s += fmt.Sprintf(" (± standard errors over images)\nlog p(x) ≥ %s\n", PlusMinus(2, b.Lower, b.LowerSE))
	if b.Upper != nil {
		s += fmt.Sprintf("log p(x) ≤ %s, a gap of %s\n", PlusMinus(2, *b.Upper, b.UpperSE), PlusMinus(2, *b.Gap, b.GapSE))
	}
	return s + fmt.Sprintf("the importance-sampling estimate is %s below the lower bound\n", PlusMinus(2, b.Missed, b.MissedSE))
}

// work measures the work of an evaluation in passes through the decoder, forward or backward, because
// importance sampling and Markov chains need different numbers of passes.
type work struct {
	sampling, chain int          // number of passes for importance sampling of an image, and for a chain
	total           float64      // number of all passes
	finished        atomic.Int64 // number of finished passes
	line            *progress.Line
}

// newWork measures the time of a few samples. If the evaluation will take more than two minutes, newWork prints
// the expected number of minutes.
func newWork(ctx context.Context, c model.Checkpoint, images Images, o Options, stderr io.Writer) *work {
	passes := 1         // per sample
	if c.Config.K > 0 { // the flow evaluates ∇U at K + 1 points
		passes = 2 * (c.Config.K + 1)
	}
	w := &work{sampling: o.Samples * passes}
	perImage := w.sampling
	if a := o.Annealing; a != nil {
		w.chain = 2 * (1 + (a.Steps-1)*leapfrogs)
		perImage += w.chain * a.Chains
		if images.simulated() { // reverse chains
			perImage += w.chain * a.Chains
		}
	}
	w.total = float64(o.Runs*images.n) * float64(perImage)

	const samples = 3 * samplesAtOnce
	if factor := w.total / float64(samples*passes*min(o.Runs*images.n, runtime.GOMAXPROCS(0))); factor > 300 { // else, the evaluation takes seconds
		began := time.Now()
		importance(ctx, new(ad.Tape[float32]), c, linalg.New[float32](data.Side*data.Side, 1), samples, rand.New(rand.NewPCG(1, 1)))
		if minutes := factor * time.Since(began).Minutes(); minutes > 2 {
			fmt.Fprintf(stderr, "the evaluation will take about %.0f minutes\n", minutes)
		}
	}
	w.line = progress.New(stderr, 0, func(time.Duration) string { return fmt.Sprintf("evaluating %d images", images.n) })
	return w
}

// done returns the fraction of the work that is finished.
func (w *work) done() float64 { return float64(w.finished.Load()) / w.total }

func (w *work) add(passes int) {
	w.finished.Add(int64(passes))
	w.line.Set(w.done())
}
