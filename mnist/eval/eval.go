// Package eval estimates the ELBO and the negative log-likelihood of a model by importance sampling, and bounds log
// p(x) by annealed importance sampling. Start with eval.go, estimators.go (estimates for one image) and statistics.go.
package eval

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"hvae/ad"
	"hvae/bench/progress"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/mnist/data"
	"hvae/mnist/model"
)

// An Evaluation is the result of evaluating a model in one or more runs, each of which binarises the images again.
// Fields that end in SD are standard deviations over runs, and fields that end in SE are standard errors over images.
// All other statistics are means over images, runs or both.
type Evaluation struct {
	// Results of importance sampling. TailShape and HeavyTails are undefined for fewer than 100 samples.
	ELBO       Number `json:"elbo"` // nats, negative; undefined if a sample has diverged
	ELBOSD     Number `json:"elbo_sd"`
	NLL        Number `json:"nll"` // nats, positive
	NLLSD      Number `json:"nll_sd"`
	Images     int    `json:"images"`
	Samples    int    `json:"samples"`
	Runs       int    `json:"runs"`
	Data       string `json:"data"`               // name of the dataset, or "simulated"
	Trained    string `json:"trained_on"`         // name of the training dataset; "" if the checkpoint lacks it
	TailShape  Number `json:"tail_shape"`         // of the importance weights (hvae.Evidence)
	HeavyTails Number `json:"heavy_tails"`        // fraction of estimates with heavy tails, which are unreliable
	Diverged   int    `json:"diverged,omitempty"` // number of samples that have diverged, including reverse paths

	// Upper bound on log p(x) from paths that end at exact draws from the posterior (hvae.ReverseHIS). It is zero unless
	// the images are simulated.
	ReverseUpper   Number `json:"reverse_upper,omitzero"`
	ReverseUpperSE Number `json:"reverse_upper_se,omitzero"`
	ReverseGap     Number `json:"reverse_gap,omitzero"` // ReverseUpper + NLL
	ReverseGapSE   Number `json:"reverse_gap_se,omitzero"`

	// Bounds on log p(x) from annealed importance sampling. The upper bound is defined only for simulated images.
	Method     string `json:"method,omitempty"` // "ais", or "" without these bounds
	Steps      int    `json:"steps,omitempty"`
	Chains     int    `json:"chains,omitempty"`
	Lower      Number `json:"lower,omitzero"`
	LowerSE    Number `json:"lower_se,omitzero"`
	Upper      Number `json:"upper,omitzero"`
	UpperSE    Number `json:"upper_se,omitzero"`
	Gap        Number `json:"gap,omitzero"` // Upper − Lower
	GapSE      Number `json:"gap_se,omitzero"`
	Missed     Number `json:"missed,omitzero"` // Lower + NLL; the NLL is too high by at least this much
	MissedSE   Number `json:"missed_se,omitzero"`
	Acceptance Number `json:"acceptance,omitzero"`

	Seconds    float64   `json:"seconds"`
	ImageELBO  []float64 `json:"image_elbo,omitempty"` // nil if a sample has diverged
	ImageNLL   []float64 `json:"image_nll,omitempty"`
	ImageLower []float64 `json:"image_lower,omitempty"` // lower bounds from annealed importance sampling
}

const simulated = "simulated" // Evaluation.Data for images drawn from the model

// Options are the settings of an evaluation.
type Options struct {
	Set     *data.Set // dataset whose first N test images are evaluated; nil for N images drawn from the model
	N       int
	Seed    uint64 // seed of the binarisation and the noise
	Samples int    // number of importance samples for each image
	Runs    int

	// Settings for annealed importance sampling (hvae.AIS). AIS does not use the flow, so it is an independent check.
	Steps  int // K, the number of steps from the encoder's variational prior to the posterior
	Chains int // number of Markov chains for each image; if it is 0, no bounds are computed, and Set.Train is not used
}

// Evaluate evaluates a model on images and prints its progress on stderr. It returns an error if ctx is done, or if a
// result is infinite or NaN. Only the ELBO may be NaN, because samples may diverge.
func Evaluate(ctx context.Context, c model.Checkpoint, o Options, stderr io.Writer) (Evaluation, error) {
	began := time.Now()
	estimates := make([]estimate, o.Runs*o.N)
	line := progress.New(stderr, 0, len(estimates), func(float64) string { return fmt.Sprintf("evaluating %d images", o.N) })
	work, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	e := &estimator{model: c, Options: o}
	if o.Chains > 0 {
		if err := e.tune(work); err != nil {
			stop(err)
		}
	}
	linalg.For(len(estimates), 1, func(lo, hi int) {
		var t ad.Tape[float32]
		for i := lo; i < hi && work.Err() == nil; i++ {
			var err error
			estimates[i], err = e.estimate(work, &t, i/o.N, i%o.N)
			if err != nil {
				stop(err)
			}
			line.Add(1)
		}
	})
	err := context.Cause(work)
	if ctx.Err() != nil {
		err = fmt.Errorf("%w during the evaluation of %d images; no results are saved", err, o.N)
	}
	if err != nil {
		return Evaluation{}, err
	}
	all, err := summarise(o, estimates)
	all.Trained = c.Data
	all.Seconds = time.Since(began).Seconds()
	return all, err
}

// summarise returns the statistics of the estimates for all images in all runs, ordered by run and then by image. It
// returns an error if the ELBO is infinite, or if the NLL or a bound is infinite or NaN.
func summarise(o Options, estimates []estimate) (e Evaluation, err error) {
	e.Images, e.Samples, e.Runs, e.Data = o.N, o.Samples, o.Runs, simulated
	var shapes []float64
	images := make([][]estimate, o.N) // the estimates for each image in all runs
	for i, x := range estimates {
		shapes = append(shapes, x.forward.TailShape)
		if x.forward.TailShape > x.forward.TailLimit() {
			e.HeavyTails++
		}
		e.Diverged += x.forward.Diverged + x.reverse.Diverged
		images[i%o.N] = append(images[i%o.N], x)
	}
	e.TailShape, _ = MeanSE(shapes)
	e.HeavyTails /= Number(len(estimates))
	if o.Samples < 100 {
		e.TailShape, e.HeavyTails = undefined, undefined
	}
	elbo := func(x estimate) float64 { return x.forward.ELBO }
	nll := func(x estimate) float64 { return -x.forward.Log }
	runs := slices.Collect(slices.Chunk(estimates, o.N))
	e.ELBO, e.ELBOSD = MeanSD(means(runs, elbo))
	e.NLL, e.NLLSD = MeanSD(means(runs, nll))
	e.ImageNLL = means(images, nll)
	if finite(e.ELBO) {
		e.ImageELBO = means(images, elbo)
	}
	overImages := func(value func(x estimate) float64) (mean, se Number) { return MeanSE(means(images, value)) }
	if o.Set == nil {
		e.ReverseUpper, e.ReverseUpperSE = overImages(func(x estimate) float64 { return x.reverse.Log })
		e.ReverseGap, e.ReverseGapSE = overImages(func(x estimate) float64 { return x.reverse.Log - x.forward.Log })
	} else {
		e.Data = o.Set.Name
	}
	if o.Chains > 0 {
		e.Method, e.Steps, e.Chains = "ais", o.Steps, o.Chains
		e.ImageLower = means(images, func(x estimate) float64 { return x.lower })
		e.Lower, e.LowerSE = MeanSE(e.ImageLower)
		e.Upper, e.UpperSE = overImages(func(x estimate) float64 { return x.upper })
		e.Gap, e.GapSE = overImages(func(x estimate) float64 { return x.upper - x.lower })
		e.Missed, e.MissedSE = overImages(func(x estimate) float64 { return x.lower - x.forward.Log })
		e.Acceptance, _ = overImages(func(x estimate) float64 { return x.acceptance })
	}
	bounds := e.Lower + e.ReverseUpper
	if o.Set == nil {
		bounds += e.Upper
	}
	if !finite(e.NLL) || !finite(bounds) || math.IsInf(float64(e.ELBO), 0) {
		text := strings.ReplaceAll(strings.TrimSpace(e.String()), "\n", ", ")
		err = fmt.Errorf("the evaluation is not finite (%s): the model is damaged or has diverged", text)
	}
	return e, err
}

// String returns the results as lines of text: ELBO, NLL, tail shape and bounds.
func (e Evaluation) String() string {
	s := fmt.Sprintf("ELBO %s\nNLL  %s\n", PlusMinus(e.ELBO, e.ELBOSD), PlusMinus(e.NLL, e.NLLSD))
	if e.Diverged > 0 {
		s += fmt.Sprintf("%d samples have diverged\n", e.Diverged)
	}
	if !finite(e.HeavyTails) {
		s += "tail shape of the importance weights: needs at least 100 samples\n"
	} else {
		s += fmt.Sprintf("tail shape of the importance weights %.2f, above %.3g for %.0f %% of the images\n",
			e.TailShape, hvae.Evidence{Draws: e.Samples}.TailLimit(), 100*e.HeavyTails)
	}
	if e.Data == simulated {
		s += fmt.Sprintf("log p(x) ≤ %s from reverse paths, a gap of %s (± standard errors over images)\n",
			PlusMinus(e.ReverseUpper, e.ReverseUpperSE), PlusMinus(e.ReverseGap, e.ReverseGapSE))
	}
	if e.Method == "" {
		return s
	}
	s += fmt.Sprintf("annealed importance sampling, %d steps, %d chains, acceptance %.2f "+
		"(± standard errors over images)\n", e.Steps, e.Chains, e.Acceptance)
	s += fmt.Sprintf("log p(x) ≥ %s\n", PlusMinus(e.Lower, e.LowerSE))
	if finite(e.Upper) {
		s += fmt.Sprintf("log p(x) ≤ %s, a gap of %s\n", PlusMinus(e.Upper, e.UpperSE), PlusMinus(e.Gap, e.GapSE))
	}
	return s + fmt.Sprintf("the importance-sampling estimate is %s below the lower bound\n",
		PlusMinus(e.Missed, e.MissedSE))
}
