package main

import (
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

// The oracle is a second implementation of training and evaluation. It calls exported functions of other packages,
// which have their own tests, but shares no code with the commands. It uses the same random streams as the commands.

// parts divides n images into training images and ⌊n/6⌋ validation images, and returns the indices of both.
func parts(n int, seed uint64) (training, validation []int) {
	order := random.Stream(seed, "mnist split").Perm(n)
	return order[n/6:], order[:n/6]
}

// A course is one training run of the oracle, the second implementation that is described above.
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
	c.network = model.New[float32](config, data.MeanLogit(images, c.training), seed)
	s := model.Settings{Config: config, Rate: rate, Seed: seed}
	binarise := func(x linalg.Matrix[float32], j, image int, rng *rand.Rand) {
		data.Binarise(x, j, images.Image(image), rng)
	}
	c.trainer = model.NewTrainer(s, c.network, model.Bound(s, c.network, binarise))
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
		elbo, err := c.trainer.Step(t.Context(), which)
		noError(t, err)
		training += elbo * float64(len(which)) / float64(len(order))
	}
	var tape ad.Tape[float32]
	for lo := 0; lo < len(c.validation); lo += 64 {
		which, thousand := c.validation[lo:min(lo+64, len(c.validation))], lo/1000*1000
		seed := random.Stream(c.seed, "mnist validation noise", c.epoch, thousand).Uint64()
		noise := random.NewBatch(seed, "algorithm 2 evaluation")
		tape.Reset()
		x, latent := tape.Matrix(784, len(which)), c.config.Latent
		epsilon, gamma0 := tape.Matrix(latent, len(which)), tape.Matrix(latent, len(which))
		for j, i := range which {
			data.Binarise(x, j, c.images.Image(i), random.Stream(c.seed, "mnist validation pixels", i))
			var pcg rand.PCG
			noise.Start(&pcg, lo-thousand+j)
			random.FillNormalColumn(rand.New(&pcg), epsilon, j)
			random.FillNormalColumn(rand.New(&pcg), gamma0, j)
		}
		network := c.network.Const(&tape)
		bound := network.ELBO(tape.Const(x), tape.Const(epsilon), tape.Const(gamma0))
		if c.config.Kind == "vae" {
			bound = network.VAEBound(tape.Const(x), tape.Const(epsilon))
		}
		for _, elbo := range bound.Value.Data {
			validation += float64(elbo) / float64(len(c.validation))
		}
	}
	return training, validation
}

// weights returns the encoded parameters of a network.
func weights(n *model.Network[float32]) []byte { return model.Checkpoint{Network: n}.Encode() }

// estimated returns the results of one run of an evaluation on the first count images: the mean ELBO, the mean negative
// log-likelihood and, for each image, the tail shape of the importance weights.
func estimated(n *model.Network[float32], images data.Images, count int, seed uint64, run, samples int) (
	elbo, nll float64, tails []float64) {
	const together = 48 // number of samples for which all ε are drawn before all γ₀
	var tape ad.Tape[float32]
	for i := range count {
		tape.Reset()
		network := n.Const(&tape)
		x := tape.Matrix(784, 1)
		data.Binarise(x, 0, images.Image(i), random.Stream(seed, "mnist eval pixels", run, i))
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
		mean, std := network.Encode(tape.Const(x))
		var logs []float64
		sample := network.Draw(tape.Const(x), mean, std, tape.Const(epsilon), tape.Const(gamma0))
		for _, l := range sample.LogEstimate().Value.Data {
			logs = append(logs, float64(l))
		}
		e := hvae.ImportanceEstimate(logs)
		elbo += e.ELBO / float64(count)
		nll -= e.Log / float64(count)
		tails = append(tails, e.TailShape)
	}
	return elbo, nll, tails
}
