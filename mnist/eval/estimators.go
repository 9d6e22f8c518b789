package eval

import (
	"context"
	"math/rand/v2"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/linalg/random"
	"hvae/mnist/model"
)

// An estimate holds the results for one image in one run.
type estimate struct {
	elbo         float64 // mean of log p̂_θ(x) over the samples
	logEvidence  float64 // estimate of log p_θ(x) from the same samples (hvae.ImportanceEstimate)
	tailShape    float64 // tail shape of the importance weights (hvae.Evidence)
	lower, upper float64 // bounds on log p_θ(x) from annealed importance sampling; upper is NaN unless x is simulated
}

// samplesAtOnce is the number of samples or Markov chains on one tape. It is a multiple of the SIMD vector length.
const samplesAtOnce = 48

// importance estimates the evidence of image x [784×1] by importance sampling with noise from rng. Apart from one
// number per sample, memory use does not depend on the number of samples. If ctx is done, the result is incomplete.
func importance(ctx context.Context, t *ad.Tape[float32], c model.Checkpoint, x linalg.Matrix[float32], samples int, rng *rand.Rand) estimate {
	var encoder ad.Tape[float32]
	mean, std := c.Const(&encoder).Encode(encoder.Const(x))
	var logs []float64
	for len(logs) < samples && ctx.Err() == nil {
		n := min(samplesAtOnce, samples-len(logs))
		t.Reset()
		epsilon, gamma0 := t.Matrix(c.Config.Latent, n), t.Matrix(c.Config.Latent, n)
		random.FillNormal(rng, epsilon)
		random.FillNormal(rng, gamma0)
		sample := c.Const(t).Draw(t.Const(x), t.Const(mean.Value), t.Const(std.Value), t.Const(epsilon), t.Const(gamma0))
		for _, v := range sample.LogEstimate().Value.Data {
			logs = append(logs, float64(v))
		}
	}
	elbo, _ := linalg.MeanSE(logs)
	e := hvae.ImportanceEstimate(logs)
	return estimate{elbo: elbo, logEvidence: e.Log, tailShape: e.TailShape}
}

// each divides the columns 0, …, 0, 1, …, 1, …, n − 1, where each number occurs the given number of times, into blocks
// of the given size. It calls f once for each block, on all cores, but stops when ctx is done.
func each(ctx context.Context, n, times, size int, f func(b *hvae.Block[float32])) {
	columns := make([]int, n*times)
	for i := range columns {
		columns[i] = i / times
	}
	e := hvae.Evaluator[float32]{BlockSize: size}
	e.Each(ctx, hvae.Columns(columns), 0, f) // returns only ctx's error
}

const leapfrogs = 5 // number of leapfrog steps of a Markov kernel

// tune returns step sizes for the o.Steps − 1 Markov kernels. It runs one chain for each image of x [784×n], with
// random numbers from stream(image). With the streams or images of tune, the results of Bound would be biased.
func (o Options) tune(ctx context.Context, c model.Checkpoint, x linalg.Matrix[float32], stream func(image ...int) *rand.Rand) []float64 {
	const kernels = 50 // if Steps is small, repeat the kernels until a chain has applied about this many
	var streams []*rand.Rand
	for i := range x.Cols {
		streams = append(streams, stream(i))
	}
	stepSizes, _ := o.sampler(c, x, nil).Tune(ctx, streams, 1+kernels/o.Steps) // returns only ctx's error
	return stepSizes
}

// Bound returns a stochastic bound on log p_θ(x) for each image of x [784×n]:
//
//	z empty   log mean p̂_θ(x), a lower bound
//	z given   −log mean 1/p̂_θ(x), an upper bound
//
// The means are over the chains of an image. If z [ℓ×n] is given, the chains start from its columns, which must be
// exact draws from the posterior. Bound also returns the mean acceptance rate of the kernels, or NaN if Steps is 1.
// Chains draw their random numbers from stream(image, chain) and run in blocks on all cores. After each block, Bound
// calls done with its number of chains. Memory use does not depend on Steps. If ctx is done, the results are partial.
func (o Options) Bound(ctx context.Context, c model.Checkpoint, stepSizes []float64, x, z linalg.Matrix[float32],
	stream func(imageAndChain ...int) *rand.Rand, done func(chains int)) (bounds []float64, acceptance float64) {
	n, sign := x.Cols*o.Chains, 1.0
	if z.Cols > 0 {
		sign = -1
	}
	logs, rates := make([]float64, n), make([]float64, n)
	each(ctx, x.Cols, o.Chains, samplesAtOnce, func(b *hvae.Block[float32]) {
		ais := o.sampler(c, b.Columns(x).Value, stepSizes)
		var streams []*rand.Rand
		for j, image := range b.Batch {
			streams = append(streams, stream(image, (b.First+j)%o.Chains))
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
		bounds = append(bounds, sign*hvae.ImportanceEstimate(logs[i*o.Chains:(i+1)*o.Chains]).Log)
	}
	acceptance, _ = linalg.MeanSE(rates)
	return bounds, acceptance
}

// sampler returns an AIS sampler with one chain for each column of x.
func (o Options) sampler(c model.Checkpoint, x linalg.Matrix[float32], stepSizes []float64) *hvae.AIS[float32] {
	var encoder ad.Tape[float32]
	mean, std := c.Const(&encoder).Encode(encoder.Const(x))
	return &hvae.AIS[float32]{
		Target: func(t *ad.Tape[float32]) hvae.Target[float32] { return c.Const(t).Flow(t.Const(x)).Target },
		Mean:   mean.Value, SD: std.Value,
		Steps: o.Steps, Leapfrogs: leapfrogs, StepSizes: stepSizes,
	}
}
