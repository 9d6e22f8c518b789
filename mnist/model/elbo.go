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

// ELBO returns an estimate [1×B] of the evidence lower bound of each image. The noise ε and γ₀ must be drawn from
// N(0, I); a VAE ignores γ₀. With one draw per image, the noise is [ℓ×B] and the estimate for an HVAE is
// hvae.Sample.EntropyELBO. For a VAE, it is
//
//	log p(x|z₀) − KL(q(z₀|x) ‖ N(0, I)),
//
// where the divergence is computed in closed form. With L draws per image (Config.Draws), the noise is
// [ℓ×(B·L)], L adjacent columns per image, and the estimate is the mean of log p̂, or with Config.Importance
// the logarithm of the mean of p̂ (hvae.ImportanceBound).
func (n *Network[T]) ELBO(x, epsilon, gamma0 *ad.Var[T]) *ad.Var[T] {
	mean, std := n.Encode(x)
	if L := n.config.Draws; L > 0 {
		logs := n.Draw(repeat(x, L), repeat(mean, L), repeat(std, L), epsilon, gamma0).LogEstimate()
		if n.config.Importance {
			return hvae.ImportanceBound(logs, L)
		}
		images := x.Cols()
		return ad.Reshape(ad.Scale(ad.SumTo(ad.Reshape(logs, images, L), images, 1), 1/T(L)), 1, images)
	}
	if n.config.Kind == "vae" {
		z0, prior := ad.MulAdd(std, epsilon, mean), hvae.DiagonalNormal[T]{Mean: mean, SD: std}
		return ad.Sub(LogBernoulli(x, n.Decode(z0)), prior.Divergence())
	}
	return n.Draw(x, mean, std, epsilon, gamma0).EntropyELBO()
}

// repeat returns a matrix [n×(B·L)] with L adjacent copies of each column of v [n×B].
func repeat[T linalg.Float](v *ad.Var[T], L int) *ad.Var[T] {
	elements := v.Rows() * v.Cols()
	return ad.Reshape(ad.BroadcastTo(ad.Reshape(v, elements, 1), elements, L), v.Rows(), v.Cols()*L)
}

// Draw runs Algorithm 1 for images x [784×B], the results mean and std [ℓ×B] of Encode, and noise ε and γ₀
// [ℓ×B]. If x, mean and std have a single column, Draw uses it for all columns of the noise. The
// LogEstimate of the result is log p̂_θ(x), where p̂_θ(x) = p_θ(x, z₀)/q(z₀|x) for a VAE.
func (n *Network[T]) Draw(x, mean, std, epsilon, gamma0 *ad.Var[T]) hvae.Sample[T] {
	return hvae.HIS(n.Flow(x), hvae.DiagonalNormal[T]{Mean: mean, SD: std}, epsilon, gamma0)
}
