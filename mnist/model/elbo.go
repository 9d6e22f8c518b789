package model

import (
	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
)

// A target is the log density log p_θ(x, z) as a function of z.
type target[T linalg.Float] struct {
	decoder *decoder[T]
	x       *ad.Var[T] // images [784×B], or one image [784×1] for all columns of z
}

// LogJoint implements hvae.Target:
//
//	log p_θ(x, z) = Σ_j log Bernoulli(x_j | π_θ(z)_j) + log N(z | 0, I).
func (t *target[T]) LogJoint(z *ad.Var[T]) *ad.Var[T] {
	return ad.Add(LogBernoulli(t.x, t.decoder.Decode(z)), hvae.LogNormal(z))
}

// LogBernoulli returns Σ_j log Bernoulli(x_j | sigmoid(a_j)) = Σ_j x_j a_j − softplus(a_j)
// [1×B] for pixels x ∈ {0, 1} and logits a [784×B]. This formula contains no probabilities, so
// it is accurate for every logit without clipping.
func LogBernoulli[T linalg.Float](x, a *ad.Var[T]) *ad.Var[T] {
	return ad.Sub(ad.MulSumTo(x, a, 1, a.Cols()), ad.SumTo(ad.Softplus(a), 1, a.Cols()))
}

// ELBO returns an estimate [1×B] of the evidence lower bound of each image. The noise ε and γ₀
// [ℓ×B] must be drawn from N(0, I); a VAE ignores γ₀. For an HVAE, the estimate is
// hvae.Sample.EntropyELBO. For a VAE, it is
//
//	log p(x|z₀) − KL(q(z₀|x) ‖ N(0, I)),
//
// where the divergence is computed in closed form.
func (n *Network[T]) ELBO(x, epsilon, gamma0 *ad.Var[T]) *ad.Var[T] {
	mean, std := n.Encode(x)
	if n.config.Kind == "vae" {
		prior := hvae.DiagonalNormal[T]{Mean: mean, SD: std}
		z0, _ := prior.Draw(epsilon)
		divergence := prior.Divergence()
		return ad.Sub(LogBernoulli(x, n.Decode(z0)), divergence)
	}
	return n.Draw(x, mean, std, epsilon, gamma0).EntropyELBO()
}

// Draw runs Algorithm 1 for images x [784×B], the results mean and std [ℓ×B] of Encode, and noise ε and γ₀
// [ℓ×B]. If x, mean and std have a single column, Draw uses it for all columns of the noise. The
// LogEstimate of the result is log p̂_θ(x), where p̂_θ(x) = p_θ(x, z₀)/q(z₀|x) for a VAE.
func (n *Network[T]) Draw(x, mean, std, epsilon, gamma0 *ad.Var[T]) hvae.Sample[T] {
	n.prior = hvae.DiagonalNormal[T]{Mean: mean, SD: std}
	return hvae.HIS(n.Flow(x), &n.prior, epsilon, gamma0)
}
