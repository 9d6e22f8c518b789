package model

import (
	"math"
	"math/rand/v2"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
)

// maxStepSize is ξ: step sizes are ε = ξ·sigmoid(·), so that the leapfrog does not
// enter unstable regimes.
const maxStepSize = 0.5

// HVAE is Hamiltonian variational inference with the true prior as variational prior
// and fixed tempering (or none): Algorithm 1 on the Gaussian model. It learns the step
// size of each dimension and, if tempered, β₀.
type HVAE struct {
	params   []Param // Δ, log σ, step sizes before ξ·sigmoid, log(1/√β₀ − 1) if tempered
	target   *Target
	flow     hvae.Flow[float64]
	tempered bool
}

// NewHVAE returns the method with K leapfrog steps, starting from ε = 0.005 and, if
// tempered, 1/√β₀ = 5; untempered, β₀ = 1.
func NewHVAE(data Data, K int, tempered bool) *HVAE {
	stepSize := linalg.New[float64](1, data.Dims())
	stepSize.Fill(linalg.Logit(0.005 / maxStepSize))
	h := &HVAE{target: NewTarget(data), tempered: tempered}
	h.params = append(theta(data.Dims()), Param{"step_size_logit", stepSize})
	if tempered {
		h.params = append(h.params, Param{"log_temperature", linalg.Column(math.Log(5 - 1))})
	}
	h.flow.Target, h.flow.K = h.target, K
	return h
}

// Params implements Method.
func (h *HVAE) Params() []Param { return h.params }

// ELBO implements Method by the Rao-Blackwellised bound.
func (h *HVAE) ELBO(params []*ad.Var[float64], n int, rng *rand.Rand) *ad.Var[float64] {
	t := params[0].Tape()
	h.target.Bind(params[0], params[1])
	h.flow.StepSize = ad.Scale(ad.Sigmoid(params[2]), maxStepSize)
	if h.tempered {
		h.flow.Tempering = hvae.FixedTempering(ad.AddConst(ad.Exp(params[3]), 1), h.flow.K)
	}
	d := params[0].Rows()
	z0, gamma0 := normal(t, d, n, rng), normal(t, d, n, rng)
	return hvae.HIS(&h.flow, z0, hvae.LogNormal(z0), gamma0).ELBO()
}

// Beta0 implements Method.
func (h *HVAE) Beta0() float64 {
	if !h.tempered {
		return 1
	}
	s := 1 + math.Exp(h.params[3].Value.At(0, 0))
	return 1 / (s * s)
}
