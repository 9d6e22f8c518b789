package model

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/linalg/random"
)

// A Trainer trains the parameters of a method with Algorithm 2. The batch has a single element, the
// dataset. Each ELBO is averaged over several draws of the noise.
type Trainer struct {
	method    *Method
	draws     int
	rng       *rand.Rand
	noise     linalg.Matrix[float64] // current noise [NoiseRows×draws]
	algorithm *hvae.Trainer[float64]
}

var oneDataset = []int{0} // the batch; a variable, so that a step does not allocate it

// NewTrainer returns a trainer that maximises the ELBO with RMSProp. Each step averages the ELBO
// over the given number of draws.
func NewTrainer(m *Method, draws int, rate float64, rng *rand.Rand) *Trainer {
	t := &Trainer{method: m, draws: draws, rng: rng}
	t.algorithm = hvae.NewTrainer(m.Params, RMSProp{rate}, func(b *hvae.Block[float64]) *ad.Var[float64] {
		return ad.Mean(m.ELBO(b.Params, b.Tape.Const(t.noise)))
	})
	return t
}

// Step estimates the ELBO and its gradient, and updates the parameters. If ctx is done, or if the ELBO
// or its gradient is not finite, Step returns an error and does not change the parameters.
func (t *Trainer) Step(ctx context.Context) error {
	t.draw(t.draws)
	_, err := t.algorithm.Step(ctx, oneDataset)
	return err
}

// draw replaces the noise with n new columns of draws from N(0, 1).
func (t *Trainer) draw(n int) {
	if t.noise.Cols != n {
		t.noise = linalg.New[float64](t.method.NoiseRows, n)
	}
	random.FillNormal(t.rng, t.noise)
}

// MeanELBO returns the ELBO for the current parameters, averaged over n draws. It returns an error
// if ctx is done or if an estimate is NaN.
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

// RMSProp is gradient ascent that divides the gradient by its running root mean square (Tieleman and
// Hinton, lecture 6.5, 2012). It computes the same steps as ApplyRMSProp of TensorFlow 1 without momentum,
//
//	v ← decay·v + (1 − decay)·g²,   θ ← θ + rate·g/√(v + ε),
//
// with decay = 0.9 and ε = 1e-10. As in TensorFlow, v starts at 1.
type RMSProp struct{ Rate float64 }

// Start implements hvae.Optimiser.
func (RMSProp) Start() []float64 { return []float64{1} }

// Ascend implements hvae.Optimiser.
func (o RMSProp) Ascend(_ int, theta, gradient []float64, averages [][]float64) {
	decay, epsilon := 0.9, 1e-10 // not constants, so that 1 − decay is computed in float64
	v := averages[0]
	for j, g := range gradient {
		v[j] = decay*v[j] + (1-decay)*g*g
		theta[j] += o.Rate * g / math.Sqrt(v[j]+epsilon)
	}
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
	Beta0       float64 // inverse temperature β₀, NaN for methods other than HVAE
	ELBO        float64 // ELBO at θ̂, averaged over 10,000 draws
	LogEvidence float64 // exact log p_θ̂(D)

	DeltaErr, SigmaErr       float64 // ‖Δ − Δ̂‖², ‖σ − σ̂‖²
	MLEDeltaErr, MLESigmaErr float64 // the same errors for the maximum-likelihood estimate
	MLELogEvidence           float64 // log p(D) for the maximum-likelihood estimate
}

// Dataset returns the d-dimensional dataset with the given number, counted from 0. The result depends only
// on d, dataset, c.Points and c.Seed, so all methods are trained on the same datasets.
func (c Config) Dataset(d, dataset int) Data {
	return Draw(Truth(d), c.Points, random.Stream(c.Seed, "gaussian data", d, dataset))
}

// Train trains a method on a dataset. The outcome depends only on c and run. Before each group of at
// most 100 iterations, Train calls progress with the number of iterations in the group. If ctx is done,
// Train returns ctx.Err(). If training diverges, Train returns an error that describes the run, the
// iteration and the parameters.
func (c Config) Train(ctx context.Context, run Run, progress func(iterations int)) (Outcome, error) {
	data := c.Dataset(run.Dims, run.Dataset)
	method := NewMethod(run.Method, data, random.Stream(c.Seed, "gaussian start "+run.Method, run.Dims, run.Dataset))
	trainer := NewTrainer(method, c.Draws, c.Rate, random.Stream(c.Seed, "gaussian noise "+run.Method, run.Dims, run.Dataset))
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
			progress(min(stride, c.Iterations-i))
		}
		if err := trainer.Step(ctx); err != nil {
			return failed(fmt.Errorf("at iteration %d: %w", i+1, err))
		}
	}
	elbo, err := trainer.MeanELBO(ctx, 10_000)
	if err != nil {
		return failed(fmt.Errorf("after %d iterations: %w", c.Iterations, err))
	}
	sigma := linalg.New[float64](run.Dims, 1)
	linalg.Exp(sigma, method.Params[1].Value)
	o := Outcome{Theta: Theta{method.Params[0].Value.Data, sigma.Data}, Beta0: method.Beta0(), ELBO: elbo}
	truth, best := Truth(run.Dims), data.MaximumLikelihood()
	o.LogEvidence, o.MLELogEvidence = data.LogEvidence(o.Theta), data.LogEvidence(best)
	o.DeltaErr, o.SigmaErr = squaredDistance(truth.Delta, o.Theta.Delta), squaredDistance(truth.Sigma, o.Theta.Sigma)
	o.MLEDeltaErr, o.MLESigmaErr = squaredDistance(truth.Delta, best.Delta), squaredDistance(truth.Sigma, best.Sigma)
	if bad := o.ELBO + o.LogEvidence + o.DeltaErr + o.SigmaErr; math.IsNaN(bad) || math.IsInf(bad, 0) {
		return failed(fmt.Errorf("after %d iterations: the ELBO is %v and log p(D) is %v", c.Iterations, o.ELBO, o.LogEvidence))
	}
	return o, nil
}
