package model

import (
	"context"
	"math/rand/v2"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
)

// An Annealing holds the settings of annealed importance sampling (hvae.AIS) from the encoder's variational
// prior to the posterior. Its bounds on the evidence do not use the flow, so they are an independent check
// of the flow's estimates.
type Annealing struct {
	Steps     int       // K, the number of steps from the prior to the posterior
	Chains    int       // number of Markov chains for each image
	StepSizes []float64 // step sizes of the K − 1 Markov kernels, set by Tune
}

const leapfrogs = 5 // number of leapfrog steps of a Markov kernel

// Cost returns the number of gradients ∇U that a chain evaluates.
func (a *Annealing) Cost() int { return 1 + (a.Steps-1)*leapfrogs }

// Tune sets StepSizes. It runs one chain for each image of x [784×n]. The function noise returns the random
// stream for an image. The bounds are biased if Bound uses the same streams. Tune tests ctx before each
// kernel and returns ctx's error if ctx is done.
func (a *Annealing) Tune(ctx context.Context, c Config, params []Param[float32], x linalg.Matrix[float32], noise func(image int) *rand.Rand) error {
	const kernels = 50 // if Steps is small, repeat the kernels until a chain has applied about this many
	return forEach(ctx, 1, func(t *ad.Tape[float32], _ int) {
		var streams []*rand.Rand
		for i := range x.Cols {
			streams = append(streams, noise(i))
		}
		if s, err := a.sampler(t, c, params, x).Tune(ctx, streams, 1+kernels/a.Steps); err == nil {
			a.StepSizes = s
		}
	})
}

// Bound returns a stochastic bound on log p_θ(x) for each image of x [784×n]:
//
//	z empty   log mean p̂_θ(x), a lower bound
//	z given   −log mean 1/p̂_θ(x), an upper bound
//
// The means are over the chains of an image. If given, z [ℓ×n] must contain exact draws from the posterior,
// where the chains start. Bound also returns the mean acceptance rate of the kernels, or NaN if Steps is 1.
//
// The function noise returns the random stream for a chain. Bound processes the chains in blocks. After
// each block, it calls the function done with the number of chains in the block. Both functions must be
// safe for concurrent use. The memory does not depend on Steps. Bound tests ctx before each kernel and
// returns ctx's error if ctx is done.
func (a *Annealing) Bound(ctx context.Context, c Config, params []Param[float32], x, z linalg.Matrix[float32],
	noise func(image, chain int) *rand.Rand, done func(chains int)) (bounds []float64, acceptance float64, err error) {
	n, sign := x.Cols*a.Chains, 1.0
	if z.Cols > 0 {
		sign = -1
	}
	logs, rates := make([]float64, n), make([]float64, n)
	err = forEach(ctx, (n+samplesAtOnce-1)/samplesAtOnce, func(t *ad.Tape[float32], block int) {
		lo, hi := block*samplesAtOnce, min(n, (block+1)*samplesAtOnce)
		ais := a.sampler(t, c, params, columns(x, lo, hi, a.Chains))
		var streams []*rand.Rand
		for i := lo; i < hi; i++ {
			streams = append(streams, noise(i/a.Chains, i%a.Chains))
		}
		var end *hvae.Particles[float32]
		var l []float64
		var err error
		if z.Cols == 0 {
			end, l, err = ais.Forward(ctx, streams)
		} else {
			end, l, err = ais.Reverse(ctx, columns(z, lo, hi, a.Chains), streams)
		}
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
	for _, r := range rates {
		acceptance += r / float64(n)
	}
	return bounds, acceptance, nil
}

// columns returns a matrix that consists of the columns ⌊j/n⌋ of m, for j = lo … hi−1.
func columns[T linalg.Float](m linalg.Matrix[T], lo, hi, n int) linalg.Matrix[T] {
	s := linalg.New[T](m.Rows, hi-lo)
	for i := range m.Rows {
		for j := range s.Cols {
			s.Row(i)[j] = m.At(i, (lo+j)/n)
		}
	}
	return s
}

// sampler returns an AIS sampler with one chain for each column of x.
func (a *Annealing) sampler(t *ad.Tape[float32], c Config, params []Param[float32], x linalg.Matrix[float32]) *hvae.AIS[float32] {
	t.Reset()
	network := NewNetwork(c, Vars(t.Const, params))
	mean, std := network.Encode(t.Const(x))
	return &hvae.AIS[float32]{
		Tape: t,
		Target: func(t *ad.Tape[float32]) hvae.Target[float32] {
			return NewNetwork(c, Vars(t.Const, params)).Flow(t.Const(x)).Target
		},
		Mean: mean.Value.Clone(), SD: std.Value.Clone(),
		Steps: a.Steps, Leapfrogs: leapfrogs, StepSizes: a.StepSizes,
	}
}

// Simulate draws z ~ N(0, I) [ℓ×n] and then images x ~ p_θ(x|z) [784×n]. Therefore, each column of z is
// an exact draw from the posterior p_θ(z|x) of its image. The function noise returns the random stream
// for an image. If ctx is done, Simulate returns ctx's error.
func Simulate(ctx context.Context, c Config, params []Param[float32], n int, noise func(image int) *rand.Rand) (x, z linalg.Matrix[float32], err error) {
	x, z = linalg.New[float32](pixels, n), linalg.New[float32](c.Latent, n)
	err = forEach(ctx, n, func(t *ad.Tape[float32], j int) {
		t.Reset()
		network := NewNetwork(c, Vars(t.Const, params))
		rng := noise(j)
		one := hvae.Noise(t, rng, c.Latent, 1)
		for i, v := range one.Value.Data {
			z.Row(i)[j] = v
		}
		for i, p := range ad.Sigmoid(network.Decode(one)).Value.Data {
			if rng.Float32() < p {
				x.Row(i)[j] = 1
			}
		}
	})
	return x, z, err
}
