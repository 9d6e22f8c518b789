package model

import (
	"math"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/linalg/numeric"
)

// A Method is a variational method for one dataset.
type Method struct {
	Params    hvae.Params[float64] // the parameters to train; the first two are Δ and log σ
	NoiseRows int                  // number of draws from N(0, 1) for one estimate of the bound
	// ELBO returns estimates [1×n] of the evidence lower bound, one for each column of noise [NoiseRows×n]. The method
	// vb (NewMeanField) returns the exact bound [1×1] instead. The function param returns parameter i of the method as
	// a variable on a tape. ELBO is safe for concurrent use.
	ELBO func(param func(i int) *ad.Var[float64], noise *ad.Var[float64]) *ad.Var[float64]
}

// newMethod returns a method with the parameters Δ [d×1], which starts at 0, and log σ [d×1], which starts at 3.
func newMethod(d, noiseRows int) *Method {
	m := &Method{NoiseRows: noiseRows}
	m.add("delta", d, 1, 0)
	m.add("log_sigma", d, 1, 3)
	return m
}

// add appends a parameter [rows×cols] whose elements start at the given value.
func (m *Method) add(name string, rows, cols int, start float64) {
	m.Params.Add(name, linalg.New[float64](rows, cols)).Value.Fill(start)
}

// MethodName matches the names that NewMethod accepts.
var MethodName = regexp.MustCompile(`^(vb|(hvae|hvae-notemp|hvae-untied|nf)-k[1-9]\d{0,3})$`)

// Parse returns the family and K of a method: "hvae-untied" and 10 for hvae-untied-k10, or "vb" and 0 for vb.
func Parse(name string) (family string, K int) {
	family, digits, _ := strings.Cut(name, "-k")
	K, _ = strconv.Atoi(digits)
	return family, K
}

// NewMethod returns the method with the given name for a dataset. The name is vb, hvae-kK, hvae-notemp-kK,
// hvae-untied-kK or nf-kK, where K is the number of steps or layers. Only nf-kK draws initial values from rng.
func NewMethod(name string, data Data, rng *rand.Rand) *Method {
	family, K := Parse(name)
	switch family {
	case "nf":
		return NewPlanar(data, K, rng)
	case "vb":
		return NewMeanField(data)
	}
	return NewHVAE(data, K, family)
}

// NewHVAE returns the method that uses Algorithm 1 with K leapfrog steps and q⁰ = N(0, I). The parameters are Δ, log σ,
// and a step-size logit for each dimension. Step sizes start at 0.005. Further parameters depend on the family:
//
//	"hvae-notemp"  no further parameters; β₀ = 1
//	"hvae"         log(1/√β₀ − 1) for fixed tempering; 1/√β₀ starts at 5
//	"hvae-untied"  log α_k and log s, where s is the s.d. of ρ₀; α_k starts at 5^(−1/K), and s at 5
func NewHVAE(data Data, K int, family string) *Method {
	const maxStepSize = 0.5 // ξ in the step size ε = ξ·sigmoid(logit)
	inf := math.Inf(1)
	d := len(data.Mean)
	m := newMethod(d, 2*d) // the noise consists of z₀ [d] and γ₀ [d]
	m.add("step_size_logit", 1, d, hvae.Unconstrain(0.005, 0, maxStepSize))
	switch family {
	case "hvae":
		m.add("log_temperature", 1, 1, hvae.Unconstrain(5, 1, inf))
	case "hvae-untied":
		m.add("log_alpha", K, 1, math.Log(5)/float64(-K))
		m.add("log_momentum_sd", 1, 1, math.Log(5))
	}
	m.ELBO = func(param func(i int) *ad.Var[float64], noise *ad.Var[float64]) *ad.Var[float64] {
		f := hvae.Flow[float64]{Target: NewTarget(data, param(0), param(1)), K: K}
		f.StepSize = hvae.Constrain(param(2), 0, maxStepSize)
		switch family {
		case "hvae":
			f.Tempering = hvae.FixedTempering(K, hvae.Constrain(param(3), 1, inf))
		case "hvae-untied":
			f.Tempering = hvae.UntiedTempering(ad.Exp(param(3)), ad.Exp(param(4)))
		}
		epsilon, gamma0 := ad.RowRange(noise, 0, d), ad.RowRange(noise, d, 2*d)
		return hvae.HIS(&f, hvae.StandardNormal[float64]{}, epsilon, gamma0).LogEstimate()
	}
	return m
}

// NewPlanar returns the method of variational inference with a planar normalizing flow (Rezende and Mohamed,
// Variational Inference with Normalizing Flows, 2015). The flow maps z₀ ~ N(0, I) through K layers to z_K. A layer is
//
//	f(z) = z + û tanh(wᵀz + b)    (their equation 10; for û, see PlanarFlow).
//
// The parameters are Δ, log σ, u, w and b. All layers share u, w and b. Initially, b is 0.1, and the elements of u and
// w are drawn from N(0, 0.1²) truncated at two standard deviations. The estimate of the bound is log p_θ(D, z_K) − log
// q_K(z_K), where
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
	m.ELBO = func(param func(i int) *ad.Var[float64], noise *ad.Var[float64]) *ad.Var[float64] {
		zK, logDet := PlanarFlow(noise, param(2), param(3), param(4), K)
		logJoint := NewTarget(data, param(0), param(1)).LogJoint(zK)
		return ad.Add(ad.Sub(logJoint, hvae.LogNormal(noise)), logDet)
	}
	return m
}

// PlanarFlow applies K planar layers to the columns of z [d×n]. All layers have the same parameters u, w [d×1] and b
// [1×1]. It returns z_K [d×n] and the log determinants [1×n] of the Jacobian matrices ∂z_K/∂z. K must be at least 1.
//
// A layer z + u tanh(wᵀz + b) is invertible if wᵀu ≥ −1. So the appendix of Rezende and Mohamed uses û = u + (m − wᵀu)
// w/‖w‖² with m = s − 1 and s = softplus(wᵀu). Then wᵀû = m, and the determinant of a layer is s + (1 − s) tanh²(wᵀz +
// b) > 0. Unlike (1 + m) − m tanh²(wᵀz + b), this sum keeps the precision of a small s.
func PlanarFlow(z, u, w, b *ad.Var[float64], K int) (zK, logDet *ad.Var[float64]) {
	wu := ad.Dot(w, u)
	s := ad.Softplus(wu)
	uHat := ad.MulAdd(ad.Div(ad.Sub(ad.AddConst(s, -1), wu), ad.Dot(w, w)), w, u)
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
	det := ad.MulAdd(ad.AddConst(ad.Neg(s), 1), ad.Square(h), s)
	return z, ad.SumTo(ad.Log(det), 1, z.Cols())
}

// NewMeanField returns the mean-field variational Bayes method with q(z) = N(μ_Z, Σ_Z) and a diagonal Σ_Z. The
// parameters are Δ, log σ, μ_Z and log σ_Z. Initially, μ_Z is 0, and log σ_Z is 1. The bound E_q[log p_θ(D, z)] + H(q)
// has a closed form:
//
//	E_q[log p_θ(D, z)] = log p_θ(D, μ_Z) − ½ Σ_j (1 + N/σ_j²) σ_Zj²,
//	H(q) = Σ_j (log σ_Zj + ½ log 2πe).
func NewMeanField(data Data) *Method {
	d := len(data.Mean)
	m := newMethod(d, 0)
	m.add("mean", d, 1, 0)
	m.add("log_scale", d, 1, 1)
	m.ELBO = func(param func(i int) *ad.Var[float64], _ *ad.Var[float64]) *ad.Var[float64] {
		target := NewTarget(data, param(0), param(1))
		mean, logScale := param(2), param(3)
		variance := ad.Exp(ad.Scale(logScale, 2))
		joint := ad.Sub(target.LogJoint(mean), ad.Scale(ad.Dot(target.slope, variance), 0.5))
		entropy := ad.AddConst(ad.Sum(logScale), float64(d)*(numeric.Log2Pi+1)/2)
		return ad.Add(joint, entropy)
	}
	return m
}
