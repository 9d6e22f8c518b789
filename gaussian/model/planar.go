package model

import (
	"fmt"
	"math"
	"math/rand/v2"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
)

// Planar is variational inference with a planar normalizing flow (Rezende and Mohamed,
// Variational Inference with Normalizing Flows, 2015): it transforms draws from the true prior
// by K layers
//
//	f(z) = z + û tanh(wᵀz + b)    (their equation 10)
//
// with the same u, w and b, which it learns in addition to Δ and log σ.
type Planar struct {
	common
	layers int
}

// NewPlanar returns the method with K layers. The elements of u and w are drawn from N(0, 0.1²)
// truncated at two standard deviations; b starts at 0.1.
func NewPlanar(data Data, K int, rng *rand.Rand) *Planar {
	u, w := linalg.New[float64](data.Dims(), 1), linalg.New[float64](data.Dims(), 1)
	for _, m := range []linalg.Matrix[float64]{u, w} {
		for i := range m.Data {
			m.Data[i] = 0.1 * truncatedNormal(rng)
		}
	}
	return &Planar{
		common: newCommon(data, &Param{Name: "u", Value: u}, &Param{Name: "w", Value: w}, &Param{Name: "b", Value: linalg.Column(0.1)}),
		layers: K,
	}
}

// truncatedNormal returns a draw from N(0, 1) truncated to [−2, 2].
func truncatedNormal(rng *rand.Rand) float64 {
	for {
		if x := rng.NormFloat64(); math.Abs(x) <= 2 {
			return x
		}
	}
}

// NoiseRows returns the number of elements of z₀.
func (p *Planar) NoiseRows() int { return p.data.Dims() }

// ELBO returns log p_θ(D, z_K) − log q_K(z_K) for z₀ from the prior, where log q_K(z_K) = log
// q⁰(z₀) − Σ_k log |det ∂f/∂z_{k−1}| (equation 13 of Rezende and Mohamed).
func (p *Planar) ELBO(params []*ad.Var[float64], noise *ad.Var[float64]) *ad.Var[float64] {
	p.target.bind(p.data, params[0], params[1])
	logPrior := hvae.LogNormal(noise)
	zK, logDet := PlanarFlow(noise, params[2], params[3], params[4], p.layers)
	return ad.Add(ad.Sub(p.target.LogJoint(zK), logPrior), logDet)
}

// PlanarFlow applies K planar layers with parameters u, w [d×1] and b [1×1] to the columns of
// z [d×n]. It returns z_K and the logarithms of the Jacobian determinants [1×n], and panics if
// K < 1.
//
// A layer is invertible if wᵀû ≥ −1. As in the appendix of Rezende and Mohamed,
// û = u + (m(wᵀu) − wᵀu) w/‖w‖² with m(x) = softplus(x) − 1, so that wᵀû = m(wᵀu), and
// the determinant is 1 + (1 − tanh²)·m(wᵀu) = (1 + m) − m·tanh² > 0.
func PlanarFlow(z, u, w, b *ad.Var[float64], K int) (zK, logDet *ad.Var[float64]) {
	if K < 1 {
		panic(fmt.Sprintf("model: a planar flow of K = %d layers", K))
	}
	wu := ad.Dot(w, u)
	m := ad.AddConst(ad.Softplus(wu), -1)
	uHat := ad.MulAdd(ad.Div(ad.Sub(m, wu), ad.Dot(w, w)), w, u)
	zK, h := planarLayers(z, uHat, w, b, K)
	det := ad.MulAdd(ad.Neg(m), ad.Square(h), ad.AddConst(m, 1))
	return zK, ad.SumTo(ad.Log(det), 1, z.Cols())
}

// planarLayers returns z_K and the activations tanh(wᵀz + b) of all layers [K×n]. It splits the
// layers into halves recursively.
func planarLayers(z, uHat, w, b *ad.Var[float64], K int) (zK, h *ad.Var[float64]) {
	if K == 1 {
		h := ad.Tanh(ad.Add(ad.MulSumTo(w, z, 1, z.Cols()), b))
		return ad.MulAdd(uHat, h, z), h
	}
	z, first := planarLayers(z, uHat, w, b, K/2)
	z, rest := planarLayers(z, uHat, w, b, K-K/2)
	return z, ad.Stack(first, rest)
}
