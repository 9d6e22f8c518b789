package model

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/linalg/random"
)

// An Estimate holds the results of importance sampling for one image.
type Estimate struct {
	ELBO        float64 // the mean of log p̂_θ(x) over the draws
	LogEvidence float64 // log p_θ(x) from the same draws (hvae.ImportanceEstimate)
	TailShape   float64 // of the weights; see hvae.Evidence

	// For an HVAE, the mean absolute correlation between the dimensions of the draws, at the
	// beginning of the flow and at its end.
	Z0, ZK float64
}

// drawsAtOnce is the number of importance samples of an image that share a tape, a multiple
// of the vector length. Memory does not depend on the total number.
const drawsAtOnce = 48

// Evaluate estimates the evidence of n images by importance sampling with the given number of
// draws for each, on all cores. fill sets x [784×1] to an image and resets k to the stream of
// its noise. Several goroutines call fill, and done after each image. If ctx ends first,
// Evaluate returns ctx's error at once.
func Evaluate[T linalg.Float](ctx context.Context, c Config, params []Param[T], n, draws int,
	fill func(image int, x linalg.Matrix[T], k *random.Keyed), done func()) ([]Estimate, error) {
	estimates := make([]Estimate, n)
	err := forEach(ctx, n, func(t *ad.Tape[T]) func(i int) {
		logs := make([]float64, draws)
		var stream random.Keyed
		var z0, zK moments[T]
		return func(i int) {
			x := linalg.New[T](pixels, 1)
			fill(i, x, &stream)
			logEstimates(logs, t, c, params, x, stream.Rand, &z0, &zK)
			sum := 0.0
			for _, l := range logs {
				sum += l
			}
			evidence := hvae.ImportanceEstimate(logs)
			estimates[i] = Estimate{ELBO: sum / float64(draws), LogEvidence: evidence.Log, TailShape: evidence.TailShape}
			if c.K > 0 {
				estimates[i].Z0, estimates[i].ZK = z0.correlation(draws), zK.correlation(draws)
			}
			done()
		}
	})
	return estimates, err
}

// logEstimates fills logs with draws of log p̂_θ(x) for an image x [784×1] and, for an HVAE,
// sets z0 and zK to the moments of the draws' first and last positions.
func logEstimates[T linalg.Float](logs []float64, t *ad.Tape[T], c Config, params []Param[T], x linalg.Matrix[T], rng *rand.Rand, z0, zK *moments[T]) {
	var mean, std linalg.Matrix[T]
	for lo := 0; lo < len(logs); lo += drawsAtOnce {
		n := min(drawsAtOnce, len(logs)-lo)
		t.Reset()
		network, _ := NewNetwork(t, c, params, false)
		image := t.Const(x)
		if lo == 0 {
			m, s := network.Encode(image)
			mean, std = m.Value.Clone(), s.Value.Clone()
		}
		epsilon, gamma0 := hvae.Noise(t, rng, mean.Rows, n), hvae.Noise(t, rng, mean.Rows, n)
		s := network.draw(image, t.Const(mean), t.Const(std), epsilon, gamma0)
		for j, v := range s.LogEstimate().Value.Data {
			logs[lo+j] = float64(v)
		}
		if c.K > 0 {
			z0.add(t, lo == 0, s.Start.Z.Value, mean)
			zK.add(t, lo == 0, s.End.Z.Value, mean)
		}
	}
}

// forEach calls newTask on each core, with a separate tape, and calls the tasks with 0 … n−1 in
// parallel. If ctx ends first, it interrupts the tapes and returns ctx's error.
func forEach[T linalg.Float](ctx context.Context, n int, newTask func(t *ad.Tape[T]) (task func(i int))) error {
	var next atomic.Int64
	linalg.For(min(n, runtime.GOMAXPROCS(0)), 1, func(int, int) {
		defer ad.RecoverInterrupt()
		task := newTask(&ad.Tape[T]{Interrupt: ctx.Done()})
		for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
			task(i)
		}
	})
	return ctx.Err()
}

// MeanSD returns the mean and the sample standard deviation of x, which is NaN for one value.
func MeanSD(x []float64) (mean, sd float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		sd += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(sd / float64(len(x)-1))
}

// Generate returns pixel probabilities [784×n] for n draws z ~ N(0, I).
func Generate[T linalg.Float](c Config, params []Param[T], n int, seed uint64) linalg.Matrix[T] {
	var t ad.Tape[T]
	network, _ := NewNetwork(&t, c, params, false)
	return probabilities(network.Decode(hvae.Noise(&t, random.Stream(seed, "mnist sample"), c.Latent, n)))
}

// A Step describes the position z_k on the path of a flow, for each of B images.
type Step[T linalg.Float] struct {
	Image    linalg.Matrix[T] // pixel probabilities π_θ(z_k) [784×B]
	LogJoint linalg.Matrix[T] // log p_θ(x, z_k) [1×B]
}

// Reconstruct returns reconstructions of images x [784×B]: the pixel probabilities [784×B]
// at the mean of the variational prior, and a Step for each position z_0 … z_K of the flow
// from one draw of z_0. A VAE has the position z_0 only.
func Reconstruct[T linalg.Float](c Config, params []Param[T], x linalg.Matrix[T], seed uint64) (fromMean linalg.Matrix[T], path []Step[T]) {
	var t ad.Tape[T]
	network, _ := NewNetwork(&t, c, params, false)
	images := t.Const(x)
	mean, std := network.Encode(images)
	rng := random.Stream(seed, "mnist reconstruct")
	epsilon, gamma0 := hvae.Noise(&t, rng, c.Latent, x.Cols), hvae.Noise(&t, rng, c.Latent, x.Cols)
	start := network.draw(images, mean, std, epsilon, gamma0).Start
	flow := network.Flow(images)
	for _, s := range flow.Path(start) {
		path = append(path, Step[T]{probabilities(network.Decode(s.Z)), s.LogJoint(flow.Target).Value.Clone()})
	}
	return probabilities(network.Decode(mean)), path
}

func probabilities[T linalg.Float](logits *ad.Var[T]) linalg.Matrix[T] {
	return linalg.Of(logits.Rows(), logits.Cols(), slices.Clone(ad.Sigmoid(logits).Value.Data))
}
