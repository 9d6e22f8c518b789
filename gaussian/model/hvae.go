package model

import (
	"math"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
)

// maxStepSize is ξ in ε = ξ·sigmoid(logit).
const maxStepSize = 0.5

// HVAE is Hamiltonian variational inference: Algorithm 1 on the Gaussian model, with the true
// prior as variational prior and fixed tempering or none. In addition to Δ and log σ, it learns
// the step size of each dimension and, if tempered, β₀.
type HVAE struct {
	common
	tempered bool
	flow     hvae.Flow[float64]
}

// NewHVAE returns the method with K leapfrog steps. The step sizes start at 0.005, and 1/√β₀
// starts at 5 if tempered; otherwise β₀ = 1.
func NewHVAE(data Data, K int, tempered bool) *HVAE {
	stepSize := linalg.New[float64](1, data.Dims())
	stepSize.Fill(hvae.Unconstrain(0.005, 0, maxStepSize))
	h := &HVAE{common: newCommon(data, &Param{Name: "step_size_logit", Value: stepSize}), tempered: tempered}
	if tempered {
		h.params = append(h.params, &Param{Name: "log_temperature", Value: linalg.Column(hvae.Unconstrain(5, 1, math.Inf(1)))})
	}
	h.flow.Target, h.flow.K = &h.target, K
	return h
}

// NoiseRows returns the number of elements of z₀ and γ₀.
func (h *HVAE) NoiseRows() int { return 2 * h.data.Dims() }

// ELBO returns the Rao-Blackwellised bound.
func (h *HVAE) ELBO(params []*ad.Var[float64], noise *ad.Var[float64]) *ad.Var[float64] {
	h.target.bind(h.data, params[0], params[1])
	h.flow.StepSize = hvae.Constrain(params[2], 0, maxStepSize)
	if h.tempered {
		h.flow.Tempering = hvae.FixedTempering(hvae.Constrain(params[3], 1, math.Inf(1)))
	}
	d := h.data.Dims()
	epsilon, gamma0 := ad.RowRange(noise, 0, d), ad.RowRange(noise, d, 2*d)
	return hvae.HIS(&h.flow, hvae.StandardNormal[float64]{}, epsilon, gamma0).ELBO()
}

// Beta0 returns β₀.
func (h *HVAE) Beta0() float64 {
	if !h.tempered {
		return 1
	}
	s := 1 + math.Exp(h.params[3].Value.At(0, 0))
	return 1 / (s * s)
}
