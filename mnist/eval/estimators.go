package eval

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/linalg/random"
	"hvae/mnist/data"
	"hvae/mnist/model"
)

type matrix = linalg.Matrix[float32]

type estimator struct {
	model model.Checkpoint
	Options
	stepSizes []float64 // of the Steps − 1 Markov kernels of annealed importance sampling
}

// An estimate holds the results for one image in one run. A result that Options does not select is zero.
type estimate struct {
	forward, reverse         hvae.Evidence // from importance sampling; reverse.Log is an upper bound
	lower, upper, acceptance float64       // from annealed importance sampling; upper is NaN unless the image is simulated
}

func (e *estimator) estimate(ctx context.Context, t *ad.Tape[float32], run, image int) (r estimate, err error) {
	stream := func(purpose string) *rand.Rand { return random.Stream(e.Seed, purpose, run, image) }
	var x, z matrix // z is an exact draw from the posterior of a simulated image
	if e.Set == nil {
		x, z = Simulate(e.model, stream("mnist eval simulated"))
	} else {
		x = linalg.New[float32](data.Pixels, 1)
		data.Binarise(x, 0, e.Set.Test.Image(image), stream("mnist eval pixels"))
	}
	r.forward, err = e.importance(ctx, t, x, matrix{}, stream("mnist eval noise"))
	if err == nil && e.Set == nil {
		r.reverse, err = e.importance(ctx, t, x, z, stream("mnist eval reverse"))
	}
	if err == nil && e.Chains > 0 {
		err = e.anneal(ctx, &r, x, z, run, image)
	}
	return r, err
}

// Simulate draws z ~ N(0, I) [ℓ×n] and then images x ~ p_θ(x|z) [784×n], so each column of z is an exact draw from the
// posterior p_θ(z|x). Column j uses the random numbers of streams[j].
func Simulate(c model.Checkpoint, streams ...*rand.Rand) (x, z matrix) {
	x, z = linalg.New[float32](data.Pixels, len(streams)), linalg.New[float32](c.Config.Latent, len(streams))
	for j, rng := range streams {
		random.FillNormalColumn(rng, z, j)
	}
	var t ad.Tape[float32]
	probabilities := ad.Sigmoid(c.Const(&t).Decode(t.Const(z))).Value
	for i := range data.Pixels {
		for j, rng := range streams {
			if rng.Float32() < probabilities.At(i, j) {
				x.Row(i)[j] = 1
			}
		}
	}
	return x, z
}

// importance returns the estimate of log p(x) from e.Samples draws of log p̂_θ(x), for image x [784×1]. If z is not
// empty, it must be an exact draw [ℓ×1] from the posterior. The paths of all draws then end at z, each with its own
// momentum, and the estimate is an upper bound.
func (e *estimator) importance(ctx context.Context, t *ad.Tape[float32], x, z matrix, rng *rand.Rand,
) (hvae.Evidence, error) {
	const atOnce = 48 // number of samples on the tape, a multiple of the SIMD vector length
	mean, std := e.encode(x)
	logs := make([]float64, e.Samples)
	for block := range slices.Chunk(logs, atOnce) {
		if ctx.Err() != nil {
			return hvae.Evidence{}, ctx.Err()
		}
		t.Reset()
		flow := e.model.Const(t).Flow(t.Const(x))
		prior := hvae.DiagonalNormal[float32]{Mean: t.Const(mean), SD: t.Const(std)}
		noise := e.model.Noise(t, rng, len(block))
		var sample hvae.Sample[float32]
		if z.Cols == 0 {
			sample = hvae.HIS(flow, prior, noise, e.model.Noise(t, rng, len(block)))
		} else {
			sample = hvae.ReverseHIS(flow, prior, ad.Repeat(t.Const(z), len(block)), noise)
		}
		for j, l := range sample.LogEstimate().Value.Data {
			block[j] = float64(l)
		}
	}
	if z.Cols == 0 {
		return hvae.ImportanceEstimate(logs), nil
	}
	return hvae.ReverseEstimate(logs, e.Samples), nil
}

// anneal sets the results of annealed importance sampling for image x [784×1]. If z is not empty, it must be an exact
// draw [ℓ×1] from the posterior.
func (e *estimator) anneal(ctx context.Context, r *estimate, x, z matrix, run, image int) error {
	repeated := func(m matrix) matrix { return ad.Repeat(new(ad.Tape[float32]).Const(m), e.Chains).Value }
	ais := e.sampler(repeated(x))
	end, logs, err := ais.Forward(ctx, e.streams(e.Chains, "mnist ais forward", run, image))
	if err != nil {
		return err
	}
	r.lower, r.upper, r.acceptance = hvae.ImportanceEstimate(logs).Log, math.NaN(), end.Acceptance
	if z.Cols == 0 {
		return nil
	}
	_, logs, err = ais.Reverse(ctx, repeated(z), e.streams(e.Chains, "mnist ais reverse", run, image))
	if err == nil {
		r.upper = hvae.ReverseEstimate(logs, e.Chains).Log
	}
	return err
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

// streams returns n random streams. The key of stream i consists of the purpose, the given indices and i.
func (e *estimator) streams(n int, purpose string, index ...int) (all []*rand.Rand) {
	for i := range n {
		all = append(all, random.Stream(e.Seed, purpose, append(index, i)...))
	}
	return all
}

// tune sets the step sizes of the Markov kernels. It uses 16 validation images of the training run or, if the evaluated
// images are simulated, 16 other simulated images. The step sizes are the same for all evaluated images.
func (e *estimator) tune(ctx context.Context) (err error) {
	const n = 16
	var x matrix
	if e.Set == nil {
		x, _ = Simulate(e.model, e.streams(n, "mnist ais tuning simulated")...)
	} else {
		_, validation := data.Split(e.Set.Train, e.model.Seed)
		x = linalg.New[float32](data.Pixels, min(n, len(validation)))
		for j, i := range validation[:x.Cols] {
			data.Binarise(x, j, e.Set.Train.Image(i), random.Stream(e.Seed, "mnist ais tuning pixels", i))
		}
	}
	e.stepSizes, err = e.sampler(x).Tune(ctx, e.streams(x.Cols, "mnist ais tuning"))
	return err
}
