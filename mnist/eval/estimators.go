package eval

import (
	"context"
	"math"
	"math/rand/v2"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/linalg/random"
	"hvae/mnist/data"
	"hvae/mnist/model"
)

const pixels = data.Side * data.Side

type matrix = linalg.Matrix[float32]

type estimator struct {
	model model.Checkpoint
	Options
	stepSizes []float64 // of the Steps − 1 Markov kernels of annealed importance sampling
}

// An estimate holds the results for one image x in one run: the estimate by importance sampling, an upper bound from
// reverse paths, and the results of annealed importance sampling. Unless x is simulated, reverse and upper are NaN.
type estimate struct {
	hvae.Evidence
	reverse, lower, upper, acceptance float64
}

// atOnce is the number of samples or Markov chains on one tape. It is a multiple of the SIMD vector length.
const atOnce = 48

// estimate returns the estimate for an image in a run.
func (e *estimator) estimate(ctx context.Context, t *ad.Tape[float32], run, image int) (r estimate, err error) {
	stream := func(purpose string, chain ...int) *rand.Rand {
		return random.Stream(e.Seed, purpose, append([]int{run, image}, chain...)...)
	}
	var x, z matrix
	if e.Set == nil {
		x, z = Simulate(e.model, 1, func(int) *rand.Rand { return stream("mnist eval simulated") })
	} else {
		x = linalg.New[float32](pixels, 1)
		data.Binarise(x, 0, e.Set.Test.Image(image), stream("mnist eval pixels"))
	}
	logs, err := e.importance(ctx, t, x, matrix{}, stream("mnist eval noise"))
	if err != nil {
		return r, err
	}
	r.Evidence, r.reverse, r.upper = hvae.ImportanceEstimate(logs), math.NaN(), math.NaN()
	if e.Set == nil {
		logs, err = e.importance(ctx, t, x, z, stream("mnist eval reverse"))
		if err != nil {
			return r, err
		}
		r.reverse = hvae.ReverseEstimate(logs, e.Samples).Log
	}
	if e.Chains == 0 {
		return r, nil
	}
	forward := func(chain int) *rand.Rand { return stream("mnist ais forward", chain) }
	r.lower, r.acceptance, err = e.bound(ctx, x, matrix{}, forward)
	if err == nil && e.Set == nil {
		reverse := func(chain int) *rand.Rand { return stream("mnist ais reverse", chain) }
		r.upper, _, err = e.bound(ctx, x, z, reverse)
	}
	return r, err
}

// Simulate draws z ~ N(0, I) [ℓ×n] and then images x ~ p_θ(x|z) [784×n], with a random stream for each image. So each
// column of z is an exact draw from the posterior p_θ(z|x).
func Simulate(c model.Checkpoint, n int, stream func(image int) *rand.Rand) (x, z matrix) {
	x, z = linalg.New[float32](pixels, n), linalg.New[float32](c.Config.Latent, n)
	var t ad.Tape[float32]
	for j := range n {
		t.Reset()
		rng, column := stream(j), t.Matrix(z.Rows, 1)
		random.FillNormal(rng, column)
		for i, v := range column.Data {
			z.Row(i)[j] = v
		}
		for i, p := range ad.Sigmoid(c.Const(&t).Decode(t.Const(column))).Value.Data {
			if rng.Float32() < p {
				x.Row(i)[j] = 1
			}
		}
	}
	return x, z
}

// importance returns e.Samples draws of log p̂_θ(x) for image x [784×1]. If z [ℓ×1] is given, an exact draw from the
// posterior, the paths end at z and differ in their momenta.
func (e *estimator) importance(ctx context.Context, t *ad.Tape[float32], x, z matrix, rng *rand.Rand,
) (logs []float64, err error) {
	mean, std := e.encode(x)
	noise := func(n int) *ad.Var[float32] {
		m := t.Matrix(e.model.Config.Latent, n)
		random.FillNormal(rng, m)
		return t.Const(m)
	}
	for len(logs) < e.Samples {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		t.Reset()
		n := min(atOnce, e.Samples-len(logs))
		network, first := e.model.Const(t), noise(n)
		var sample hvae.Sample[float32]
		if z.Cols == 0 {
			sample = network.Draw(t.Const(x), t.Const(mean), t.Const(std), first, noise(n))
		} else {
			prior := hvae.DiagonalNormal[float32]{Mean: t.Const(mean), SD: t.Const(std)}
			sample = hvae.ReverseHIS(network.Flow(t.Const(x)), prior, t.Const(repeat(z, n)), first)
		}
		for _, v := range sample.LogEstimate().Value.Data {
			logs = append(logs, float64(v))
		}
	}
	return logs, nil
}

// encode returns the mean and the standard deviation [ℓ×n] of the variational prior for images x [784×n].
func (e *estimator) encode(x matrix) (mean, std matrix) {
	var t ad.Tape[float32]
	m, s := e.model.Const(&t).Encode(t.Const(x))
	return m.Value, s.Value
}

// sampler returns an AIS sampler with one chain for each column of x [784×n].
func (e *estimator) sampler(x matrix) *hvae.AIS[float32] {
	mean, std := e.encode(x)
	return &hvae.AIS[float32]{
		Target: func(t *ad.Tape[float32]) hvae.Target[float32] { return e.model.Const(t).Flow(t.Const(x)).Target },
		Mean:   mean, SD: std,
		Steps: e.Steps, Leapfrogs: 5, StepSizes: e.stepSizes,
	}
}

// tuningImages returns 16 binary images that are not evaluated: validation images of the training run or, if the
// evaluated images are simulated, other simulated images.
func (e *estimator) tuningImages() matrix {
	const n = 16
	if e.Set == nil {
		stream := func(i int) *rand.Rand { return random.Stream(e.Seed, "mnist ais tuning simulated", i) }
		x, _ := Simulate(e.model, n, stream)
		return x
	}
	_, validation := data.Split(e.Set.Train, e.model.Seed)
	x := linalg.New[float32](pixels, min(n, len(validation)))
	for j, i := range validation[:x.Cols] {
		data.Binarise(x, j, e.Set.Train.Image(i), random.Stream(e.Seed, "mnist ais tuning pixels", i))
	}
	return x
}

// tune sets the step sizes of the Markov kernels. With the evaluated images, the bounds would be biased.
func (e *estimator) tune(ctx context.Context) (err error) {
	const kernels = 50 // if Steps is small, repeat the kernels until a chain has applied about this many
	x := e.tuningImages()
	var streams []*rand.Rand
	for i := range x.Cols {
		streams = append(streams, random.Stream(e.Seed, "mnist ais tuning", i))
	}
	e.stepSizes, err = e.sampler(x).Tune(ctx, streams, 1+kernels/e.Steps)
	return err
}

// bound returns a stochastic bound on log p_θ(x) for image x [784×1], and the mean acceptance rate of the kernels. The
// bound is log mean p̂_θ(x), a lower bound, where the mean is over e.Chains chains. If z [ℓ×1] is given, an exact draw
// from the posterior, the chains start from z, and the bound is −log mean 1/p̂_θ(x), an upper bound.
func (e *estimator) bound(ctx context.Context, x, z matrix, stream func(chain int) *rand.Rand,
) (bound, acceptance float64, err error) {
	sign := 1.0
	if z.Cols > 0 {
		sign = -1
	}
	var logs []float64 // log p̂ or −log p̂
	for len(logs) < e.Chains {
		streams := make([]*rand.Rand, min(atOnce, e.Chains-len(logs)))
		for j := range streams {
			streams[j] = stream(len(logs) + j)
		}
		n, ais := len(streams), e.sampler(repeat(x, len(streams)))
		var end *hvae.Particles[float32]
		var estimates []float64
		if z.Cols == 0 {
			end, estimates, err = ais.Forward(ctx, streams)
		} else {
			end, estimates, err = ais.Reverse(ctx, repeat(z, n), streams)
		}
		if err != nil {
			return 0, 0, err
		}
		for _, l := range estimates {
			logs = append(logs, sign*l)
		}
		acceptance += end.Acceptance * float64(n) / float64(e.Chains)
	}
	return sign * hvae.ImportanceEstimate(logs).Log, acceptance, nil
}

// repeat returns n copies [rows×n] of a column.
func repeat(column matrix, n int) matrix {
	m := linalg.New[float32](column.Rows, n)
	linalg.Copy(m, column)
	return m
}
