package model

import (
	"context"
	"math"
	"runtime"
	"slices"
	"sync/atomic"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
)

// An Estimate is what importance sampling says about one image: the ELBO, the mean of
// log p̂_θ(x), and log p_θ(x) from the same draws (hvae.ImportanceEstimate). Of an HVAE it
// has the correlations between dimensions of these draws, where the flow begins, z₀, and
// where it ends, z_K.
type Estimate struct {
	ELBO, LogEvidence float64
	TailShape         float64 // of the weights; see hvae.Evidence
	Z0, ZK            float64 // see correlation
}

// drawsAtOnce is how many importance samples of an image share a tape, whole vectors of
// them: memory does not grow with their number.
const drawsAtOnce = 48

// Evaluate estimates the evidence of n images by importance sampling with a number of
// draws each, on all cores. fill sets x [784×1] to an image and returns the stream of
// its noise. It calls done after each image, from several goroutines. If ctx ends first,
// it returns ctx's error at once.
func Evaluate[T linalg.Float](ctx context.Context, c Config, params []Param[T], n, draws int,
	fill func(image int, x linalg.Matrix[T], k *hvae.Keyed), done func()) ([]Estimate, error) {
	estimates := make([]Estimate, n)
	err := forEach(ctx, n, func(t *ad.Tape[T]) func(i int) {
		w := worker[T]{network: newNetwork[T](c)}
		logs := make([]float64, draws)
		return func(i int) {
			x := linalg.New[T](pixels, 1)
			fill(i, x, &w.stream)
			w.logEstimates(t, params, x, logs)
			sum := 0.0
			for _, l := range logs {
				sum += l
			}
			evidence := hvae.ImportanceEstimate(logs)
			estimates[i] = Estimate{ELBO: sum / float64(draws), LogEvidence: evidence.Log, TailShape: evidence.TailShape}
			if c.K > 0 {
				estimates[i].Z0, estimates[i].ZK = w.z0.correlation(draws), w.zK.correlation(draws)
			}
			done()
		}
	})
	return estimates, err
}

// logEstimates fills logs with draws of log p̂_θ(x) for an image x [784×1], their noise
// from the worker's stream, where it is now.
func (w *worker[T]) logEstimates(t *ad.Tape[T], params []Param[T], x linalg.Matrix[T], logs []float64) {
	var mean, std linalg.Matrix[T]
	rng := w.stream.Stream()
	for lo := 0; lo < len(logs); lo += drawsAtOnce {
		n := min(drawsAtOnce, len(logs)-lo)
		t.Reset()
		w.vars = variables(w.vars[:0], t, params, false)
		w.network.bind(w.vars, nil)
		image := t.Const(x)
		if lo == 0 {
			m, s := w.network.Encode(image)
			mean, std = m.Value.Clone(), s.Value.Clone()
		}
		epsilon, gamma0 := hvae.Noise(t, rng, mean.Rows, n), hvae.Noise(t, rng, mean.Rows, n)
		s := w.network.draw(image, t.Const(mean), t.Const(std), epsilon, gamma0)
		for j, v := range s.LogEstimate().Value.Data {
			logs[lo+j] = float64(v)
		}
		if w.network.config.K > 0 {
			w.z0.add(t, lo, s.Start.Z.Value, mean)
			w.zK.add(t, lo, s.End.Z.Value, mean)
		}
	}
}

// forEach makes a function with a separate tape for each core, and calls these functions with
// 0 to n-1 in parallel. If ctx ends first, it interrupts the tapes and returns ctx's error.
func forEach[T linalg.Float](ctx context.Context, n int, make func(t *ad.Tape[T]) func(i int)) error {
	var stop atomic.Bool
	defer context.AfterFunc(ctx, func() { stop.Store(true) })()
	var next atomic.Int64
	linalg.For(min(n, runtime.GOMAXPROCS(0)), 1, func(int, int) {
		defer func() {
			if p := recover(); p != nil && p != any(ad.Interrupted{}) {
				panic(p)
			}
		}()
		do := make(&ad.Tape[T]{Interrupt: &stop})
		for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
			do(i)
		}
	})
	return ctx.Err()
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
	network, _ := NewNetwork(&t, c, params, false)
	return probabilities(network.Decode(hvae.Noise(&t, hvae.Stream(seed, "mnist sample"), c.Latent, n)))
}

// A Step is a position on the path of a flow, for each of B images.
type Step[T linalg.Float] struct {
	Image    linalg.Matrix[T] // pixel probabilities π_θ(z_k), [784×B]
	LogJoint linalg.Matrix[T] // log p_θ(x, z_k), [1×B]
}

// Reconstruct returns reconstructions of images x [784×B]: the pixel probabilities [784×B]
// at the mean of the variational prior, as a VAE reconstructs, and those along the path
// z_0 … z_K of the Hamiltonian flow from one draw (for a VAE, at that draw).
func Reconstruct[T linalg.Float](c Config, params []Param[T], x linalg.Matrix[T], seed uint64) (fromMean linalg.Matrix[T], path []Step[T]) {
	var t ad.Tape[T]
	network, _ := NewNetwork(&t, c, params, false)
	images := t.Const(x)
	mean, std := network.Encode(images)
	rng := hvae.Stream(seed, "mnist reconstruct")
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
