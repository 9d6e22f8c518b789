package model

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"hvae/linalg"
	"hvae/linalg/random"
)

// Data holds the sufficient statistics of a dataset D = {x_1, …, x_N}. No method needs the points
// x_i themselves. The sums of squares are centred to avoid cancellation when the variance is small.
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

// Draw draws z ~ N(0, I) and n points x_i ~ N(z + Δ, Σ), and returns the statistics of the points.
// It processes one dimension at a time, so that it stores only n numbers. If ctx is done, Draw ends early.
func Draw(ctx context.Context, truth Theta, n int, rng *rand.Rand) Data {
	data, x := Data{N: n}, linalg.New[float64](1, n)
	for j, sigma := range truth.Sigma {
		if ctx.Err() != nil {
			break
		}
		z := rng.NormFloat64()
		random.FillNormal(rng, x)
		linalg.Scale(x, sigma, x)
		linalg.AddConst(x, x, z+truth.Delta[j])
		row := Summarise(x)
		data.Mean, data.Scatter = append(data.Mean, row.Mean[0]), append(data.Scatter, row.Scatter[0])
	}
	return data
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

// MaximumLikelihood returns the θ that maximises log p_θ(D). Its offsets are Δ̂_j = x̄_j, because then the last term of
// LogEvidence is 0. Its variances v = σ̂_j² make the derivative of the other terms 0. They are the positive roots of
//
//	N v² + (N(N−1) − S_j) v − N S_j = 0.
//
// The roots are computed without cancellation. N must be at least 2, and every S_j must be positive.
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
