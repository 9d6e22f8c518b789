// Package model implements the Gaussian experiment of section 4.1 of the HVAE paper. Variational methods estimate the
// parameters θ = (Δ, σ) of the model
//
//	z ~ N(0, I_d),   x_i | z ~ N(z + Δ, Σ),   Σ = diag(σ_1², …, σ_d²),
//
// from one dataset D = {x_1, …, x_N}. The evidence of this model is known in closed form. The target in twomodes.go
// shows the effect of tempering.
package model

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"hvae/linalg"
	"hvae/linalg/random"
)

// Theta is a value of θ, which consists of offsets Δ [d] and standard deviations σ [d].
type Theta struct{ Delta, Sigma []float64 }

// Truth returns the parameters that generate the datasets in d dimensions,
//
//	Δ_j = r_j/5,   σ_j = 36 r_j²/(10 (d−1)²) + 0.1,   where r_j = j − (d−1)/2 and j = 0 … d−1.
//
// If d = 1, σ is 1.
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

// Data holds the sufficient statistics of a dataset. The sums of squares are centred to avoid cancellation.
type Data struct {
	N       int
	Mean    []float64 // x̄_j
	Scatter []float64 // S_j = Σ_i (x_ij − x̄_j)²
}

// Summarise returns the sufficient statistics of the N points in the columns of x [d×N].
func Summarise(x linalg.Matrix[float64]) Data {
	data := Data{N: x.Cols}
	for j := range x.Rows {
		sum, scatter := 0.0, 0.0
		for _, v := range x.Row(j) {
			sum += v
		}
		mean := sum / float64(x.Cols)
		for _, v := range x.Row(j) {
			scatter += (v - mean) * (v - mean)
		}
		data.Mean, data.Scatter = append(data.Mean, mean), append(data.Scatter, scatter)
	}
	return data
}

// Draw draws z ~ N(0, I) and n points x_i ~ N(z + Δ, Σ), and returns the statistics of the points. It stores the n
// numbers of one dimension at a time. It returns ctx.Err() if ctx is done.
func Draw(ctx context.Context, truth Theta, n int, rng *rand.Rand) (Data, error) {
	data, x := Data{N: n}, linalg.New[float64](1, n)
	for j, sigma := range truth.Sigma {
		if ctx.Err() != nil {
			return Data{}, ctx.Err()
		}
		z := rng.NormFloat64()
		random.FillNormal(rng, x)
		linalg.Scale(x, sigma, x)
		linalg.AddConst(x, x, z+truth.Delta[j])
		row := Summarise(x)
		data.Mean, data.Scatter = append(data.Mean, row.Mean[0]), append(data.Scatter, row.Scatter[0])
	}
	return data, nil
}

// LogEvidence returns the log evidence, which is the log density of D with z integrated out,
//
//	log p_θ(D) = Σ_j −(N/2) log 2πv_j − S_j/2v_j − ½ log(1 + N/v_j) − ½ (x̄_j − Δ_j)²/(1 + v_j/N),
//
// where v_j = σ_j².
func (d Data) LogEvidence(t Theta) float64 {
	n, sum := float64(d.N), 0.0
	for j := range d.Mean {
		v, r := t.Sigma[j]*t.Sigma[j], d.Mean[j]-t.Delta[j]
		sum -= n/2*(linalg.Log2Pi+math.Log(v)) + d.Scatter[j]/(2*v)
		sum -= 0.5*math.Log1p(n/v) + 0.5*r*r/(1+v/n)
	}
	return sum
}

// TiedLimit returns a lower bound on the gap log p_θ(D) − ELBO of an HVAE with tied tempering and q⁰ = N(0, I). It is
// d(exp(ΔH/d) − 1) − ΔH for any number of steps, where ΔH = ½ Σ_j log(1 + N/σ_j²). See hvae.Tempering for the
// derivation.
func (d Data) TiedLimit(t Theta) float64 {
	n, excess := float64(len(t.Sigma)), 0.0
	for _, sigma := range t.Sigma {
		excess += 0.5 * math.Log1p(float64(d.N)/(sigma*sigma))
	}
	return n*math.Expm1(excess/n) - excess
}

// MaximumLikelihood returns the θ that maximises log p_θ(D): Δ̂_j = x̄_j, and v = σ̂_j² is the positive root of N v² +
// (N(N−1) − S_j) v − N S_j = 0, computed without cancellation. N must be at least 2, and every S_j positive.
func (d Data) MaximumLikelihood() Theta {
	t, n := Theta{Delta: slices.Clone(d.Mean)}, float64(d.N)
	for _, s := range d.Scatter {
		b := n*(n-1) - s
		root := math.Hypot(b, 2*n*math.Sqrt(s)) // √(b² + 4·N·NS)
		v := 2 * n * s / (b + root)
		if b < 0 {
			v = (root - b) / (2 * n)
		}
		t.Sigma = append(t.Sigma, math.Sqrt(v))
	}
	return t
}
