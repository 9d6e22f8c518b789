package model

import (
	"context"
	"fmt"
	"math"
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
// iteration and the parameters.
func (c Config) Train(ctx context.Context, run Run, progress func(iterations int)) (Outcome, error) {
	start := time.Now()
	truth := Truth(run.Dims)
	data := Draw(ctx, truth, c.Points, random.Stream(c.Seed, "gaussian data", run.Dims, run.Dataset))
	if ctx.Err() != nil {
		return Outcome{}, ctx.Err()
	}
	m := NewMethod(run.Method, data, random.Stream(c.Seed, "gaussian start "+run.Method, run.Dims, run.Dataset))
	elbo, err := c.optimise(ctx, m, random.Stream(c.Seed, "gaussian noise "+run.Method, run.Dims, run.Dataset).Uint64(), progress)
	if ctx.Err() != nil {
		return Outcome{}, ctx.Err()
	}
	sigma := linalg.New[float64](run.Dims, 1)
	linalg.Exp(sigma, m.Params[1].Value)
	theta, best := Theta{m.Params[0].Value.Data, sigma.Data}, data.MaximumLikelihood()
	o := Outcome{
		Run: run, Datasets: 1, Theta: theta, ELBO: elbo, TiedLimit: data.TiedLimit(theta),
		DeltaErr: squaredDistance(truth.Delta, theta.Delta), MLEDeltaErr: squaredDistance(truth.Delta, best.Delta),
		SigmaErr: squaredDistance(truth.Sigma, theta.Sigma), MLESigmaErr: squaredDistance(truth.Sigma, best.Sigma),
		LogEvidence: data.LogEvidence(theta), MLEEvidence: data.LogEvidence(best),
		Seconds: time.Since(start).Seconds(),
	}
	o.Err, o.mleErr, o.Gap = o.DeltaErr+o.SigmaErr, o.MLEDeltaErr+o.MLESigmaErr, o.LogEvidence-o.ELBO
	o.Beta0, o.Volume = m.Temperature()
	if bad := o.Gap + o.Err; err == nil && (math.IsNaN(bad) || math.IsInf(bad, 0)) {
		err = fmt.Errorf("after %d iterations: the ELBO is %v and log p(D) is %v", c.Iterations, o.ELBO, o.LogEvidence)
	}
	if err != nil {
		err = fmt.Errorf("%s on dataset %d (d = %d) diverged %w; try a smaller -lr\nthe parameters are", run.Method, run.Dataset+1, run.Dims, err)
		for _, p := range m.Params {
			err = fmt.Errorf("%w\n  %s = %.5g", err, p.Name, p.Value.Data)
		}
	}
	return o, err
}

// optimise maximises the ELBO of m. It returns the final ELBO, averaged over 10,000 draws.
func (c Config) optimise(ctx context.Context, m *Method, seed uint64, progress func(iterations int)) (elbo float64, err error) {
	trainer, draws := NewTrainer(m, c.Rate, seed), make([]int, c.Draws)
	const stride = 100
	for i := range c.Iterations {
		if i%stride == 0 {
			progress(min(stride, c.Iterations-i))
		}
		if _, err := trainer.Step(ctx, draws); err != nil {
			return 0, fmt.Errorf("at iteration %d: %w", i+1, err)
		}
	}
	if elbo, _, err = trainer.Evaluate(ctx, make([]int, 10_000), seed, trainer.Bound); err != nil {
		return 0, fmt.Errorf("after %d iterations: %w", c.Iterations, err)
	}
	return elbo, nil
}
