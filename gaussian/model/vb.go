package model

import (
	"hvae/ad"
	"hvae/linalg"
)

// NewMeanField returns the method of mean-field variational Bayes. The approximate posterior is q(z) =
// N(μ_Z, Σ_Z) with a diagonal Σ_Z. The parameters are Δ, log σ, μ_Z (initially 0) and log σ_Z (initially
// 1). The bound E_q[log p_θ(D, z)] + H(q) needs no noise, because log p_θ(D, z) is quadratic in z:
//
//	E_q[log p_θ(D, z)] = log p_θ(D, μ_Z) − ½ Σ_j (1 + N/σ_j²) σ_Zj²,
//	H(q) = Σ_j (log σ_Zj + ½ log 2πe).
func NewMeanField(data Data) *Method {
	d := len(data.Mean)
	m := newMethod(d, 0)
	m.add("mean", d, 1, 0)
	m.add("log_scale", d, 1, 1)
	m.ELBO = func(params []*ad.Var[float64], _ *ad.Var[float64]) *ad.Var[float64] {
		target := NewTarget(data, params[0], params[1])
		mean, logScale := params[2], params[3]
		variance := ad.Exp(ad.Scale(logScale, 2))
		joint := ad.Sub(target.LogJoint(mean), ad.Scale(ad.Dot(target.slope, variance), 0.5))
		entropy := ad.AddConst(ad.Sum(logScale), float64(d)*(linalg.Log2Pi+1)/2)
		return ad.Add(joint, entropy)
	}
	return m
}
