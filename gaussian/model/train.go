package model

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
)

// A Trainer trains a method's parameters by Algorithm 2. The batch is one column: the one
// dataset, its ELBO averaged over draws of the noise.
type Trainer struct {
	method    Method
	draws     int
	rng       *rand.Rand
	noise     linalg.Matrix[float64] // of the draws at work
	algorithm *hvae.Trainer[float64]
}

// oneDataset is the batch.
var oneDataset = []int{0}

// NewTrainer returns a trainer that averages the ELBO over a number of draws in each
// step and climbs it by RMSProp.
func NewTrainer(m Method, draws int, rate float64, rng *rand.Rand) *Trainer {
	t := &Trainer{method: m, draws: draws, rng: rng}
	t.algorithm = hvae.NewTrainer(m.Params(), hvae.NewRMSProp(rate), func(b *hvae.Block[float64]) *ad.Var[float64] {
		return ad.Mean(m.ELBO(b.Params, b.Tape.Const(t.noise)))
	})
	return t
}

// Step estimates the ELBO and its gradient and updates the parameters. If either is not
// finite, or ctx ends, it leaves the parameters as they are and returns an error, as
// hvae.Trainer's.
func (t *Trainer) Step(ctx context.Context) error {
	t.draw(t.draws)
	_, err := t.algorithm.Step(ctx, oneDataset)
	return err
}

// draw fills the noise of n draws.
func (t *Trainer) draw(n int) {
	if t.noise.Data == nil || t.noise.Cols != n {
		t.noise = linalg.New[float64](t.method.NoiseRows(), n)
	}
	hvae.FillNormal(t.rng, t.noise)
}

// MeanELBO returns the ELBO at the current parameters, averaged over n draws, or ctx's
// error if ctx ends first.
func (t *Trainer) MeanELBO(ctx context.Context, n int) (float64, error) {
	const batch = 100
	sum := 0.0
	for done := 0; done < n; done += t.noise.Cols {
		t.draw(min(batch, n-done))
		elbo, _, err := t.algorithm.Evaluate(ctx, oneDataset, 0, nil)
		if err != nil {
			return 0, err
		}
		sum += elbo * float64(t.noise.Cols)
	}
	return sum / float64(n), nil
}

// Config says how to train.
type Config struct {
	Points     int     // N, points in a dataset
	Iterations int     // optimiser steps
	Draws      int     // draws that an ELBO estimate averages
	Rate       float64 // learning rate
	Seed       uint64
}

// evaluationDraws is how many draws the reported ELBO averages.
const evaluationDraws = 10000

// A Run is one method trained on one dataset.
type Run struct {
	Dims    int
	Method  string
	Dataset int // which dataset of that dimension, from 0
}

// An Outcome is what a run learned.
type Outcome struct {
	Theta       Theta   // θ̂
	Beta0       float64 // NaN if the method has none
	ELBO        float64 // at θ̂, averaged over 10,000 draws
	LogEvidence float64 // log p_θ̂(D), exactly

	DeltaErr, SigmaErr       float64 // ‖Δ − Δ̂‖², ‖σ − σ̂‖²
	MLEDeltaErr, MLESigmaErr float64 // the same for the maximum-likelihood estimate
	MLELogEvidence           float64 // log p(D) there: the largest there is
}

// Dataset returns a run's dataset, which all methods share.
func (c Config) Dataset(dims, dataset int) Data {
	return Draw(Truth(dims), c.Points, hvae.Stream(c.Seed, "gaussian data", dims, dataset))
}

// Train does a run. Its outcome depends on the configuration and the run only, not on
// what runs beside it. It calls progress now and then with the number of iterations
// since the last call, and returns ctx's error if ctx ends first. A bound that is not
// finite ends it with an error that names the run, the iteration and the parameters.
func (c Config) Train(ctx context.Context, run Run, progress func(iterations int)) (Outcome, error) {
	data := c.Dataset(run.Dims, run.Dataset)
	method, err := NewMethod(run.Method, data, hvae.Stream(c.Seed, "gaussian start "+run.Method, run.Dims, run.Dataset))
	if err != nil {
		return Outcome{}, err
	}
	noise := hvae.Stream(c.Seed, "gaussian noise "+run.Method, run.Dims, run.Dataset)
	trainer := NewTrainer(method, c.Draws, c.Rate, noise)
	const stride = 100
	for i := range c.Iterations {
		if i%stride == 0 {
			progress(min(stride, c.Iterations-i))
		}
		if err := trainer.Step(ctx); err != nil {
			if ctx.Err() != nil {
				return Outcome{}, ctx.Err()
			}
			return Outcome{}, fmt.Errorf("%s on dataset %d, d = %d, diverged at iteration %d: %w; the parameters there:%s\ntry a smaller -lr",
				run.Method, run.Dataset+1, run.Dims, i+1, err, describe(method.Params()))
		}
	}
	o := Outcome{Theta: Estimate(method), Beta0: method.Beta0()}
	if o.ELBO, err = trainer.MeanELBO(ctx, evaluationDraws); err != nil {
		return Outcome{}, err
	}
	o.LogEvidence = data.LogEvidence(o.Theta)
	truth := Truth(run.Dims)
	o.DeltaErr, o.SigmaErr = truth.SquaredErrors(o.Theta)
	best := data.MaximumLikelihood()
	o.MLEDeltaErr, o.MLESigmaErr = truth.SquaredErrors(best)
	o.MLELogEvidence = data.LogEvidence(best)
	if bad := o.ELBO + o.LogEvidence + o.DeltaErr + o.SigmaErr; math.IsNaN(bad) || math.IsInf(bad, 0) {
		return Outcome{}, fmt.Errorf("%s on dataset %d, d = %d, ended after %d iterations with the ELBO %v and log p(D) %v; the parameters there:%s\ntry a smaller -lr",
			run.Method, run.Dataset+1, run.Dims, c.Iterations, o.ELBO, o.LogEvidence, describe(method.Params()))
	}
	return o, nil
}

// describe lists parameters for an error message, a line each.
func describe(params []*Param) string {
	var b strings.Builder
	for _, p := range params {
		fmt.Fprintf(&b, "\n  %s = %.5g", p.Name, p.Value.Data)
	}
	return b.String()
}
