package eval

import (
	"context"
	"math/rand/v2"
	"slices"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/linalg/random"
	"hvae/mnist/data"
	"hvae/mnist/model"
)

// Images describes the images on which a model is evaluated. Each run binarises or draws them again.
type Images struct {
	Set  *data.Set // the images are the first N test images of this dataset or, if Set is nil, N images drawn from the model
	N    int
	Seed uint64 // seed of the binarisation and the noise
}

// draw returns the binary images x [784×n] of a run. If the images are drawn from the model, draw also returns
// their latent variables z [ℓ×n].
func (m *Images) draw(ctx context.Context, c model.Checkpoint, run int) (x, z linalg.Matrix[float32]) {
	if m.Set == nil {
		return Simulate(ctx, c, m.N, m.stream("mnist eval simulated", run))
	}
	indices := make([]int, m.N)
	for i := range indices {
		indices[i] = i
	}
	return binarise(m.Set.Test, indices, m.stream("mnist eval pixels", run)), z
}

// drawForTuning returns binary images for tuning the step sizes of annealed importance sampling. They are not among the
// evaluated images. If m.Set is not nil, they are validation images of the training run.
func (m *Images) drawForTuning(ctx context.Context, c model.Checkpoint) linalg.Matrix[float32] {
	const n = 16
	if m.Set == nil {
		x, _ := Simulate(ctx, c, n, m.stream("mnist ais tuning simulated"))
		return x
	}
	_, validation := data.Split(m.Set.Train, c.Seed)
	return binarise(m.Set.Train, validation[:min(n, len(validation))], m.stream("mnist ais tuning pixels"))
}

// stream returns a function that returns the random stream for an index, such as the index of an image. The stream also
// depends on the seed, the purpose and the prefix.
func (m *Images) stream(purpose string, prefix ...int) func(index ...int) *rand.Rand {
	return func(index ...int) *rand.Rand {
		return random.Stream(m.Seed, purpose, slices.Concat(prefix, index)...)
	}
}

// binarise returns random binary versions [784×n] of the images with the given indices.
func binarise(images data.Images, indices []int, stream func(image ...int) *rand.Rand) linalg.Matrix[float32] {
	x := linalg.New[float32](data.Side*data.Side, len(indices))
	for j, i := range indices {
		data.Binarise(x, j, images.Image(i), stream(i))
	}
	return x
}

// Simulate draws z ~ N(0, I) [ℓ×n] and then images x ~ p_θ(x|z) [784×n]. Therefore, each column of z is
// an exact draw from the posterior p_θ(z|x) of its image. If ctx is done, the results are incomplete.
func Simulate(ctx context.Context, c model.Checkpoint, n int, stream func(image ...int) *rand.Rand) (x, z linalg.Matrix[float32]) {
	x, z = linalg.New[float32](data.Side*data.Side, n), linalg.New[float32](c.Config.Latent, n)
	each(ctx, n, 1, 1, func(b *hvae.Block[float32]) {
		rng := stream(b.First)
		random.FillNormalColumn(rng, z, b.First)
		logits := c.Network(b.Tape).Decode(b.Columns(z))
		for i, p := range ad.Sigmoid(logits).Value.Data {
			if rng.Float32() < p {
				x.Row(i)[b.First] = 1
			}
		}
	})
	return x, z
}
