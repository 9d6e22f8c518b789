package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"hvae/bench/command"
	"hvae/bench/progress"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/mnist/data"
	"hvae/mnist/model"
)

// evaluation is what eval prints: means and standard deviations over runs, each with
// images binarised afresh.
type evaluation struct {
	ELBO    float64  `json:"elbo"`    // nats, negative
	ELBOSD  *float64 `json:"elbo_sd"` // null for one run
	NLL     float64  `json:"nll"`     // nats, positive
	NLLSD   *float64 `json:"nll_sd"`
	Images  int      `json:"images"`
	Samples int      `json:"samples"`
	Runs    int      `json:"runs"`
	Data    string   `json:"data"`       // the name of the images
	Trained *string  `json:"trained_on"` // that of the model's; null if its file does not say it

	TailShape  *float64 `json:"tail_shape"`  // of the importance weights, mean over images and runs; null for fewer than 21 samples
	HeavyTails *float64 `json:"heavy_tails"` // share of the estimates with a tail shape above 0.7, which are unreliable

	*correlation // of an HVAE
	*certificate // with -method ais

	Seconds float64 `json:"seconds"`
}

// evaluationOf returns what binarises an image, afresh for each run, and begins its noise.
func evaluationOf(images data.Images, which []int, seed uint64, run int) func(image int, x linalg.Matrix[float32], k *hvae.Keyed) {
	return func(image int, x linalg.Matrix[float32], k *hvae.Keyed) {
		i := which[image]
		data.Binarise(x, 0, images.Image(i), k.Reset(seed, "mnist eval pixels", run, i))
		k.Reset(seed, "mnist eval noise", run, i)
	}
}

// evaluate is the command eval.
func evaluate(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := command.NewFlags()
	var checkpoint, folder, name, split, method string
	var limit, samples, runs int
	var annealing model.Annealing
	var simulated bool
	var seed uint64
	var asJSON bool
	f.String(&checkpoint, "checkpoint", "", "`file` of the model (required)")
	source(f, &folder, &name)
	f.String(&split, "split", "test", "`images` to evaluate on: test or validation")
	f.Count(&limit, "limit", 0, 0, "evaluate on the first `number` of images only; 0 for all 10,000")
	f.Count(&samples, "samples", 1000, 1, "`number` of importance samples for each image")
	f.Count(&runs, "runs", 3, 1, "`number` of runs, for the standard deviation")
	f.String(&method, "method", "is", "`method`: is, importance sampling; or ais, annealed importance sampling, too,\nwhich bounds log p(x) more tightly, and takes longer")
	f.Count(&annealing.Steps, "steps", 1000, 1, "`number` of steps from the variational prior to the posterior, for -method ais")
	f.Count(&annealing.Chains, "chains", 16, 1, "`number` of chains for each image, for -method ais")
	f.Bool(&simulated, "simulated", "evaluate on images that are drawn from the model, whose log p(x) -method ais\nbounds from above, too")
	f.Seed(&seed, "seed of binarisation and noise")
	f.Bool(&asJSON, "json", "print a JSON object")
	if err := f.Parse(args); err != nil {
		return err
	}
	if method != "is" && method != "ais" {
		return command.UsageError("invalid value %q for flag -method: it is is or ais", method)
	}
	for _, flag := range f.Given() {
		if method == "is" && slices.Contains([]string{"steps", "chains", "simulated"}, flag) {
			return command.UsageError("-%s is for -method ais", flag)
		}
		if simulated && slices.Contains([]string{"data", "dataset", "split"}, flag) {
			return command.UsageError("-%s has no meaning with -simulated, which draws its images from the model", flag)
		}
	}
	if split != "test" && split != "validation" {
		return command.UsageError("invalid value %q for flag -split: it is test or validation", split)
	}
	c, err := readCheckpoint(checkpoint, stderr)
	if err != nil {
		return err
	}
	var on subjects
	if simulated {
		on = simulatedSubjects(ctx, c, limit, seed)
	} else if on, err = splitOf(ctx, c, folder, name, split, limit, seed, stderr); err != nil {
		return err
	}
	n, both := len(on.which), 1
	if simulated {
		both = 2 // ways for a chain to go
	}
	start := time.Now()
	work := &effort{allImages: runs * n, perImage: samples * (1 + 2*c.Config.K)}
	if method == "ais" {
		work.allChains, work.perChain = both*runs*n*annealing.Chains, 2*annealing.Cost()
	}
	work.line = progress.New(stderr, func(elapsed time.Duration) string {
		if chains := work.chains.Load(); chains > 0 {
			return fmt.Sprintf("%v  %.1f chains/s", work, float64(chains)/elapsed.Seconds())
		}
		return fmt.Sprintf("%v  %.1f images/s", work, float64(work.images.Load())/elapsed.Seconds())
	})

	var certify *certifier
	if method == "ais" {
		x, err := on.tuning()
		if err == nil {
			certify, err = tuned(ctx, c, annealing, seed, on.which, x)
		}
		if err != nil {
			return work.stopped(ctx)
		}
	}
	var elbos, nlls []float64
	var all [][]model.Estimate
	for r := range runs {
		fill, z, err := on.begin(r)
		if err != nil {
			return work.stopped(ctx)
		}
		estimates, err := model.Evaluate(ctx, c.Config, c.Params, n, samples, fill, func() { work.done(1, 0) })
		if err != nil {
			return work.stopped(ctx)
		}
		if certify != nil {
			if err := certify.run(ctx, r, fill, z, estimates, func(n int) { work.done(0, n) }); err != nil {
				return work.stopped(ctx)
			}
		}
		elbo, nll := 0.0, 0.0
		for _, e := range estimates {
			elbo += e.ELBO / float64(len(estimates))
			nll -= e.LogEvidence / float64(len(estimates))
		}
		elbos, nlls, all = append(elbos, elbo), append(nlls, nll), append(all, estimates)
	}
	work.line.Clear()
	e := evaluation{Images: n, Samples: samples, Runs: runs, Seconds: time.Since(start).Seconds(), Data: on.name}
	if c.Data != "" {
		e.Trained = &c.Data
	}
	e.ELBO, e.ELBOSD = meanSD(elbos)
	e.NLL, e.NLLSD = meanSD(nlls)
	e.TailShape, e.HeavyTails = tailShapes(all)
	if c.Config.K > 0 {
		e.correlation = correlationOf(all, samples)
	}
	if certify != nil {
		e.certificate = certify.certificate(simulated)
	}
	line, err := json.Marshal(e)
	if err != nil { // it has no NaN and no infinities
		return notFinite(checkpoint, e.ELBO, e.NLL)
	}
	if asJSON {
		_, err := fmt.Fprintf(stdout, "%s\n", line)
		return err
	}
	times := "one run"
	if e.Runs > 1 {
		times = fmt.Sprintf("%d runs", e.Runs)
	}
	_, err = fmt.Fprintf(stdout, "%v, epoch %d,%s on %d %s, %d samples each, %s, %.0f s\nELBO %s\nNLL  %s\n",
		c.Config, c.Epoch, on.elsewhere, e.Images, on.description, e.Samples, times, e.Seconds, plusMinus(2, e.ELBO, e.ELBOSD), plusMinus(2, e.NLL, e.NLLSD))
	if err == nil && e.TailShape != nil {
		_, err = fmt.Fprintf(stdout, "tail shape of the importance weights %.2f, above 0.7 for %.0f %% of the images\n", *e.TailShape, 100**e.HeavyTails)
	}
	if err == nil && e.correlation != nil {
		_, err = fmt.Fprint(stdout, e.correlation)
	}
	if err == nil && e.certificate != nil {
		_, err = fmt.Fprint(stdout, e.certificate)
	}
	return err
}

// tailShapes returns the mean tail shape of the estimates of all runs, and the share of them
// where it is above 0.7; nil if a tail shape is not known.
func tailShapes(runs [][]model.Estimate) (mean, heavy *float64) {
	mean, heavy = new(float64), new(float64)
	estimates := slices.Concat(runs...)
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

// An effort is how far an evaluation is. perImage and perChain are about what importance
// sampling and annealing cost, in runs of the decoder forwards or back.
type effort struct {
	images, chains       atomic.Int64
	allImages, allChains int
	perImage, perChain   int

	line *progress.Line
}

// done says that so many more images or chains are done.
func (e *effort) done(images, chains int) {
	i, c := int(e.images.Add(int64(images))), int(e.chains.Add(int64(chains)))
	e.line.Set(float64(i*e.perImage+c*e.perChain) / float64(e.allImages*e.perImage+e.allChains*e.perChain))
}

func (e *effort) String() string {
	s := fmt.Sprintf("%d of %d images", e.images.Load(), e.allImages)
	if e.allChains > 0 {
		s += fmt.Sprintf(", %d of %d chains", e.chains.Load(), e.allChains)
	}
	return s
}

// stopped returns the error of an evaluation that ended with its context.
func (e *effort) stopped(ctx context.Context) error {
	e.line.Clear()
	return fmt.Errorf("%w: %v were evaluated, nothing is kept", context.Cause(ctx), e)
}

// notFinite returns the error of an evaluation whose results are not finite numbers.
func notFinite(checkpoint string, elbo, nll float64) error {
	return fmt.Errorf("the evaluation of %s is not finite (ELBO %v, NLL %v): the model is damaged or has diverged", checkpoint, elbo, nll)
}

// otherData returns a description, with a comma, of the images that a model was trained on,
// if they are known and are not those of set.
func otherData(c model.Checkpoint, set data.Set) string {
	switch {
	case c.Data == "" || c.DataSHA256 == set.SHA256():
		return ""
	case c.Data == set.Name:
		return fmt.Sprintf(" trained on other images called %.40q,", c.Data)
	}
	return fmt.Sprintf(" trained on %.40q,", c.Data)
}

// meanSD returns the mean and, of several values, the standard deviation.
func meanSD(x []float64) (mean float64, sd *float64) {
	mean, s := model.MeanSD(x)
	if len(x) > 1 {
		sd = &s
	}
	return mean, sd
}

// meanSE returns the mean and, of several values, its standard error.
func meanSE(x []float64) (mean float64, se *float64) {
	mean, se = meanSD(x)
	if se != nil {
		*se /= math.Sqrt(float64(len(x)))
	}
	return mean, se
}

// plusMinus formats a number and its error, if that is known.
func plusMinus(digits int, v float64, err *float64) string {
	v = halfAway(v)
	if err == nil {
		return fmt.Sprintf("%.*f", digits, v)
	}
	return fmt.Sprintf("%.*f ± %.*f", digits, v, digits, *err)
}

// halfAway returns v a little further from zero, so that a mean such as 83.315, which has no
// exact binary form, is rounded to 83.32 as the paper does.
func halfAway(v float64) float64 { return v + math.Copysign(1e-9, v) }
