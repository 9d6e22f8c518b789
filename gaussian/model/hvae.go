package model

import (
	"math"

	"hvae/ad"
	"hvae/hvae"
)

// NewHVAE returns the method that uses Algorithm 1 with K leapfrog steps. The variational prior is
// the prior N(0, I) of the model. The bound is the simplified estimate of equation 12 (Sample.ELBO).
//
// The parameters are Δ, log σ, and a step-size logit for each dimension. The step sizes start at 0.005. The
// argument tempering adds these parameters:
//
//	"none"    no parameters; β₀ = 1
//	"fixed"   log(1/√β₀ − 1); 1/√β₀ starts at 5
//	"untied"  log α_k and log s; α_k starts at 5^(−1/K), and s at 5
func NewHVAE(data Data, K int, tempering string) *Method {
	const maxStepSize = 0.5 // ξ in the step size ε = ξ·sigmoid(logit)
	inf := math.Inf(1)
	d := len(data.Mean)
	m := newMethod(d, 2*d) // the noise consists of z₀ [d] and γ₀ [d]
	m.add("step_size_logit", 1, d, hvae.Unconstrain(0.005, 0, maxStepSize))
	temperingOf := func([]*ad.Var[float64]) (none hvae.Tempering[float64]) { return none }
	switch tempering {
	case "fixed":
		m.add("log_temperature", 1, 1, hvae.Unconstrain(5, 1, inf))
		temperingOf = func(params []*ad.Var[float64]) hvae.Tempering[float64] {
			return hvae.FixedTempering(K, hvae.Constrain(params[3], 1, inf))
		}
	case "untied":
		m.add("log_alpha", K, 1, math.Log(5)/float64(-K))
		m.add("log_momentum_sd", 1, 1, math.Log(5))
		temperingOf = func(params []*ad.Var[float64]) hvae.Tempering[float64] {
			return hvae.UntiedTempering(ad.Exp(params[3]), ad.Exp(params[4]))
		}
	}
	m.ELBO = func(params []*ad.Var[float64], noise *ad.Var[float64]) *ad.Var[float64] {
		target := NewTarget(data, params[0], params[1])
		flow := hvae.Flow[float64]{Target: target, K: K, StepSize: hvae.Constrain(params[2], 0, maxStepSize), Tempering: temperingOf(params)}
		epsilon, gamma0 := ad.RowRange(noise, 0, d), ad.RowRange(noise, d, 2*d)
		return hvae.HIS(&flow, hvae.StandardNormal[float64]{}, epsilon, gamma0).ELBO()
	}
	m.Temperature = func(params []*ad.Var[float64]) (beta0, volume float64) {
		t := temperingOf(params)
		if t.Alpha() == nil {
			return 1, 1
		}
		sd := t.MomentumSD().Scalar()
		return 1 / (sd * sd), sd * math.Exp(ad.Sum(ad.Log(t.Alpha())).Scalar())
	}
	return m
}
