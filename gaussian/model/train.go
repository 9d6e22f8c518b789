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
	"hvae/linalg/random"
)

// A Trainer trains the parameters of a method with Algorithm 2. Its batch has one column, the
// dataset, whose ELBO is averaged over draws of the noise.
type Trainer struct {
	method    Method
	draws     int
	rng       *rand.Rand
	noise     linalg.Matrix[float64] // of the current draws
	algorithm *hvae.Trainer[float64]
}

var oneDataset = []int{0} // the batch

// NewTrainer returns a trainer whose steps average the ELBO over the given number of draws and
// maximise it with RMSProp.
func NewTrainer(m Method, draws int, rate float64, rng *rand.Rand) *Trainer {
	t := &Trainer{method: m, draws: draws, rng: rng}
	t.algorithm = hvae.NewTrainer(m.Params(), RMSProp{rate}, func(b *hvae.Block[float64]) *ad.Var[float64] {
		return ad.Mean(m.ELBO(b.Params, b.Tape.Const(t.noise)))
	})
	return t
}

// Step estimates the ELBO and its gradient and updates the parameters. If the ELBO or its
// gradient is not finite, or ctx ends, Step returns the error of hvae.Trainer.Step and changes
// nothing.
func (t *Trainer) Step(ctx context.Context) error {
	t.draw(t.draws)
	_, err := t.algorithm.Step(ctx, oneDataset)
	return err
}

// draw draws the noise of n draws of the bound.
func (t *Trainer) draw(n int) {
	if t.noise.Data == nil || t.noise.Cols != n {
		t.noise = linalg.New[float64](t.method.NoiseRows(), n)
	}
	random.FillNormal(t.rng, t.noise)
}

// MeanELBO returns the ELBO for the current parameters, averaged over n draws, or ctx's error if
// ctx ends first.
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

// RMSProp is gradient ascent with the gradient divided by its running root mean square
// (Tieleman and Hinton, lecture 6.5, 2012). It computes the same steps as ApplyRMSProp of
// TensorFlow 1 without momentum, with decay = 0.9 and ε = 1e-10:
//
//	v ← decay·v + (1 − decay)·g²,   θ ← θ + rate·g/√(v + ε).
//
// The initial v is 1, as in TensorFlow, which keeps the first steps short.
type RMSProp struct{ Rate float64 }

// Start implements hvae.Optimiser.
func (RMSProp) Start() []float64 { return []float64{1} }

// Ascend implements hvae.Optimiser.
func (o RMSProp) Ascend(_ int, theta, gradient []float64, averages [][]float64) {
	decay, epsilon := 0.9, 1e-10 // variables, so that 1 − decay is rounded in float64
	v := averages[0]
	for j, g := range gradient {
		v[j] = decay*v[j] + (1-decay)*g*g
		theta[j] += o.Rate * g / math.Sqrt(v[j]+epsilon)
	}
}

// Config holds the settings of a run.
type Config struct {
	Points     int     // N, the number of points of a dataset
	Iterations int     // number of optimiser steps
	Draws      int     // number of draws averaged by each estimate of the ELBO
	Rate       float64 // learning rate
	Seed       uint64
}

// A Run identifies the training of one method on one dataset.
type Run struct {
	Dims    int
	Method  string
	Dataset int // number of the dataset, from 0
}

// An Outcome is the result of a run.
type Outcome struct {
	Theta       Theta   // θ̂
	Beta0       float64 // inverse temperature, NaN if the method has none
	ELBO        float64 // at θ̂, averaged over 10,000 draws
	LogEvidence float64 // log p_θ̂(D), exactly

	DeltaErr, SigmaErr       float64 // ‖Δ − Δ̂‖², ‖σ − σ̂‖²
	MLEDeltaErr, MLESigmaErr float64 // the same for the maximum-likelihood estimate
	MLELogEvidence           float64 // log p(D) for the maximum-likelihood estimate, its maximum
}

// Dataset returns a dataset in d dimensions, given its number from 0. All methods share it.
func (c Config) Dataset(d, dataset int) Data {
	return Draw(Truth(d), c.Points, random.Stream(c.Seed, "gaussian data", d, dataset))
}

// Train executes a run. The outcome depends only on c and run, not on concurrent runs. Before
// each group of 100 iterations, Train calls progress with the number of iterations in the
// group. It returns ctx's error if ctx ends first, and an error that describes the run, the
// iteration and the parameters if a bound is not finite.
func (c Config) Train(ctx context.Context, run Run, progress func(iterations int)) (Outcome, error) {
	data := c.Dataset(run.Dims, run.Dataset)
	method, err := NewMethod(run.Method, data, random.Stream(c.Seed, "gaussian start "+run.Method, run.Dims, run.Dataset))
	if err != nil {
		return Outcome{}, err
	}
	trainer := NewTrainer(method, c.Draws, c.Rate, random.Stream(c.Seed, "gaussian noise "+run.Method, run.Dims, run.Dataset))
	failed := func(format string, args ...any) (Outcome, error) {
		err := fmt.Errorf(format, args...)
		return Outcome{}, fmt.Errorf("%s on dataset %d, d = %d, %w; the parameters are%s\ntry a smaller -lr", run.Method, run.Dataset+1, run.Dims, err, describe(method.Params()))
	}
	const stride = 100
	for i := range c.Iterations {
		if i%stride == 0 {
			progress(min(stride, c.Iterations-i))
		}
		if err := trainer.Step(ctx); err != nil {
			if ctx.Err() != nil {
				return Outcome{}, ctx.Err()
			}
			return failed("diverged at iteration %d: %w", i+1, err)
		}
	}
	o := Outcome{Theta: Estimate(method), Beta0: method.Beta0()}
	if o.ELBO, err = trainer.MeanELBO(ctx, 10_000); err != nil {
		return Outcome{}, err
	}
	o.LogEvidence = data.LogEvidence(o.Theta)
	truth := Truth(run.Dims)
	o.DeltaErr, o.SigmaErr = truth.SquaredErrors(o.Theta)
	best := data.MaximumLikelihood()
	o.MLEDeltaErr, o.MLESigmaErr = truth.SquaredErrors(best)
	o.MLELogEvidence = data.LogEvidence(best)
	if bad := o.ELBO + o.LogEvidence + o.DeltaErr + o.SigmaErr; math.IsNaN(bad) || math.IsInf(bad, 0) {
		return failed("ended after %d iterations with the ELBO %v and log p(D) = %v", c.Iterations, o.ELBO, o.LogEvidence)
	}
	return o, nil
}

// describe lists parameters, one on each line.
func describe(params []*Param) string {
	var b strings.Builder
	for _, p := range params {
		fmt.Fprintf(&b, "\n  %s = %.5g", p.Name, p.Value.Data)
	}
	return b.String()
}
