package model

import (
	"hvae/ad"
	"hvae/linalg"
)

// MeanField is variational Bayes with the approximate posterior q(z) = N(μ_Z, Σ_Z), Σ_Z diagonal.
// It learns μ_Z and log σ_Z in addition to Δ and log σ. Its bound is computed exactly, without
// sampling.
type MeanField struct{ common }

// NewMeanField returns the method. μ_Z starts at 0 and log σ_Z at 1.
func NewMeanField(data Data) *MeanField {
	mean, logScale := linalg.New[float64](data.Dims(), 1), linalg.New[float64](data.Dims(), 1)
	logScale.Fill(1)
	return &MeanField{newCommon(data, &Param{Name: "mean", Value: mean}, &Param{Name: "log_scale", Value: logScale})}
}

// NoiseRows returns 0.
func (m *MeanField) NoiseRows() int { return 0 }

// ELBO returns E_q[log p_θ(D, z)] + H(q) [1×1]. Since log p_θ(D, z) is quadratic in z,
//
//	E_q[log p_θ(D, z)] = log p_θ(D, μ_Z) − ½ Σ_j (1 + N/σ_j²) σ_Zj²,   H(q) = Σ_j (log σ_Zj + ½ log 2πe).
func (m *MeanField) ELBO(params []*ad.Var[float64], _ *ad.Var[float64]) *ad.Var[float64] {
	m.target.bind(m.data, params[0], params[1])
	mean, logScale := params[2], params[3]
	variance := ad.Exp(ad.Scale(logScale, 2))
	joint := ad.Sub(m.target.LogJoint(mean), ad.Scale(ad.Dot(m.target.slope, variance), 0.5))
	entropy := ad.AddConst(ad.Sum(logScale), float64(mean.Rows())*(linalg.Log2Pi+1)/2)
	return ad.Add(joint, entropy)
}
