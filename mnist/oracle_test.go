package main

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/linalg/random"
	"hvae/mnist/data"
	"hvae/mnist/model"
)

// The oracle is a second implementation of training and evaluation. It calls the exported functions of package model,
// but shares no code with the commands. It uses the same random streams as the commands, because the streams determine
// the results.

// parts splits n images into training and validation images and returns their indices. One sixth of the images, rounded
// down, are for validation.
func parts(n int, seed uint64) (training, validation []int) {
	order := random.Stream(seed, "mnist split").Perm(n)
	return order[n/6:], order[:n/6]
}

// A minibatch holds binary images [784×B] and their noise [ℓ×B].
type minibatch struct{ x, epsilon, gamma0 linalg.Matrix[float32] }

// drawBatch returns a minibatch of the images with the given indices. For image i in column j, the generator pixels(j,
// i) draws the pixels, and the generator noise(j, i) draws the noise.
func drawBatch(images data.Images, which []int, latent int, pixels, noise func(j, i int) *rand.Rand) (b minibatch) {
	b.x = linalg.New[float32](784, len(which))
	b.epsilon, b.gamma0 = linalg.New[float32](latent, len(which)), linalg.New[float32](latent, len(which))
	for j, i := range which {
		rng := pixels(j, i)
		for pixel, grey := range images.Pixels[784*i : 784*(i+1)] {
			// A pixel is 1 with probability grey/255. A probability of 0 or 1 needs no random number.
			if grey == 255 || grey > 0 && rng.Uint32N(255) < uint32(grey) {
				b.x.Row(pixel)[j] = 1
			}
		}
		rng = noise(j, i)
		for _, m := range []linalg.Matrix[float32]{b.epsilon, b.gamma0} {
			for row := range latent {
				m.Row(row)[j] = float32(rng.NormFloat64())
			}
		}
	}
	return b
}

// A course is a training run of the oracle.
type course struct {
	images               data.Images
	training, validation []int
	batch                int
	seed                 uint64
	config               model.Config
	network              *model.Network[float32]
	trainer              *hvae.Trainer[float32]
	epoch                int
}

// newCourse returns a training run on the first n training images.
func newCourse(images data.Images, config model.Config, n, batch int, rate float64, seed uint64) *course {
	c := &course{images: images, batch: batch, seed: seed, config: config}
	c.training, c.validation = parts(images.Len(), seed)
	c.training = c.training[:n]
	bias := 0.0
	for _, i := range c.training {
		ink := 0.0
		for _, grey := range images.Image(i) {
			ink += float64(grey) / 255 / 784
		}
		bias += math.Log(ink/(1-ink)) / float64(n)
	}
	c.network = model.New[float32](config, bias, seed)
	s := model.Settings{Config: config, Rate: rate, Seed: seed}
	c.trainer = model.NewTrainer(s, c.network, model.Bound(s, c.network, func(x linalg.Matrix[float32], j, image int, rng *rand.Rand) {
		same := func(int, int) *rand.Rand { return rng }
		for pixel, v := range drawBatch(images, []int{image}, 0, same, same).x.Data {
			x.Row(pixel)[j] = v
		}
	}))
	return c
}

// next trains for one epoch. It returns two means over images: the training ELBO, computed for each batch before its
// step, and the validation ELBO after the epoch.
func (c *course) next(t *testing.T) (training, validation float64) {
	t.Helper()
	c.epoch++
	order := slices.Clone(c.training)
	random.Stream(c.seed, "mnist shuffle", c.epoch).Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	for which := range slices.Chunk(order, c.batch) {
		c.trainer.BlockSize = c.config.BlockSize(len(which))
		elbo, err := c.trainer.Step(t.Context(), hvae.Columns(which))
		noError(t, err)
		training += elbo * float64(len(which)) / float64(len(order))
	}
	var tape ad.Tape[float32]
	for lo := 0; lo < len(c.validation); lo += 64 {
		which, thousand := c.validation[lo:min(lo+64, len(c.validation))], lo/1000*1000
		seed := random.Stream(c.seed, "mnist validation noise", c.epoch, thousand).Uint64()
		pixels := func(_, i int) *rand.Rand { return random.Stream(c.seed, "mnist validation pixels", i) }
		noise := func(j, _ int) *rand.Rand {
			var pcg rand.PCG
			random.NewBatch(seed, "algorithm 2 evaluation").Start(&pcg, lo-thousand+j)
			return rand.New(&pcg)
		}
		tape.Reset()
		network := c.network.Const(&tape)
		b := drawBatch(c.images, which, c.config.Latent, pixels, noise)
		var bound *ad.Var[float32]
		if c.config.Kind == "vae" {
			bound = network.VAEBound(tape.Const(b.x), tape.Const(b.epsilon))
		} else {
			bound = network.ELBO(tape.Const(b.x), tape.Const(b.epsilon), tape.Const(b.gamma0))
		}
		for _, elbo := range bound.Value.Data {
			validation += float64(elbo) / float64(len(c.validation))
		}
	}
	return training, validation
}

// weights returns a map from parameter names to copies of their values.
func weights(n *model.Network[float32]) map[string][]float32 {
	all := map[string][]float32{}
	for _, p := range n.Params() {
		all[p.Name] = slices.Clone(p.Value.Data)
	}
	return all
}

// estimated returns the results of one run of an evaluation on the first count images: the mean ELBO, the mean negative
// log-likelihood and, for each image, the tail shape of the importance weights.
func estimated(n *model.Network[float32], images data.Images, count int, seed uint64, run, samples int) (
	elbo, nll float64, tails []float64) {
	const together = 48 // number of samples for which all ε are drawn before all γ₀
	var tape ad.Tape[float32]
	for i := range count {
		tape.Reset()
		network := n.Const(&tape)
		pixels := func(_, i int) *rand.Rand { return random.Stream(seed, "mnist eval pixels", run, i) }
		x := tape.Const(drawBatch(images, []int{i}, 0, pixels, pixels).x)
		rng := random.Stream(seed, "mnist eval noise", run, i)
		epsilon, gamma0 := tape.Matrix(n.Config.Latent, samples), tape.Matrix(n.Config.Latent, samples)
		for lo := 0; lo < samples; lo += together {
			for _, m := range []linalg.Matrix[float32]{epsilon, gamma0} {
				for row := range m.Rows {
					for column := lo; column < min(lo+together, samples); column++ {
						m.Row(row)[column] = float32(rng.NormFloat64())
					}
				}
			}
		}
		mean, std := network.Encode(x)
		logs := network.Draw(x, mean, std, tape.Const(epsilon), tape.Const(gamma0)).LogEstimate().Value.Data
		largest, sum, total := float64(slices.Max(logs)), 0.0, 0.0
		var weights []float64
		for _, l := range logs {
			weights = append(weights, float64(l))
			sum += float64(l)
			total += math.Exp(float64(l) - largest)
		}
		elbo += sum / float64(samples) / float64(count)
		nll -= (largest + math.Log(total/float64(samples))) / float64(count)

		tails = append(tails, hvae.ImportanceEstimate(weights).TailShape)
	}
	return elbo, nll, tails
}

func sameWeights(a, b map[string][]float32) bool { return maps.EqualFunc(a, b, slices.Equal) }
