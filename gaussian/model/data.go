package model

import (
	"math/rand/v2"

	"hvae/linalg"
	"hvae/linalg/random"
)

// Data holds the sufficient statistics of a dataset D = {x_1, …, x_N}; no method needs the points
// themselves. The sums of squares are centred, because small variances would be lost in the
// difference of uncentred sums.
type Data struct {
	N       int
	Mean    []float64 // x̄_j
	Scatter []float64 // S_j = Σ_i (x_ij − x̄_j)²
}

// Dims returns the number of dimensions d.
func (d Data) Dims() int { return len(d.Mean) }

// Summarise returns the sufficient statistics of the columns of x [d×N].
func Summarise(x linalg.Matrix[float64]) Data {
	data := Data{N: x.Cols, Mean: make([]float64, x.Rows), Scatter: make([]float64, x.Rows)}
	for j := range x.Rows {
		row := x.Row(j)
		sum := 0.0
		for _, v := range row {
			sum += v
		}
		mean := sum / float64(x.Cols)
		for _, v := range row {
			data.Scatter[j] += (v - mean) * (v - mean)
		}
		data.Mean[j] = mean
	}
	return data
}

// Draw draws z ~ N(0, I) and n points x_i ~ N(z + Δ, Σ), one dimension after another.
func Draw(truth Theta, n int, rng *rand.Rand) Data {
	data := Data{N: n}
	x := linalg.New[float64](1, n)
	for j, sigma := range truth.Sigma {
		z := rng.NormFloat64()
		random.FillNormal(rng, x)
		linalg.Scale(x, sigma, x)
		linalg.AddConst(x, x, z+truth.Delta[j])
		row := Summarise(x)
		data.Mean = append(data.Mean, row.Mean[0])
		data.Scatter = append(data.Scatter, row.Scatter[0])
	}
	return data
}
