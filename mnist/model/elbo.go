package model

import (
	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
)

// target is log p_θ(x, z) for images x.
type target[T linalg.Float] struct {
	decoder *decoder[T]
	x       *ad.Var[T] // [784×B], or [784×1] for many z of one image
}

// LogJoint implements hvae.Target:
//
//	log p_θ(x, z) = Σ_j log Bernoulli(x_j | π_θ(z)_j) + log N(z | 0, I).
func (t *target[T]) LogJoint(z *ad.Var[T]) *ad.Var[T] {
	return ad.Add(LogBernoulli(t.x, t.decoder.decode(z)), hvae.LogNormal(z))
}

// LogBernoulli returns Σ_j log Bernoulli(x_j | sigmoid(a_j)) = Σ_j x_j a_j − softplus(a_j)
// [1×B] for pixels x ∈ {0, 1} and logits a [784×B]. It is exact for every logit: no
// probability is formed, and none clipped.
func LogBernoulli[T linalg.Float](x, a *ad.Var[T]) *ad.Var[T] {
	return ad.Sub(ad.MulSumTo(x, a, 1, a.Cols()), ad.SumTo(ad.Softplus(a), 1, a.Cols()))
}

// ELBO returns an estimate of the evidence lower bound of each image [1×B] from noise ε
// and, for an HVAE, γ₀ [ℓ×B], both N(0, I).
//
// A VAE's has the divergence of the variational prior from the prior in closed form,
//
//	log p(x|z₀) − KL(q(z₀|x) ‖ N(0, I)).
//
// An HVAE's is hvae.Sample.EntropyELBO.
func (n *Network[T]) ELBO(x, epsilon, gamma0 *ad.Var[T]) *ad.Var[T] {
	mean, std := n.Encode(x)
	if n.config.Kind == "vae" {
		prior := hvae.DiagonalNormal[T]{Mean: mean, SD: std}
		z0, _ := prior.Draw(epsilon)
		divergence := prior.Divergence()
		return ad.Sub(LogBernoulli(x, n.Decode(z0)), divergence)
	}
	return n.draw(x, mean, std, epsilon, gamma0).EntropyELBO()
}

// LogEstimates returns log p̂_θ(x) (Algorithm 1) for each column of noise ε and γ₀ [ℓ×B],
// where x is an image for each column or one for all of them, with its mean and std
// [ℓ×B or ℓ×1]. For a VAE it is log p_θ(x, z₀)/q(z₀|x).
func (n *Network[T]) LogEstimates(x, mean, std, epsilon, gamma0 *ad.Var[T]) *ad.Var[T] {
	return n.draw(x, mean, std, epsilon, gamma0).LogEstimate()
}

// draw runs Algorithm 1 from a variational prior that has been encoded; see LogEstimates.
func (n *Network[T]) draw(x, mean, std, epsilon, gamma0 *ad.Var[T]) hvae.Sample[T] {
	n.prior = hvae.DiagonalNormal[T]{Mean: mean, SD: std}
	return hvae.HIS(n.flowFor(x), &n.prior, epsilon, gamma0)
}
