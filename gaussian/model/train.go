package model

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/linalg/numeric"
	"hvae/linalg/random"
)

// NewTrainer returns a trainer that maximises the ELBO of m with RMSProp. Because each estimate of the ELBO uses the
// whole dataset, a batch consists of draws of the noise (hvae.Draws), not of data points.
func NewTrainer(m *Method, rate float64, seed uint64) *hvae.Trainer[float64] {
	t := hvae.NewTrainer(m.Params, hvae.RMSProp[float64]{Rate: rate}, func(b *hvae.Block[float64]) *ad.Var[float64] {
		param := func(i int) *ad.Var[float64] { return b.Var(m.Params[i]) }
		return ad.BroadcastTo(m.ELBO(param, b.Noise(m.NoiseRows, 1)), 1, b.Size)
	})
	t.BlockSize = 100
	t.Seed = seed
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

// Train trains a method on dataset number k in d dimensions. All methods are trained on the same datasets. Except for
// Seconds, the outcome depends only on c, method, d and k. Train calls progress before each iteration. If training
// fails, the error contains method, d and k + 1, because messages number the datasets from 1.
func (c Config) Train(ctx context.Context, method string, d, k int, progress func()) (o Outcome, err error) {
	start := time.Now()
	stream := func(use string) *rand.Rand { return random.Stream(c.Seed, "gaussian "+use, d, k) }
	truth := Truth(d)
	data := Draw(truth, c.Points, stream("data"))
	m := NewMethod(method, data, stream("start "+method))
	trainer := NewTrainer(m, c.Rate, stream("noise "+method).Uint64())
	for err == nil && trainer.Steps() < c.Iterations {
		progress()
		_, err = trainer.Step(ctx, hvae.Draws(c.Draws))
	}
	if err == nil {
		o.ELBO, _, err = trainer.Evaluate(ctx, hvae.Draws(10_000), trainer.Seed, trainer.Bound)
	}
	if err != nil {
		return o, fmt.Errorf("%s on dataset %d (d = %d) failed after %d iterations: %w; if it diverged, try a smaller -lr",
			method, k+1, d, trainer.Steps(), err)
	}
	o.Method = method
	o.Dims = d
	sigma := linalg.New[float64](d, 1)
	linalg.Exp(sigma, m.Params[1].Value)
	o.Theta = Theta{m.Params[0].Value.Data, sigma.Data}
	o.DeltaErr = numeric.SquaredDistance(o.Theta.Delta, truth.Delta)
	o.SigmaErr = numeric.SquaredDistance(o.Theta.Sigma, truth.Sigma)
	o.Err = o.DeltaErr + o.SigmaErr
	o.LogEvidence = data.LogEvidence(o.Theta)
	o.Gap = o.LogEvidence - o.ELBO
	o.TiedLimit = data.TiedLimit(o.Theta)
	best := data.MaximumLikelihood()
	o.MLEDeltaErr = numeric.SquaredDistance(best.Delta, truth.Delta)
	o.MLESigmaErr = numeric.SquaredDistance(best.Sigma, truth.Sigma)
	o.MLEEvidence = data.LogEvidence(best)
	o.Seconds = time.Since(start).Seconds()
	return o, nil
}

// An Outcome is the result of training a method on a dataset, or the average of such results over datasets.
type Outcome struct {
	Method      string  `json:"method"`
	Dims        int     `json:"d"`
	Datasets    int     `json:"datasets"`         // number of averaged datasets
	DeltaErr    float64 `json:"delta_err"`        // ‖Δ − Δ̂‖²
	SigmaErr    float64 `json:"sigma_err"`        // ‖σ − σ̂‖²
	Err         float64 `json:"err"`              // ‖Δ − Δ̂‖² + ‖σ − σ̂‖²
	ErrSE       float64 `json:"err_se,omitzero"`  // standard error of Err, estimated from the datasets
	ELBO        float64 `json:"elbo"`             // ELBO at θ̂, averaged over 10,000 draws
	LogEvidence float64 `json:"log_evidence"`     // exact log p_θ̂(D)
	Gap         float64 `json:"gap"`              // LogEvidence − ELBO
	TiedLimit   float64 `json:"tied_limit"`       // lower bound on the gap of an HVAE with tied tempering at θ̂
	MLEDeltaErr float64 `json:"mle_delta_err"`    // DeltaErr of the maximum-likelihood estimate
	MLESigmaErr float64 `json:"mle_sigma_err"`    // SigmaErr of the maximum-likelihood estimate
	MLEEvidence float64 `json:"mle_log_evidence"` // log p(D) for the maximum-likelihood estimate
	Seconds     float64 `json:"seconds"`          // total training and evaluation time

	Theta Theta `json:"-"` // θ̂; not averaged
}

// numbers returns pointers to all numeric results in o except ErrSE.
func (o *Outcome) numbers() []*float64 {
	return []*float64{&o.Err, &o.DeltaErr, &o.SigmaErr, &o.ELBO, &o.LogEvidence, &o.Gap, &o.TiedLimit,
		&o.MLEDeltaErr, &o.MLESigmaErr, &o.MLEEvidence, &o.Seconds}
}

// Average returns an Outcome with the means over datasets, the standard error of Err, and the total running time.
func Average(outcomes []Outcome) Outcome {
	mean := Outcome{Method: outcomes[0].Method, Dims: outcomes[0].Dims, Datasets: len(outcomes)}
	for i, number := range mean.numbers() {
		var values []float64
		for _, o := range outcomes {
			values = append(values, *o.numbers()[i])
		}
		average, se := numeric.MeanSE(values)
		*number = average
		if number == &mean.Err && len(outcomes) > 1 {
			mean.ErrSE = se
		}
	}
	mean.Seconds *= float64(len(outcomes))
	return mean
}
