package model

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/linalg/random"
)

// NewTrainer returns a trainer that maximises the ELBO of m with RMSProp. A step on a batch of n elements averages the
// ELBO over n draws of the noise, which depend on seed. The values of the elements are ignored, because there is only
// one dataset.
func NewTrainer(m *Method, rate float64, seed uint64) *hvae.Trainer[float64] {
	t := hvae.NewTrainer(m.Params, hvae.RMSProp[float64]{Rate: rate}, func(b *hvae.Block[float64]) *ad.Var[float64] {
		return ad.BroadcastTo(m.ELBO(b.Params, b.Noise(m.NoiseRows)), 1, len(b.Batch))
	})
	t.BlockSize, t.Seed = 100, seed
	return t
}

// Config holds the settings of an experiment.
type Config struct {
	Points     int     // N, the number of points of a dataset
	Iterations int     // number of optimiser steps
	Draws      int     // number of draws over which each step averages the ELBO
	Rate       float64 // learning rate
	Seed       uint64
}

// A Run identifies the training of one method on one dataset.
type Run struct {
	Method  string `json:"method"`
	Dims    int    `json:"d"`
	Dataset int    `json:"-"` // index of the dataset
}

// Cost returns the approximate time of an iteration, in arbitrary units.
func (r Run) Cost() int {
	_, K := Parse(r.Method)
	return (5 + K) * (25 + r.Dims)
}

// Train trains a method on a dataset. Except for Seconds, the outcome depends only on c and run. The dataset does not
// depend on the method. Before each group of at most 100 iterations, Train calls progress with the size of the group.
// If ctx is done, Train returns ctx.Err(). If training diverges, Train returns an error that describes the run, the
// number of iterations and the parameters.
func (c Config) Train(ctx context.Context, run Run, progress func(iterations int)) (Outcome, error) {
	start := time.Now()
	stream := func(purpose string) *rand.Rand {
		return random.Stream(c.Seed, "gaussian "+purpose, run.Dims, run.Dataset)
	}
	truth := Truth(run.Dims)
	data := Draw(ctx, truth, c.Points, stream("data"))
	m := NewMethod(run.Method, data, stream("start "+run.Method))
	trainer, draws := NewTrainer(m, c.Rate, stream("noise "+run.Method).Uint64()), make([]int, c.Draws)
	var err error
	for err == nil && trainer.Steps() < c.Iterations {
		if trainer.Steps()%100 == 0 {
			progress(min(100, c.Iterations-trainer.Steps()))
		}
		_, err = trainer.Step(ctx, draws)
	}
	o := Outcome{Run: run, Datasets: 1}
	if err == nil {
		o.ELBO, _, err = trainer.Evaluate(ctx, make([]int, 10_000), trainer.Seed, trainer.Bound)
	}
	if m.Temperature != nil {
		trainer.Each(ctx, draws[:1], 0, func(b *hvae.Block[float64]) { o.Beta0, o.Volume = m.Temperature(b.Params) })
	}
	if ctx.Err() != nil { // possibly before all dimensions were drawn
		return Outcome{}, ctx.Err()
	}
	sigma := linalg.New[float64](run.Dims, 1)
	linalg.Exp(sigma, m.Params[1].Value)
	o.Theta = Theta{m.Params[0].Value.Data, sigma.Data}
	best := data.MaximumLikelihood()
	o.DeltaErr, o.SigmaErr, o.Err = o.Theta.errors(truth)
	o.MLEDeltaErr, o.MLESigmaErr, o.mleErr = best.errors(truth)
	o.LogEvidence, o.MLEEvidence, o.TiedLimit = data.LogEvidence(o.Theta), data.LogEvidence(best), data.TiedLimit(o.Theta)
	o.Gap, o.Seconds = o.LogEvidence-o.ELBO, time.Since(start).Seconds()
	if bad := o.Gap + o.Err; err == nil && (math.IsNaN(bad) || math.IsInf(bad, 0)) {
		err = fmt.Errorf("the ELBO is %v and log p(D) is %v", o.ELBO, o.LogEvidence)
	}
	if err != nil {
		err = fmt.Errorf("%s on dataset %d (d = %d) diverged after %d iterations: %w; try a smaller -lr\nthe parameters are", run.Method, run.Dataset+1, run.Dims, trainer.Steps(), err)
		for _, p := range m.Params {
			err = fmt.Errorf("%w\n  %s = %.5g", err, p.Name, p.Value.Data)
		}
	}
	return o, err
}
