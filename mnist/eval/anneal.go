package eval

import (
	"context"
	"math/rand/v2"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/mnist/model"
)

// An Annealing holds the settings of annealed importance sampling (hvae.AIS) from the encoder's variational
// prior to the posterior. Its bounds on the evidence do not use the flow, so they are an independent check
// of the flow's estimates.
type Annealing struct {
	Steps  int // K, the number of steps from the prior to the posterior
	Chains int // number of Markov chains for each image
}

const leapfrogs = 5 // number of leapfrog steps of a Markov kernel

// gradients returns the number of gradients ∇U that a chain evaluates.
func (a Annealing) gradients() int { return 1 + (a.Steps-1)*leapfrogs }

// tune returns step sizes of the K − 1 Markov kernels. It runs one chain for each image of x [784×n], with
// random numbers from stream(image). The bounds are biased if Bound uses the same streams or images.
func (a Annealing) tune(ctx context.Context, c model.Checkpoint, x linalg.Matrix[float32], stream func(image ...int) *rand.Rand) (stepSizes []float64, err error) {
	const kernels = 50 // if Steps is small, repeat the kernels until a chain has applied about this many
	var streams []*rand.Rand
	for i := range x.Cols {
		streams = append(streams, stream(i))
	}
	return a.sampler(new(ad.Tape[float32]), c, x, nil).Tune(ctx, streams, 1+kernels/a.Steps)
}

// Bound returns a stochastic bound on log p_θ(x) for each image of x [784×n]:
//
//	z empty   log mean p̂_θ(x), a lower bound
//	z given   −log mean 1/p̂_θ(x), an upper bound
//
// The means are over the chains of an image. If given, z [ℓ×n] must contain exact draws from the posterior,
// where the chains start. Bound also returns the mean acceptance rate of the kernels, or NaN if Steps is 1.
//
// Each chain draws its random numbers from stream(image, chain). The chains run in blocks on all cores. After
// each block, Bound calls done with the number of chains in the block. The memory does not depend on Steps.
func (a Annealing) Bound(ctx context.Context, c model.Checkpoint, stepSizes []float64, x, z linalg.Matrix[float32],
	stream func(imageAndChain ...int) *rand.Rand, done func(chains int)) (bounds []float64, acceptance float64, err error) {
	n, sign := x.Cols*a.Chains, 1.0
	if z.Cols > 0 {
		sign = -1
	}
	logs, rates := make([]float64, n), make([]float64, n)
	err = forEach(ctx, (n+samplesAtOnce-1)/samplesAtOnce, func(t *ad.Tape[float32], block int) {
		lo, hi := block*samplesAtOnce, min(n, (block+1)*samplesAtOnce)
		ais := a.sampler(t, c, columns(x, lo, hi, a.Chains), stepSizes)
		var streams []*rand.Rand
		for i := lo; i < hi; i++ {
			streams = append(streams, stream(i/a.Chains, i%a.Chains))
		}
		run := ais.Forward
		if z.Cols > 0 {
			run = func(ctx context.Context, streams []*rand.Rand) (*hvae.Particles[float32], []float64, error) {
				return ais.Reverse(ctx, columns(z, lo, hi, a.Chains), streams)
			}
		}
		end, l, err := run(ctx, streams)
		if err != nil { // forEach returns the error
			return
		}
		for i := range l {
			logs[lo+i], rates[lo+i] = sign*l[i], end.Acceptance()
		}
		done(hi - lo)
	})
	if err != nil {
		return nil, 0, err
	}
	for i := range x.Cols {
		bounds = append(bounds, sign*hvae.ImportanceEstimate(logs[i*a.Chains:(i+1)*a.Chains]).Log)
	}
	acceptance, _ = MeanSD(rates)
	return bounds, acceptance, nil
}

// sampler returns an AIS sampler with one chain for each column of x.
func (a Annealing) sampler(t *ad.Tape[float32], c model.Checkpoint, x linalg.Matrix[float32], stepSizes []float64) *hvae.AIS[float32] {
	network := func(t *ad.Tape[float32]) *model.Network[float32] {
		return model.NewNetwork(c.Config, model.Vars(t.Const, c.Params))
	}
	t.Reset()
	mean, std := network(t).Encode(t.Const(x))
	return &hvae.AIS[float32]{
		Tape:   t,
		Target: func(t *ad.Tape[float32]) hvae.Target[float32] { return network(t).Flow(t.Const(x)).Target },
		Mean:   mean.Value.Clone(), SD: std.Value.Clone(),
		Steps: a.Steps, Leapfrogs: leapfrogs, StepSizes: stepSizes,
	}
}
