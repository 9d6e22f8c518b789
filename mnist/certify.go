package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"hvae/hvae"
	"hvae/linalg"
	"hvae/mnist/model"
)

// A certificate is what eval -method ais adds to an evaluation: bounds of log p(x), means
// over images and runs, each with its standard error over images.
type certificate struct {
	Method     string   `json:"method"`
	Steps      int      `json:"steps"`
	Chains     int      `json:"chains"`
	Lower      float64  `json:"lower"`
	LowerSE    *float64 `json:"lower_se"` // null for one image, and so on
	Upper      *float64 `json:"upper"`    // null without -simulated
	UpperSE    *float64 `json:"upper_se"`
	Gap        *float64 `json:"gap"` // between the two
	GapSE      *float64 `json:"gap_se"`
	Missed     float64  `json:"missed"` // what importance sampling is below the lower bound
	MissedSE   *float64 `json:"missed_se"`
	Acceptance *float64 `json:"acceptance"` // null for one step, which has no kernels
}

// A certifier finds the bounds.
type certifier struct {
	model.Annealing
	checkpoint model.Checkpoint
	seed       uint64
	which      []int // numbers of the images, for their noise

	// Of each image, added up over runs.
	lower, upper, importance []float64
	acceptance               []float64 // of each run
}

// tuned returns a certifier whose step sizes are tuned on images x [784×n].
func tuned(ctx context.Context, c model.Checkpoint, a model.Annealing, seed uint64, which []int, x linalg.Matrix[float32]) (*certifier, error) {
	k := &certifier{Annealing: a, checkpoint: c, seed: seed, which: which,
		lower: make([]float64, len(which)), upper: make([]float64, len(which)), importance: make([]float64, len(which))}
	return k, k.Tune(ctx, c.Config, c.Params, x, func(image int) *rand.Rand { return hvae.Stream(seed, "mnist ais tuning", image) })
}

// run adds the bounds of a run for the images of fill and, if they are simulated, the z that
// they were drawn for. estimates is what importance sampling said of the same images.
func (k *certifier) run(ctx context.Context, run int, fill filler, z linalg.Matrix[float32], estimates []model.Estimate, done func(chains int)) error {
	x, one := linalg.New[float32](28*28, len(k.which)), linalg.New[float32](28*28, 1)
	for j := range x.Cols {
		fill(j, one, new(hvae.Keyed))
		for i, v := range one.Data {
			x.Row(i)[j] = v
		}
	}
	noise := func(purpose string) func(image, chain int) *rand.Rand {
		return func(image, chain int) *rand.Rand { return hvae.Stream(k.seed, purpose, run, k.which[image], chain) }
	}
	lower, acceptance, err := k.Bound(ctx, k.checkpoint.Config, k.checkpoint.Params, x, linalg.Matrix[float32]{}, noise("mnist ais forward"), done)
	if err != nil {
		return err
	}
	upper := make([]float64, len(lower))
	if z.Cols > 0 {
		if upper, _, err = k.Bound(ctx, k.checkpoint.Config, k.checkpoint.Params, x, z, noise("mnist ais reverse"), done); err != nil {
			return err
		}
	}
	for i, e := range estimates {
		k.lower[i] += lower[i]
		k.upper[i] += upper[i]
		k.importance[i] += e.LogEvidence
	}
	k.acceptance = append(k.acceptance, acceptance)
	return nil
}

// certificate returns the means of all runs.
func (k *certifier) certificate(simulated bool) *certificate {
	runs := float64(len(k.acceptance))
	mean := func(of func(i int) float64) (float64, *float64) {
		x := make([]float64, len(k.which))
		for i := range x {
			x[i] = of(i) / runs
		}
		return meanSE(x)
	}
	c := &certificate{Method: "ais", Steps: k.Steps, Chains: k.Chains}
	c.Lower, c.LowerSE = mean(func(i int) float64 { return k.lower[i] })
	c.Missed, c.MissedSE = mean(func(i int) float64 { return k.lower[i] - k.importance[i] })
	if simulated {
		upper, upperSE := mean(func(i int) float64 { return k.upper[i] })
		gap, gapSE := mean(func(i int) float64 { return k.upper[i] - k.lower[i] })
		c.Upper, c.UpperSE, c.Gap, c.GapSE = &upper, upperSE, &gap, gapSE
	}
	if a, _ := model.MeanSD(k.acceptance); !math.IsNaN(a) {
		c.Acceptance = &a
	}
	return c
}

// String returns lines for a person.
func (c *certificate) String() string {
	number := func(v float64, se *float64) string { return plusMinus(2, v, se) }
	lines := fmt.Sprintf("annealed importance sampling, %d steps, %d chains", c.Steps, c.Chains)
	if c.Acceptance != nil {
		lines += fmt.Sprintf(", acceptance %.2f", *c.Acceptance)
	}
	lines += fmt.Sprintf(" (± standard errors over images)\nlog p(x) ≥ %s\n", number(c.Lower, c.LowerSE))
	if c.Upper != nil {
		lines += fmt.Sprintf("log p(x) ≤ %s, a gap of %s\n", number(*c.Upper, c.UpperSE), number(*c.Gap, c.GapSE))
	}
	return lines + fmt.Sprintf("importance sampling says %s less than the lower bound\n", number(c.Missed, c.MissedSE))
}
