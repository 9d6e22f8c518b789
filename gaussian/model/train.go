package model

import (
	"context"
	"fmt"
	"math"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/linalg/random"
)

// NewTrainer returns a trainer that maximises the ELBO with RMSProp. Each column of a batch, whose elements
// are 0, is a draw of the noise for the dataset. The seed determines the noise.
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
	Dims    int
	Method  string
	Dataset int // number of the dataset, from 0
}

// An Outcome is the result of a Run.
type Outcome struct {
	Theta       Theta   // θ̂
	Beta0       float64 // inverse temperature β₀ = 1/s² of ρ₀, 0 for methods other than HVAE
	Volume      float64 // s·Π α_k, which is 1 unless the tempering is untied; 0 for methods other than HVAE
	ELBO        float64 // ELBO at θ̂, averaged over 10,000 draws
	LogEvidence float64 // exact log p_θ̂(D)
	TiedLimit   float64 // smallest possible gap of an HVAE with tied tempering at θ̂

	DeltaErr, SigmaErr       float64 // ‖Δ − Δ̂‖², ‖σ − σ̂‖²
	MLEDeltaErr, MLESigmaErr float64 // the same errors for the maximum-likelihood estimate
	MLELogEvidence           float64 // log p(D) for the maximum-likelihood estimate
}

// Dataset returns the d-dimensional dataset with the given number, counted from 0. The result depends only
// on d, dataset, c.Points and c.Seed, so all methods are trained on the same datasets.
func (c Config) Dataset(d, dataset int) Data {
	return Draw(Truth(d), c.Points, random.Stream(c.Seed, "gaussian data", d, dataset))
}

// Work returns the approximate time of a run: the time to draw N·d numbers for the dataset, in units of one
// number, and the time of the iterations.
func (c Config) Work(r Run) float64 {
	return float64(c.Points)*float64(r.Dims) + float64(c.Iterations)*Cost(r.Method, r.Dims)
}

// Train trains a method on a dataset. The outcome depends only on c and run. Before it draws each dimension
// of the dataset, and before each group of at most 100 iterations, Train calls progress with the number of
// iterations and their work. If ctx is done, Train returns ctx.Err(). If training diverges, Train returns an
// error that describes the run, the iteration and the parameters.
func (c Config) Train(ctx context.Context, run Run, progress func(iterations int, work float64)) (Outcome, error) {
	data := Data{N: c.Points}
	for range data.draw(Truth(run.Dims), random.Stream(c.Seed, "gaussian data", run.Dims, run.Dataset)) {
		if ctx.Err() != nil {
			return Outcome{}, ctx.Err()
		}
		progress(0, float64(c.Points))
	}
	method := NewMethod(run.Method, data, random.Stream(c.Seed, "gaussian start "+run.Method, run.Dims, run.Dataset))
	seed := random.Stream(c.Seed, "gaussian noise "+run.Method, run.Dims, run.Dataset).Uint64()
	trainer, draws := NewTrainer(method, c.Rate, seed), make([]int, c.Draws)
	failed := func(err error) (Outcome, error) {
		if ctx.Err() != nil {
			return Outcome{}, ctx.Err()
		}
		params := ""
		for _, p := range method.Params {
			params += fmt.Sprintf("\n  %s = %.5g", p.Name, p.Value.Data)
		}
		return Outcome{}, fmt.Errorf("%s on dataset %d (d = %d) diverged %w; try a smaller -lr\nthe parameters are%s", run.Method, run.Dataset+1, run.Dims, err, params)
	}
	const stride = 100
	for i := range c.Iterations {
		if i%stride == 0 {
			n := min(stride, c.Iterations-i)
			progress(n, float64(n)*Cost(run.Method, run.Dims))
		}
		if _, err := trainer.Step(ctx, draws); err != nil {
			return failed(fmt.Errorf("at iteration %d: %w", i+1, err))
		}
	}
	elbo, _, err := trainer.Evaluate(ctx, make([]int, 10_000), seed, trainer.Bound)
	if err != nil {
		return failed(fmt.Errorf("after %d iterations: %w", c.Iterations, err))
	}
	sigma := linalg.New[float64](run.Dims, 1)
	linalg.Exp(sigma, method.Params[1].Value)
	o := Outcome{Theta: Theta{method.Params[0].Value.Data, sigma.Data}, ELBO: elbo}
	if sd, volume := method.Momentum(); sd > 0 {
		o.Beta0, o.Volume = 1/(sd*sd), volume
	}
	truth, best := Truth(run.Dims), data.MaximumLikelihood()
	o.TiedLimit = data.TiedLimit(o.Theta)
	o.LogEvidence, o.MLELogEvidence = data.LogEvidence(o.Theta), data.LogEvidence(best)
	o.DeltaErr, o.SigmaErr = squaredDistance(truth.Delta, o.Theta.Delta), squaredDistance(truth.Sigma, o.Theta.Sigma)
	o.MLEDeltaErr, o.MLESigmaErr = squaredDistance(truth.Delta, best.Delta), squaredDistance(truth.Sigma, best.Sigma)
	if bad := o.ELBO + o.LogEvidence + o.DeltaErr + o.SigmaErr; math.IsNaN(bad) || math.IsInf(bad, 0) {
		return failed(fmt.Errorf("after %d iterations: the ELBO is %v and log p(D) is %v", c.Iterations, o.ELBO, o.LogEvidence))
	}
	return o, nil
}
