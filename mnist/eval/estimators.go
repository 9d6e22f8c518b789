package eval

import (
	"context"
	"math/rand/v2"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/mnist/model"
)

// An estimate holds the results of importance sampling for one image.
type estimate struct {
	elbo        float64 // mean of log p̂_θ(x) over the samples
	logEvidence float64 // estimate of log p_θ(x) from the same samples (hvae.ImportanceEstimate)
	tailShape   float64 // tail shape of the importance weights (hvae.Evidence)
}

// samplesAtOnce is the number of importance samples, or of Markov chains, on one tape. It is a multiple of the SIMD
// vector length.
const samplesAtOnce = 48

// importance estimates the evidence of an image x [784×1] by importance sampling with noise from rng. Apart from one
// number per sample, memory use does not depend on the number of samples. If ctx is done, the result is incomplete.
func importance(ctx context.Context, t *ad.Tape[float32], c model.Checkpoint, x linalg.Matrix[float32], samples int, rng *rand.Rand) estimate {
	var logs []float64
	var mean, std linalg.Matrix[float32]
	for len(logs) < samples && ctx.Err() == nil {
		n := min(samplesAtOnce, samples-len(logs))
		t.Reset()
		network := model.NewNetwork(c.Config, model.Vars(t.Const, c.Params))
		image := t.Const(x)
		if len(logs) == 0 {
			m, s := network.Encode(image)
			mean, std = m.Value.Clone(), s.Value.Clone()
		}
		epsilon, gamma0 := hvae.Noise(t, rng, c.Config.Latent, n), hvae.Noise(t, rng, c.Config.Latent, n)
		for _, v := range network.Draw(image, t.Const(mean), t.Const(std), epsilon, gamma0).LogEstimate().Value.Data {
			logs = append(logs, float64(v))
		}
	}
	elbo := 0.0
	for _, l := range logs {
		elbo += l
	}
	e := hvae.ImportanceEstimate(logs)
	return estimate{elbo / float64(samples), e.Log, e.TailShape}
}

// each divides the columns 0, …, 0, 1, …, 1, …, n − 1, where each number occurs the given number of times, into blocks
// of the given size. It calls f once for each block, on all cores, but stops when ctx is done.
func each(ctx context.Context, n, times, size int, f func(b *hvae.Block[float32])) {
	var columns []int
	for i := range n * times {
		columns = append(columns, i/times)
	}
	e := hvae.Evaluator[float32]{BlockSize: size}
	e.Each(ctx, columns, 0, f) // returns only ctx's error
}

// An Annealing holds the settings of annealed importance sampling (hvae.AIS) from the encoder's variational
// prior to the posterior. Its bounds on the evidence do not use the flow, so they are an independent check
// of the flow's estimates.
type Annealing struct {
	Steps  int // K, the number of steps from the prior to the posterior
	Chains int // number of Markov chains for each image
}

const leapfrogs = 5 // number of leapfrog steps of a Markov kernel

// tune returns step sizes for the a.Steps − 1 Markov kernels. It runs one chain for each image of x [784×n], with
// random numbers from stream(image). Bound must use other streams and images, because its bounds would otherwise be
// biased.
func (a Annealing) tune(ctx context.Context, c model.Checkpoint, x linalg.Matrix[float32], stream func(image ...int) *rand.Rand) []float64 {
	const kernels = 50 // if Steps is small, repeat the kernels until a chain has applied about this many
	var streams []*rand.Rand
	for i := range x.Cols {
		streams = append(streams, stream(i))
	}
	stepSizes, _ := a.sampler(c, x, nil).Tune(ctx, streams, 1+kernels/a.Steps) // returns only ctx's error
	return stepSizes
}

// Bound returns a stochastic bound on log p_θ(x) for each image of x [784×n]:
//
//	z empty   log mean p̂_θ(x), a lower bound
//	z given   −log mean 1/p̂_θ(x), an upper bound
//
// The means are over the chains of an image. If z [ℓ×n] is given, its columns must be exact draws from the posterior.
// The chains then start from these draws. Bound also returns the mean acceptance rate of the kernels, or NaN if Steps
// is 1.
//
// Each chain draws its random numbers from stream(image, chain). The chains run in blocks on all cores. After
// each block, Bound calls done with the number of chains in the block. Memory use does not depend on Steps. If ctx
// is done, the results are incomplete.
func (a Annealing) Bound(ctx context.Context, c model.Checkpoint, stepSizes []float64, x, z linalg.Matrix[float32],
	stream func(imageAndChain ...int) *rand.Rand, done func(chains int)) (bounds []float64, acceptance float64) {
	n, sign := x.Cols*a.Chains, 1.0
	if z.Cols > 0 {
		sign = -1
	}
	logs, rates := make([]float64, n), make([]float64, n)
	each(ctx, x.Cols, a.Chains, samplesAtOnce, func(b *hvae.Block[float32]) {
		ais := a.sampler(c, b.Columns(x).Value, stepSizes)
		var streams []*rand.Rand
		for j, image := range b.Batch {
			streams = append(streams, stream(image, (b.First+j)%a.Chains))
		}
		var end *hvae.Particles[float32]
		var l []float64
		var err error
		if z.Cols == 0 {
			end, l, err = ais.Forward(ctx, streams)
		} else {
			end, l, err = ais.Reverse(ctx, b.Columns(z).Value, streams)
		}
		if err != nil { // ctx is done
			return
		}
		for j := range l {
			logs[b.First+j], rates[b.First+j] = sign*l[j], end.Acceptance
		}
		done(len(l))
	})
	for i := range x.Cols {
		bounds = append(bounds, sign*hvae.ImportanceEstimate(logs[i*a.Chains:(i+1)*a.Chains]).Log)
	}
	acceptance, _ = linalg.MeanSE(rates)
	return bounds, acceptance
}

// sampler returns an AIS sampler with one chain for each column of x.
func (a Annealing) sampler(c model.Checkpoint, x linalg.Matrix[float32], stepSizes []float64) *hvae.AIS[float32] {
	network := func(t *ad.Tape[float32]) *model.Network[float32] {
		return model.NewNetwork(c.Config, model.Vars(t.Const, c.Params))
	}
	var t ad.Tape[float32]
	mean, std := network(&t).Encode(t.Const(x))
	return &hvae.AIS[float32]{
		Target: func(t *ad.Tape[float32]) hvae.Target[float32] { return network(t).Flow(t.Const(x)).Target },
		Mean:   mean.Value, SD: std.Value,
		Steps: a.Steps, Leapfrogs: leapfrogs, StepSizes: stepSizes,
	}
}
