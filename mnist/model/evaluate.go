package model

import (
	"context"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
)

// An Estimate is what importance sampling says about one image: the ELBO, the mean of
// log p̂_θ(x), and log p_θ(x) from the same draws (hvae.ImportanceEstimate).
type Estimate struct{ ELBO, LogEvidence float64 }

// drawsAtOnce is how many importance samples of an image share a tape, whole vectors of
// them: memory does not grow with their number.
const drawsAtOnce = 48

// Evaluate estimates the evidence of n images by importance sampling with a number of
// draws each, on all cores. fill sets x [784×1] to an image and returns the stream of
// its noise. It calls done after each image, from several goroutines, and returns ctx's
// error if ctx ends first.
func Evaluate[T linalg.Float](ctx context.Context, c Config, params []Param[T], n, draws int,
	fill func(image int, x linalg.Matrix[T], k *hvae.Keyed), done func()) ([]Estimate, error) {
	estimates := make([]Estimate, n)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			var w worker[T]
			logs := make([]float64, draws)
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				estimates[i] = w.estimate(c, params, logs, func(x linalg.Matrix[T]) { fill(i, x, &w.stream) })
				done()
			}
		})
	}
	wg.Wait()
	return estimates, ctx.Err()
}

// estimate fills logs with log p̂_θ(x) of one image and summarises them.
func (w *worker[T]) estimate(c Config, params []Param[T], logs []float64, fill func(x linalg.Matrix[T])) Estimate {
	var mean, std linalg.Matrix[T]
	x := linalg.New[T](pixels, 1)
	fill(x)
	rng := w.stream.Stream()
	for lo := 0; lo < len(logs); lo += drawsAtOnce {
		n := min(drawsAtOnce, len(logs)-lo)
		w.tape.Reset()
		w.leaves = w.network.Bind(&w.tape, c, params, false, w.leaves)
		image := w.tape.Const(x)
		if lo == 0 {
			m, s := w.network.Encode(image)
			mean, std = m.Value.Clone(), s.Value.Clone()
		}
		epsilon, gamma0 := w.tape.Matrix(c.Latent, n), w.tape.Matrix(c.Latent, n)
		hvae.FillNormal(rng, epsilon)
		hvae.FillNormal(rng, gamma0)
		l := w.network.LogEstimates(image, w.tape.Const(mean), w.tape.Const(std), w.tape.Const(epsilon), w.tape.Const(gamma0))
		for j, v := range l.Value.Data {
			logs[lo+j] = float64(v)
		}
	}
	sum := 0.0
	for _, l := range logs {
		sum += l
	}
	logEvidence, _ := hvae.ImportanceEstimate(logs)
	return Estimate{sum / float64(len(logs)), logEvidence}
}

// MeanSD returns the mean of x and its sample standard deviation, NaN for one value.
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
	var network Network[T]
	network.Bind(&t, c, params, false, nil)
	z := t.Matrix(c.Latent, n)
	hvae.FillNormal(hvae.Stream(seed, "mnist sample"), z)
	return probabilities(network.Decode(t.Const(z)))
}

// Reconstruct returns two reconstructions [784×B] of images x [784×B] as pixel
// probabilities: from the mean of the variational prior, as a VAE reconstructs, and from
// the position at which the Hamiltonian flow of one draw ends (for a VAE, from that draw).
func Reconstruct[T linalg.Float](c Config, params []Param[T], x linalg.Matrix[T], seed uint64) (fromMean, fromFlow linalg.Matrix[T]) {
	var t ad.Tape[T]
	var network Network[T]
	network.Bind(&t, c, params, false, nil)
	mean, std := network.Encode(t.Const(x))
	epsilon, gamma0 := t.Matrix(c.Latent, x.Cols), t.Matrix(c.Latent, x.Cols)
	rng := hvae.Stream(seed, "mnist reconstruct")
	hvae.FillNormal(rng, epsilon)
	hvae.FillNormal(rng, gamma0)
	sample := hvae.HIS(network.Flow(t.Const(x)), reparameterise(mean, std, t.Const(epsilon)), t.Fill(1, x.Cols, 0), t.Const(gamma0))
	return probabilities(network.Decode(mean)), probabilities(network.Decode(sample.End.Z))
}

func probabilities[T linalg.Float](logits *ad.Var[T]) linalg.Matrix[T] {
	return linalg.Of(logits.Rows(), logits.Cols(), slices.Clone(ad.Sigmoid(logits).Value.Data))
}
