package eval

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync/atomic"

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
func importance(ctx context.Context, t *ad.Tape[float32], c model.Checkpoint, x linalg.Matrix[float32], samples int, rng *rand.Rand) (e estimate) {
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
			e.elbo += float64(v)
		}
	}
	evidence := hvae.ImportanceEstimate(logs)
	return estimate{e.elbo / float64(samples), evidence.Log, evidence.TailShape}
}

// forEach calls task(t, i) once for each i = 0 … n−1, on all cores. Concurrent calls have separate tapes.
// If ctx is done, forEach makes no further calls and returns ctx's error.
func forEach(ctx context.Context, n int, task func(t *ad.Tape[float32], i int)) error {
	var next atomic.Int64
	linalg.For(min(n, runtime.GOMAXPROCS(0)), 1, func(int, int) {
		var t ad.Tape[float32]
		for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
			task(&t, i)
		}
	})
	return ctx.Err()
}

// columns returns a matrix that consists of the columns ⌊j/n⌋ of m, for j = lo … hi−1.
func columns(m linalg.Matrix[float32], lo, hi, n int) linalg.Matrix[float32] {
	s := linalg.New[float32](m.Rows, hi-lo)
	for i := range m.Rows {
		for j := range s.Cols {
			s.Row(i)[j] = m.At(i, (lo+j)/n)
		}
	}
	return s
}
