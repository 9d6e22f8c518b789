package model

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync/atomic"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/linalg/random"
)

// An Estimate holds the results of importance sampling for one image.
type Estimate struct {
	ELBO        float64 // mean of log p̂_θ(x) over the samples
	LogEvidence float64 // estimate of log p_θ(x) from the same samples (hvae.ImportanceEstimate)
	TailShape   float64 // tail shape of the importance weights (hvae.Evidence)
	Z0, ZK      float64 // for K > 0: mean |correlation| of two dimensions of z₀, and of two dimensions of z_K
}

// samplesAtOnce is the number of importance samples or Markov chains that share a tape. It is a multiple
// of the SIMD vector length.
const samplesAtOnce = 48

// Evaluate estimates the evidence of each image (column of x [784×n]) by importance sampling with the given
// number of samples. The function noise returns the random stream for an image. Evaluate calls the function
// done after each image. Both functions must be safe for concurrent use. Apart from a few
// numbers for each sample, the memory does not depend on the number of samples. Evaluate tests ctx before
// every 48 samples and returns ctx's error if ctx is done.
func Evaluate[T linalg.Float](ctx context.Context, c Config, params []Param[T], x linalg.Matrix[T], samples int,
	noise func(image int) *rand.Rand, done func()) ([]Estimate, error) {
	estimates := make([]Estimate, x.Cols)
	err := forEach(ctx, x.Cols, func(t *ad.Tape[T], i int) {
		estimates[i] = estimate(ctx, t, c, params, columns(x, i, i+1, 1), samples, noise(i))
		done()
	})
	return estimates, err
}

// estimate returns the Estimate for an image x [784×1] with noise from rng. If ctx is done, the result is
// incomplete.
func estimate[T linalg.Float](ctx context.Context, t *ad.Tape[T], c Config, params []Param[T], x linalg.Matrix[T], samples int, rng *rand.Rand) (e Estimate) {
	var logs []float64
	var mean, std linalg.Matrix[T]
	var z0, zK moments[T]
	for len(logs) < samples {
		if ctx.Err() != nil {
			return e
		}
		n := min(samplesAtOnce, samples-len(logs))
		t.Reset()
		network := NewNetwork(c, Vars(t.Const, params))
		image := t.Const(x)
		if len(logs) == 0 {
			m, s := network.Encode(image)
			mean, std = m.Value.Clone(), s.Value.Clone()
		}
		epsilon, gamma0 := hvae.Noise(t, rng, c.Latent, n), hvae.Noise(t, rng, c.Latent, n)
		s := network.Draw(image, t.Const(mean), t.Const(std), epsilon, gamma0)
		for _, v := range s.LogEstimate().Value.Data {
			logs = append(logs, float64(v))
			e.ELBO += float64(v)
		}
		if c.K > 0 {
			z0.add(t, s.Start.Z.Value, mean)
			zK.add(t, s.End.Z.Value, mean)
		}
	}
	evidence := hvae.ImportanceEstimate(logs)
	e.ELBO, e.LogEvidence, e.TailShape = e.ELBO/float64(samples), evidence.Log, evidence.TailShape
	if c.K > 0 {
		e.Z0, e.ZK = z0.correlation(samples), zK.correlation(samples)
	}
	return e
}

// forEach calls task(t, i) once for each i = 0 … n−1, on all cores. Concurrent calls have separate tapes.
// If ctx is done, forEach makes no further calls and returns ctx's error.
func forEach[T linalg.Float](ctx context.Context, n int, task func(t *ad.Tape[T], i int)) error {
	var next atomic.Int64
	linalg.For(min(n, runtime.GOMAXPROCS(0)), 1, func(int, int) {
		var t ad.Tape[T]
		for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
			task(&t, i)
		}
	})
	return ctx.Err()
}

// Generate returns the pixel probabilities [784×n] of n images drawn from the model.
func Generate[T linalg.Float](c Config, params []Param[T], n int, seed uint64) linalg.Matrix[T] {
	var t ad.Tape[T]
	network := NewNetwork(c, Vars(t.Const, params))
	z := hvae.Noise(&t, random.Stream(seed, "mnist sample"), c.Latent, n)
	return ad.Sigmoid(network.Decode(z)).Value
}

// A Step describes a position z_k of the flow for each of B images.
type Step[T linalg.Float] struct {
	Image    linalg.Matrix[T] // pixel probabilities π_θ(z_k) [784×B]
	LogJoint linalg.Matrix[T] // log p_θ(x, z_k) [1×B]
}

// Reconstruct returns two kinds of reconstructions of images x [784×B]. fromMean holds the pixel
// probabilities [784×B] at the mean of the variational prior. path contains a Step for each position
// z_0 … z_K of the flow, where z_0 is a draw from the variational prior. For a VAE, K = 0.
func Reconstruct[T linalg.Float](c Config, params []Param[T], x linalg.Matrix[T], seed uint64) (fromMean linalg.Matrix[T], path []Step[T]) {
	var t ad.Tape[T]
	network := NewNetwork(c, Vars(t.Const, params))
	images := t.Const(x)
	mean, std := network.Encode(images)
	rng := random.Stream(seed, "mnist reconstruct")
	epsilon, gamma0 := hvae.Noise(&t, rng, c.Latent, x.Cols), hvae.Noise(&t, rng, c.Latent, x.Cols)
	start := network.Draw(images, mean, std, epsilon, gamma0).Start
	flow := network.Flow(images)
	for _, s := range flow.Path(start) {
		path = append(path, Step[T]{ad.Sigmoid(network.Decode(s.Z)).Value, flow.Target.LogJoint(s.Z).Value})
	}
	return ad.Sigmoid(network.Decode(mean)).Value, path
}
