package model

import (
	"math"
	"math/rand/v2"

	"hvae/ad"
	"hvae/hvae"
)

// NewPlanar returns the method of variational inference with a planar normalizing flow (Rezende and
// Mohamed, Variational Inference with Normalizing Flows, 2015). The flow maps a draw z₀ from the
// prior N(0, I) of the model through K layers
//
//	f(z) = z + û tanh(wᵀz + b)    (their equation 10).
//
// The parameters are Δ, log σ, u, w and b. All layers use the same u, w and b. PlanarFlow computes û from u.
// Initially, b is 0.1, and the elements of u and w are drawn from N(0, 0.1²) truncated at two
// standard deviations. The bound is log p_θ(D, z_K) − log q_K(z_K), where
//
//	log q_K(z_K) = log q⁰(z₀) − Σ_k log |det ∂f/∂z_{k−1}|    (their equation 13).
func NewPlanar(data Data, K int, rng *rand.Rand) *Method {
	d := len(data.Mean)
	m := newMethod(d, d) // the noise is z₀ [d]
	m.add("u", d, 1, 0)
	m.add("w", d, 1, 0)
	m.add("b", 1, 1, 0.1)
	for _, p := range m.Params[2:4] {
		for i := range p.Value.Data {
			x := rng.NormFloat64()
			for math.Abs(x) > 2 {
				x = rng.NormFloat64()
			}
			p.Value.Data[i] = 0.1 * x
		}
	}
	m.ELBO = func(params []*ad.Var[float64], noise *ad.Var[float64]) *ad.Var[float64] {
		target := NewTarget(data, params[0], params[1])
		logPrior := hvae.LogNormal(noise)
		zK, logDet := PlanarFlow(noise, params[2], params[3], params[4], K)
		return ad.Add(ad.Sub(target.LogJoint(zK), logPrior), logDet)
	}
	return m
}

// PlanarFlow applies K planar layers with parameters u, w [d×1] and b [1×1] to the columns of z [d×n]. It
// returns z_K [d×n] and the log determinants [1×n] of the Jacobian matrices ∂z_K/∂z. K must be at least 1.
//
// A layer is invertible if wᵀû ≥ −1. The appendix of Rezende and Mohamed therefore replaces u with
//
//	û = u + (m − wᵀu) w/‖w‖²,   m = softplus(wᵀu) − 1 > −1.
//
// Hence wᵀû = m, and the determinant of a layer is 1 + (1 − tanh²)·m = (1 + m) − m·tanh² > 0.
func PlanarFlow(z, u, w, b *ad.Var[float64], K int) (zK, logDet *ad.Var[float64]) {
	wu := ad.Dot(w, u)
	m := ad.AddConst(ad.Softplus(wu), -1)
	uHat := ad.MulAdd(ad.Div(ad.Sub(m, wu), ad.Dot(w, w)), w, u)
	var h *ad.Var[float64] // the activations tanh(wᵀz + b) of all layers [K×n]
	for k := range K {
		activation := ad.Tanh(ad.Add(ad.MulSumTo(w, z, 1, z.Cols()), b))
		z = ad.MulAdd(uHat, activation, z)
		if k == 0 {
			h = activation
		} else {
			h = ad.Stack(h, activation)
		}
	}
	det := ad.MulAdd(ad.Neg(m), ad.Square(h), ad.AddConst(m, 1))
	return z, ad.SumTo(ad.Log(det), 1, z.Cols())
}
