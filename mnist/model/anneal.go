package model

import (
	"context"
	"math/rand/v2"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
)

// An Annealing bounds the evidence of images by annealed importance sampling (hvae.AIS) from
// the encoder's variational prior to the posterior of the decoder. No flow takes part: it
// is the truth that a flow's own estimates are measured by.
type Annealing struct {
	Steps  int // K
	Chains int // of each image
	// StepSizes are those of the kernels, from Tune.
	StepSizes []float64
}

const (
	leapfrogs = 5 // of a kernel
	// chainsAtOnce is how many chains, of one image or several, share a tape: whole vectors,
	// as for drawsAtOnce.
	chainsAtOnce = 48
)

// Cost returns how many gradients of the target a chain takes.
func (a *Annealing) Cost() int { return 1 + (a.Steps-1)*leapfrogs }

// Tune finds step sizes on images x [784×n], a chain for each, with the noise of a stream for
// each. They must be others than those that are estimated.
func (a *Annealing) Tune(ctx context.Context, c Config, params []Param[float32], x linalg.Matrix[float32], noise func(image int) *rand.Rand) error {
	const kernels = 50 // at least, in all passes over them
	return forEach(ctx, 1, func(t *ad.Tape[float32]) func(int) {
		return func(int) {
			var streams []*rand.Rand
			for i := range x.Cols {
				streams = append(streams, noise(i))
			}
			a.StepSizes = a.sampler(t, c, params, x).Tune(streams, 1+kernels/a.Steps)
		}
	})
}

// Bound returns a stochastic bound of log p_θ(x) of each image of x [784×n]: a lower one, the
// mean over its chains of p̂_θ(x), or if there are exact draws z [ℓ×n] of the posterior an
// upper one, from the mean of 1/p̂_θ(x) over chains that begin there. It also returns the
// kernels' mean acceptance, NaN if there are none. Chains have streams of their own, and
// their memory does not depend on Steps. It calls done with the number of chains that have
// ended, from several goroutines; if ctx ends first, it returns ctx's error at once.
func (a *Annealing) Bound(ctx context.Context, c Config, params []Param[float32], x, z linalg.Matrix[float32],
	noise func(image, chain int) *rand.Rand, done func(chains int)) (bounds []float64, acceptance float64, err error) {
	n := x.Cols * a.Chains
	logs, rates := make([]float64, n), make([]float64, n)
	err = forEach(ctx, (n+chainsAtOnce-1)/chainsAtOnce, func(t *ad.Tape[float32]) func(int) {
		return func(block int) {
			lo, hi := block*chainsAtOnce, min(n, (block+1)*chainsAtOnce)
			ais := a.sampler(t, c, params, a.spread(x, lo, hi))
			var streams []*rand.Rand
			for i := lo; i < hi; i++ {
				streams = append(streams, noise(i/a.Chains, i%a.Chains))
			}
			var end *hvae.Particles[float32]
			var l []float64
			sign := 1.0
			if z.Cols == 0 {
				end, l = ais.Forward(streams)
			} else {
				end, l = ais.Reverse(a.spread(z, lo, hi), streams)
				sign = -1
			}
			for i := range l {
				logs[lo+i], rates[lo+i] = sign*l[i], end.Acceptance()
			}
			done(hi - lo)
		}
	})
	if err != nil {
		return nil, 0, err
	}
	for i := range x.Cols {
		bound := hvae.ImportanceEstimate(logs[i*a.Chains : (i+1)*a.Chains]).Log
		if z.Cols > 0 {
			bound = -bound
		}
		bounds = append(bounds, bound)
	}
	acceptance, _ = MeanSD(rates)
	return bounds, acceptance, nil
}

// spread returns what the chains lo to hi−1 work on: a column of m for each.
func (a *Annealing) spread(m linalg.Matrix[float32], lo, hi int) linalg.Matrix[float32] {
	s := linalg.New[float32](m.Rows, hi-lo)
	for i := range m.Rows {
		for j := range s.Cols {
			s.Row(i)[j] = m.At(i, (lo+j)/a.Chains)
		}
	}
	return s
}

// sampler returns AIS for the columns of x.
func (a *Annealing) sampler(t *ad.Tape[float32], c Config, params []Param[float32], x linalg.Matrix[float32]) *hvae.AIS[float32] {
	network := newNetwork[float32](c)
	var vars []*ad.Var[float32]
	bind := func(t *ad.Tape[float32]) {
		vars = variables(vars[:0], t, params, false)
		network.bind(vars, nil)
	}
	t.Reset()
	bind(t)
	mean, std := network.Encode(t.Const(x))
	return &hvae.AIS[float32]{
		Tape: t,
		Target: func(t *ad.Tape[float32]) hvae.Target[float32] {
			bind(t)
			return &target[float32]{&network.decoder, t.Const(x)}
		},
		Mean: mean.Value.Clone(), SD: std.Value.Clone(),
		Steps: a.Steps, Leapfrogs: leapfrogs, StepSizes: a.StepSizes,
	}
}

// Simulate draws images x [784×n] from the model, with the z ~ N(0, I) [ℓ×n] that each was
// drawn for, an exact draw of its posterior p_θ(z|x). The noise of each is a stream's. If ctx
// ends first, it returns ctx's error.
func Simulate(ctx context.Context, c Config, params []Param[float32], n int, noise func(image int) *rand.Rand) (x, z linalg.Matrix[float32], err error) {
	x, z = linalg.New[float32](pixels, n), linalg.New[float32](c.Latent, n)
	err = forEach(ctx, n, func(t *ad.Tape[float32]) func(int) {
		return func(j int) {
			t.Reset()
			network, _ := NewNetwork(t, c, params, false)
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
		}
	})
	return x, z, err
}
