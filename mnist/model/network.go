package model

import (
	"math/rand/v2"

	"hvae/ad"
	"hvae/conv"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/linalg/random"
)

// Flow returns the Hamiltonian flow for images x [784×B].
func (n *Network[T]) Flow(x *ad.Var[T]) *hvae.Flow[T] {
	flow := n.dynamics
	flow.Target = &target[T]{n, x}
	return &flow
}

// Encode returns the mean and the standard deviation [ℓ×B] of the variational prior q(z|x) for images x [784×B]. The
// standard deviation is the softplus of a layer's output. In float32, linalg.Softplus is zero below −44, and the ELBO
// is then −∞.
func (n *Network[T]) Encode(x *ad.Var[T]) (mean, std *ad.Var[T]) {
	e := &n.encoder
	h := ad.Softplus(conv.Conv(&conv1, e.conv1.w, x, e.conv1.b))
	h = ad.Softplus(conv.Conv(&conv2, e.conv2.w, h, e.conv2.b))
	h = ad.Softplus(conv.Conv(&conv3, e.conv3.w, h, e.conv3.b))
	h = ad.Softplus(ad.Affine(e.hidden.w, h, e.hidden.b))
	return ad.Affine(e.mean.w, h, e.mean.b), ad.Softplus(ad.Affine(e.std.w, h, e.std.b))
}

// Decode returns the logits [784×B] of the pixel probabilities π_θ(z) for z [ℓ×B].
func (n *Network[T]) Decode(z *ad.Var[T]) *ad.Var[T] {
	d := &n.decoder
	h := ad.Softplus(ad.Affine(d.hidden.w, z, d.hidden.b))
	h = ad.Softplus(ad.Affine(d.expand.w, h, d.expand.b))
	h = ad.Softplus(conv.Transpose(&conv3, d.deconv1.w, h, d.deconv1.b))
	h = ad.Softplus(conv.Transpose(&conv2, d.deconv2.w, h, d.deconv2.b))
	return conv.Transpose(&conv1, d.deconv3.w, h, d.deconv3.b)
}

type target[T linalg.Float] struct {
	network *Network[T]
	x       *ad.Var[T] // images [784×B], or one image [784×1] for all columns of z
}

// LogJoint returns log p_θ(x, z) = Σ_j log Bernoulli(x_j | π_θ(z)_j) + log N(z | 0, I) [1×B].
func (t *target[T]) LogJoint(z *ad.Var[T]) *ad.Var[T] {
	return ad.Add(LogBernoulli(t.x, t.network.Decode(z)), hvae.LogNormal(z))
}

// LogBernoulli returns Σ_j log Bernoulli(x_j | sigmoid(a_j)) = −Σ_j softplus((1 − 2x_j) a_j) [1×B] for pixels x ∈ {0, 1}
// and logits a [784×B]. No term is a difference of larger numbers, so the sum is accurate for all logits.
func LogBernoulli[T linalg.Float](x, a *ad.Var[T]) *ad.Var[T] {
	sign := ad.AddConst(ad.Scale(x, -2), 1)
	return ad.Neg(ad.SumTo(ad.Softplus(ad.Mul(sign, a)), 1, a.Cols()))
}

// ELBO returns log p̂ [1×B], an estimate of the evidence lower bound of each image, for noise ε, γ₀ ~ N(0, I) [ℓ×B].
// With L draws per image (Config.Draws), the noise is [ℓ×(B·L)], with L adjacent columns per image. The estimate is
// then the mean of log p̂ or, if Config.Importance is true, the logarithm of the mean of p̂ (hvae.ImportanceBound).
func (n *Network[T]) ELBO(x, epsilon, gamma0 *ad.Var[T]) *ad.Var[T] {
	mean, std := n.Encode(x)
	L := max(1, n.Config.Draws)
	logs := n.Draw(ad.Repeat(x, L), ad.Repeat(mean, L), ad.Repeat(std, L), epsilon, gamma0).LogEstimate()
	if n.Config.Importance {
		return hvae.ImportanceBound(logs, L)
	}
	images := x.Cols()
	return ad.Reshape(ad.Scale(ad.SumTo(ad.Reshape(logs, images, L), images, 1), 1/T(L)), 1, images)
}

// VAEBound returns log p_θ(x|z₀) − KL(q(z₀|x) ‖ N(0, I)) [1×B], an estimate of the evidence lower bound of a VAE for
// each image. Here, z₀ = mean + std·ε, with mean and std from Encode and ε ~ N(0, I) [ℓ×B]. The divergence KL has a
// closed form.
func (n *Network[T]) VAEBound(x, epsilon *ad.Var[T]) *ad.Var[T] {
	mean, std := n.Encode(x)
	z0, prior := ad.MulAdd(std, epsilon, mean), hvae.DiagonalNormal[T]{Mean: mean, SD: std}
	return ad.Sub(LogBernoulli(x, n.Decode(z0)), prior.Divergence())
}

// Noise returns draws from N(0, I) on the tape t, one in each column [ℓ×draws].
func (n *Network[T]) Noise(t *ad.Tape[T], rng *rand.Rand, draws int) *ad.Var[T] {
	m := t.Matrix(n.Config.Latent, draws)
	random.FillNormal(rng, m)
	return t.Const(m)
}

// Draw runs Algorithm 1 for images x [784×B], with mean and std [ℓ×B] from Encode, and noise ε and γ₀ [ℓ×B]. If x, mean
// and std have one column, it is used for all columns of the noise. Without a flow, p̂ = p(x, z₀)/q(z₀|x).
func (n *Network[T]) Draw(x, mean, std, epsilon, gamma0 *ad.Var[T]) hvae.Sample[T] {
	return hvae.HIS(n.Flow(x), hvae.DiagonalNormal[T]{Mean: mean, SD: std}, epsilon, gamma0)
}
