// Package model implements the Gaussian experiment of section 4.1 of the HVAE paper. Variational methods
// estimate the parameters θ = (Δ, σ) of the model
//
//	z ~ N(0, I_d),   x_i | z ~ N(z + Δ, Σ),   Σ = diag(σ_1², …, σ_d²),
//
// from one dataset D = {x_1, …, x_N}. The evidence of this model is known in closed form.
//
// Read truth.go (parameters), data.go (datasets, evidence, maximum likelihood), target.go
// (log p_θ(D, z) on the tape), method.go, hvae.go, planar.go and vb.go (methods), then train.go and
// outcome.go. A separate target in twomodes.go shows the effect of tempering.
package model

// Theta is a value of θ, which consists of offsets Δ [d] and standard deviations σ [d].
type Theta struct{ Delta, Sigma []float64 }

// Truth returns the parameters that generate the datasets in d dimensions,
//
//	Δ_j = r_j/5,   σ_j = 36 r_j²/(10 (d−1)²) + 0.1,   where r_j = j − (d−1)/2 and j = 0 … d−1.
//
// If d = 1, σ is 1. If d is large, σ_j decreases from 1 to about 0.1 and then increases to 1 again.
func Truth(d int) (t Theta) {
	for j := range d {
		r, sigma := float64(j)-float64(d-1)/2, 1.0
		if d > 1 {
			sigma = 36*r*r/(10*float64((d-1)*(d-1))) + 0.1
		}
		t.Delta, t.Sigma = append(t.Delta, r/5), append(t.Sigma, sigma)
	}
	return t
}

// errors returns ‖Δ − Δ_t‖² and ‖σ − σ_t‖² for t = (Δ_t, σ_t), and their sum.
func (t Theta) errors(truth Theta) (delta, sigma, sum float64) {
	for j := range t.Delta {
		delta += (t.Delta[j] - truth.Delta[j]) * (t.Delta[j] - truth.Delta[j])
		sigma += (t.Sigma[j] - truth.Sigma[j]) * (t.Sigma[j] - truth.Sigma[j])
	}
	return delta, sigma, delta + sigma
}
