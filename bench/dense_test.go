package bench

import (
	"math"
	"testing"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
	mnist "hvae/mnist/model"
)

// BenchmarkDense measures, on all cores, a network of the kind that a user of package hvae might define. The network is
// an HVAE for 8×8 binary images with dense layers, tanh units and four leapfrog steps, in float32. The benchmark
// measures one optimiser step with batch size 100, and one evidence estimate for each of 1,797 images. The program
// torch_dense.py measures the same network in PyTorch.
func BenchmarkDense(b *testing.B) {
	const pixels, units, latent, K = 64, 128, 8, 4
	images := binary(pixels, 1797) // as columns
	var params hvae.Params[float32]
	layer := func(name string, out, in int) func(*hvae.Block[float32], *ad.Var[float32]) *ad.Var[float32] {
		start := normal[float32](out, in)
		linalg.Scale(start, float32(1/math.Sqrt(float64(in))), start)
		weight, bias := params.Add(name+" weight", start), params.Add(name+" bias", linalg.New[float32](out, 1))
		return func(b *hvae.Block[float32], x *ad.Var[float32]) *ad.Var[float32] {
			return ad.Affine(b.Var(weight), x, b.Var(bias))
		}
	}
	encoder, mean, sd := layer("encoder", units, pixels), layer("mean", latent, units), layer("sd", latent, units)
	decoder, logits := layer("decoder", units, latent), layer("logits", pixels, units)
	step, alpha := linalg.New[float32](K, latent), linalg.New[float32](K, 1)
	step.Fill(float32(hvae.Unconstrain(0.1, 0, 0.5)))
	alpha.Fill(float32(hvae.Unconstrain(0.95, 0, 1)))
	stepSize, tempering := params.Add("step size", step), params.Add("alpha", alpha)

	logEstimate := func(b *hvae.Block[float32]) *ad.Var[float32] {
		x := b.Columns(images)
		logJoint := func(z *ad.Var[float32]) *ad.Var[float32] {
			likelihood := mnist.LogBernoulli(x, logits(b, ad.Tanh(decoder(b, z))))
			return ad.Add(likelihood, hvae.LogNormal(z))
		}
		h := ad.Tanh(encoder(b, x))
		flow := &hvae.Flow[float32]{
			Target:    target(logJoint),
			K:         K,
			StepSize:  hvae.Constrain(b.Var(stepSize), 0, 0.5),
			Tempering: hvae.FreeTempering(hvae.Constrain(b.Var(tempering), 0, 1)),
		}
		prior := hvae.DiagonalNormal[float32]{Mean: mean(b, h), SD: ad.Softplus(sd(b, h))}
		return hvae.HIS(flow, prior, b.Noise(latent, 1), b.Noise(latent, 1)).LogEstimate()
	}
	trainer := hvae.NewTrainer(params, hvae.Adamax[float32]{Rate: 3e-3}, logEstimate)
	b.Run("step", func(b *testing.B) {
		trainer.BlockSize = 52
		measureSteps(b, trainer, columns(100), 0)
	})
	b.Run("evaluation", func(b *testing.B) {
		trainer.BlockSize = 64
		measure(b, 0, func() {
			if _, _, err := trainer.Evaluate(b.Context(), columns(images.Cols), 1, logEstimate); err != nil {
				b.Fatal(err)
			}
		})
	})
}

// A target is a function that returns log p(x, z) [1×B] for z [ℓ×B].
type target func(z *ad.Var[float32]) *ad.Var[float32]

func (t target) LogJoint(z *ad.Var[float32]) *ad.Var[float32] { return t(z) }
