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

// A Trainer takes optimiser steps on a method's parameters. It serves one goroutine,
// and after the first step it allocates nothing.
type Trainer struct {
	method    Method
	draws     int
	rng       *rand.Rand
	optimiser hvae.Optimiser[float64]

	tape   ad.Tape[float64]
	leaves []*ad.Var[float64]
	params []linalg.Matrix[float64]
	grads  []linalg.Matrix[float64]
}

// NewTrainer returns a trainer that averages the ELBO over a number of draws in each
// step and climbs it by RMSProp.
func NewTrainer(m Method, draws int, rate float64, rng *rand.Rand) *Trainer {
	t := &Trainer{method: m, draws: draws, rng: rng, optimiser: hvae.NewRMSProp(rate)}
	for _, p := range m.Params() {
		t.params = append(t.params, p.Value)
	}
	t.leaves = make([]*ad.Var[float64], len(t.params))
	t.grads = make([]linalg.Matrix[float64], len(t.params))
	return t
}

// Step estimates the ELBO and its gradient and updates the parameters. If either is
// not finite it leaves the parameters as they are and returns an error that says what
// the bound was.
func (t *Trainer) Step() error {
	elbo := ad.Mean(t.bound(t.draws))
	ad.Backward(elbo, t.leaves...)
	bound := elbo.Scalar()
	check := bound - bound // NaN if the bound is not finite, else 0; likewise below
	for i, l := range t.leaves {
		t.grads[i] = l.Adjoint()
		for _, g := range t.grads[i].Data {
			check += g - g
		}
	}
	if check != 0 {
		return fmt.Errorf("the ELBO (%v) or its gradient is not finite", bound)
	}
	t.optimiser.Ascend(t.params, t.grads)
	return nil
}

// bound puts the method's ELBO at the current parameters on a fresh tape.
func (t *Trainer) bound(draws int) *ad.Var[float64] {
	t.tape.Reset()
	for i, p := range t.params {
		t.leaves[i] = t.tape.Leaf(p)
	}
	return t.method.ELBO(t.leaves, draws, t.rng)
}

// MeanELBO returns the ELBO at the current parameters, averaged over n draws.
func (t *Trainer) MeanELBO(n int) float64 {
	const batch = 100
	sum, done := 0.0, 0
	for done < n {
		b := min(batch, n-done)
		sum += ad.Mean(t.bound(b)).Scalar() * float64(b)
		done += b
	}
	return sum / float64(n)
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
			if ctx.Err() != nil {
				return Outcome{}, ctx.Err()
			}
			progress(min(stride, c.Iterations-i))
		}
		if err := trainer.Step(); err != nil {
			return Outcome{}, fmt.Errorf("%s on dataset %d, d = %d, diverged at iteration %d: %w; the parameters there:%s\ntry a smaller -lr",
				run.Method, run.Dataset+1, run.Dims, i+1, err, describe(method.Params()))
		}
	}
	o := Outcome{Theta: Estimate(method), Beta0: method.Beta0(), ELBO: trainer.MeanELBO(evaluationDraws)}
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
func describe(params []Param) string {
	var b strings.Builder
	for _, p := range params {
		fmt.Fprintf(&b, "\n  %s = %.5g", p.Name, p.Value.Data)
	}
	return b.String()
}
