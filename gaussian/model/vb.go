package model

import (
	"math"

	"hvae/ad"
	"hvae/linalg"
)

// MeanField is variational Bayes with the approximate posterior q(z) = N(μ_Z, Σ_Z),
// Σ_Z diagonal. Its bound is a formula: nothing is sampled.
type MeanField struct {
	params []*Param // Δ, log σ, μ_Z, log σ_Z
	data   Data

	target Target // of one call of ELBO
}

// NewMeanField returns the method, starting from μ_Z = 0 and log σ_Z = 1.
func NewMeanField(data Data) *MeanField {
	mean, logScale := linalg.New[float64](data.Dims(), 1), linalg.New[float64](data.Dims(), 1)
	logScale.Fill(1)
	return &MeanField{
		params: append(theta(data.Dims()), &Param{Name: "mean", Value: mean}, &Param{Name: "log_scale", Value: logScale}),
		data:   data,
	}
}

// Params implements Method.
func (m *MeanField) Params() []*Param { return m.params }

// NoiseRows implements Method.
func (m *MeanField) NoiseRows() int { return 0 }

// ELBO implements Method: E_q[log p_θ(D, z)] + H(q) [1×1]. The joint density is
// quadratic in z, so its expectation is its value at μ_Z less half the curvatures
// 1 + N/σ_j² times the variances of q; the entropy is Σ_j log σ_Zj + ½ log 2πe.
func (m *MeanField) ELBO(params []*ad.Var[float64], _ *ad.Var[float64]) *ad.Var[float64] {
	m.target.bind(m.data, params[0], params[1])
	mean, logScale := params[2], params[3]
	variance := ad.Exp(ad.Scale(logScale, 2))
	joint := ad.Sub(m.target.LogJoint(mean), ad.Scale(ad.Dot(m.target.slope, variance), 0.5))
	entropy := ad.AddConst(ad.Sum(logScale), float64(mean.Rows())*(linalg.Log2Pi+1)/2)
	return ad.Add(joint, entropy)
}

// Beta0 implements Method.
func (m *MeanField) Beta0() float64 { return math.NaN() }
