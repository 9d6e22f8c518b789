package model

import (
	"math"

	"hvae/linalg"
)

// LogEvidence returns log p_θ(D), which is a sum over dimensions: with v = σ² and z integrated
// out,
//
//	log p_θ(D) = Σ_j −(N/2) log 2πv − S/2v − ½ log(1 + N/v) − ½ (x̄ − Δ)²/(1 + v/N).
func (d Data) LogEvidence(t Theta) float64 {
	n, sum := float64(d.N), 0.0
	for j := range d.Mean {
		v, r := t.Sigma[j]*t.Sigma[j], d.Mean[j]-t.Delta[j]
		sum -= n/2*(linalg.Log2Pi+math.Log(v)) + d.Scatter[j]/(2*v)
		sum -= 0.5*math.Log1p(n/v) + 0.5*r*r/(1+v/n)
	}
	return sum
}

// Posterior returns the means [d] and variances [d] of p_θ(z|D), a product of normals with
// precisions 1 + N/σ_j² and means N/σ_j²·(x̄_j − Δ_j) / (1 + N/σ_j²).
func (d Data) Posterior(t Theta) (mean, variance []float64) {
	for j := range d.Mean {
		w := float64(d.N) / (t.Sigma[j] * t.Sigma[j])
		mean = append(mean, w/(1+w)*(d.Mean[j]-t.Delta[j]))
		variance = append(variance, 1/(1+w))
	}
	return mean, variance
}

// MaximumLikelihood returns the θ that maximises log p_θ(D). In LogEvidence, Δ̂ = x̄ makes the last
// term 0, and the derivative of the other terms with respect to v is 0 at the positive root of
//
//	N v² + (N(N−1) − S) v − N S = 0,
//
// which is computed in a form without cancellation. D must have N ≥ 2 points that are not all
// equal.
func (d Data) MaximumLikelihood() Theta {
	t := Theta{make([]float64, d.Dims()), make([]float64, d.Dims())}
	n := float64(d.N)
	for j, s := range d.Scatter {
		b := n*(n-1) - s
		root := math.Hypot(b, 2*n*math.Sqrt(s)) // √(b² + 4·N·NS)
		v := 2 * n * s / (b + root)
		if b < 0 {
			v = (root - b) / (2 * n)
		}
		t.Delta[j], t.Sigma[j] = d.Mean[j], math.Sqrt(v)
	}
	return t
}
