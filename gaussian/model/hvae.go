package model

import (
	"math"

	"hvae/ad"
	"hvae/hvae"
)

// NewHVAE returns the method that uses Algorithm 1 with K leapfrog steps. The variational prior is
// the prior N(0, I) of the model. If tempered is true, tempering is fixed (quadratic). Otherwise,
// β₀ = 1. The bound is the simplified estimate of equation 12 (Sample.ELBO).
//
// The parameters are Δ, log σ, a step-size logit for each dimension, and, with tempering,
// log(1/√β₀ − 1). The step sizes start at 0.005, and 1/√β₀ starts at 5.
func NewHVAE(data Data, K int, tempered bool) *Method {
	const maxStepSize = 0.5 // ξ in the step size ε = ξ·sigmoid(logit)
	inf := math.Inf(1)
	d := data.Dims()
	m := newMethod(d, 2*d) // the noise consists of z₀ [d] and γ₀ [d]
	m.add("step_size_logit", 1, d, hvae.Unconstrain(0.005, 0, maxStepSize))
	m.Beta0 = func() float64 { return 1 }
	if tempered {
		m.add("log_temperature", 1, 1, hvae.Unconstrain(5, 1, inf))
		m.Beta0 = func() float64 {
			s := 1 + math.Exp(m.Params[3].Value.At(0, 0))
			return 1 / (s * s)
		}
	}
	m.ELBO = func(params []*ad.Var[float64], noise *ad.Var[float64]) *ad.Var[float64] {
		target := NewTarget(data, params[0], params[1])
		flow := hvae.Flow[float64]{Target: target, K: K, StepSize: hvae.Constrain(params[2], 0, maxStepSize)}
		if tempered {
			flow.Tempering = hvae.FixedTempering(K, hvae.Constrain(params[3], 1, inf))
		}
		epsilon, gamma0 := ad.RowRange(noise, 0, d), ad.RowRange(noise, d, 2*d)
		return hvae.HIS(&flow, hvae.StandardNormal[float64]{}, epsilon, gamma0).ELBO()
	}
	return m
}
