package model

import (
	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
)

// target is log p_θ(x, z) for images x.
type target[T linalg.Float] struct {
	n *Network[T]
	x *ad.Var[T] // [784×B], or [784×1] for many z of one image
}

// LogJoint implements hvae.Target:
//
//	log p_θ(x, z) = Σ_j log Bernoulli(x_j | π_θ(z)_j) + log N(z | 0, I).
func (t *target[T]) LogJoint(z *ad.Var[T]) *ad.Var[T] {
	return ad.Add(LogBernoulli(t.x, t.n.Decode(z)), hvae.LogNormal(z))
}

// LogBernoulli returns Σ_j log Bernoulli(x_j | sigmoid(a_j)) = Σ_j x_j a_j − softplus(a_j)
// [1×B] for pixels x ∈ {0, 1} and logits a [784×B]. It is exact for every logit: no
// probability is formed, and none clipped.
func LogBernoulli[T linalg.Float](x, a *ad.Var[T]) *ad.Var[T] {
	return ad.Sub(ad.MulSumTo(x, a, 1, a.Cols()), ad.SumTo(ad.Softplus(a), 1, a.Cols()))
}

// bindFlow forms step sizes and temperatures from the flow's parameters.
func (n *Network[T]) bindFlow() {
	n.target.n = n
	n.flow = hvae.Flow[T]{Target: &n.target, K: n.config.K}
	if n.config.K == 0 {
		return
	}
	if r := n.recompute; r != nil {
		n.flow.Recompute = r
		r.Params = r.Params[:0]
		for _, name := range decoderParams {
			r.Params = append(r.Params, n.param(name))
		}
	}
	n.flow.StepSize = ad.Scale(ad.Sigmoid(n.param("flow.step_size_logit")), maxEps)
	switch n.config.Tempering {
	case "fixed":
		hot := ad.AddConst(ad.Exp(n.param("flow.log_temperature")), 1)
		n.flow.Tempering = hvae.FixedTempering(hot, n.config.K)
	case "free":
		n.flow.Tempering = hvae.FreeTempering(ad.Sigmoid(n.param("flow.alpha_logit")))
	}
}

// Flow returns the Hamiltonian flow for images x [784×B].
func (n *Network[T]) Flow(x *ad.Var[T]) *hvae.Flow[T] {
	n.target.x = x
	return &n.flow
}

// reparameterise returns z₀ = μ(x) + Σ(x)^½·ε [ℓ×B].
func reparameterise[T linalg.Float](mean, std, epsilon *ad.Var[T]) *ad.Var[T] {
	return ad.MulAdd(std, epsilon, mean)
}

// ELBO returns an estimate of the evidence lower bound of each image [1×B] from noise ε
// and, for an HVAE, γ₀ [ℓ×B], both N(0, I).
//
// A VAE's has the divergence from the prior in closed form,
//
//	log p(x|z₀) − Σ_j ½(μ_j² + σ_j² − 1) − log σ_j.
//
// An HVAE's is eqn:H_ELBO_simplified with −log q⁰(z₀), too, replaced by its expectation,
// the entropy Σ_j log σ_j + ½ log 2πe: it has the same gradient, as log q⁰(z₀) depends
// on the parameters by Σ log σ_j only.
func (n *Network[T]) ELBO(x, epsilon, gamma0 *ad.Var[T]) *ad.Var[T] {
	mean, std := n.Encode(x)
	z0 := reparameterise(mean, std, epsilon)
	logStd := ad.SumTo(ad.Log(std), 1, x.Cols())
	if n.config.Kind == "vae" {
		squares := ad.Add(ad.MulSumTo(mean, mean, 1, x.Cols()), ad.MulSumTo(std, std, 1, x.Cols()))
		divergence := ad.Sub(ad.Scale(ad.AddConst(squares, -T(std.Rows())), 0.5), logStd)
		return ad.Sub(LogBernoulli(x, n.Decode(z0)), divergence)
	}
	entropy := ad.AddConst(logStd, T(std.Rows())*(linalg.Log2Pi+1)/2)
	return hvae.HIS(n.Flow(x), z0, ad.Neg(entropy), gamma0).ELBO()
}

// LogEstimates returns log p̂_θ(x) (Algorithm 1) for each column of noise ε and γ₀ [ℓ×B],
// where x is an image for each column or one for all of them, with its mean and std
// [ℓ×B or ℓ×1]. For a VAE it is log p_θ(x, z₀)/q(z₀|x).
func (n *Network[T]) LogEstimates(x, mean, std, epsilon, gamma0 *ad.Var[T]) *ad.Var[T] {
	z0 := reparameterise(mean, std, epsilon)
	logPrior := ad.Sub(hvae.LogNormal(epsilon), ad.SumTo(ad.Log(std), 1, std.Cols()))
	return hvae.HIS(n.Flow(x), z0, logPrior, gamma0).LogEstimate()
}
