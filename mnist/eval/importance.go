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

// samplesAtOnce is the number of importance samples or Markov chains that share a tape. It is a multiple
// of the SIMD vector length.
const samplesAtOnce = 48

// importance estimates the evidence of an image x [784×1] by importance sampling with noise from rng. Apart
// from a number for each sample, the memory does not depend on the number of samples. If ctx is done, the
// result is incomplete.
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

// each calls f once for each block of the given size of images, on all cores. Each element of images is the
// number of a column. If ctx is done, each makes no further calls and returns ctx's error.
func each(ctx context.Context, images []int, size int, f func(b *hvae.Block[float32])) error {
	e := hvae.Evaluator[float32]{BlockSize: size}
	return e.Each(ctx, images, 0, f)
}

// numbers returns the n·times numbers 0, …, 0, 1, …, 1, …, n − 1.
func numbers(n, times int) (all []int) {
	for i := range n * times {
		all = append(all, i/times)
	}
	return all
}
