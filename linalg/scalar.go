package linalg

import "math"

// Log2Pi is log 2π, which occurs in normal log-densities.
const Log2Pi = 1.8378770664093454835606594728112352797227949472755668

// LogSumExp returns log Σ exp(xᵢ) without overflow. It returns −Inf if x is empty and NaN if an element is NaN.
func LogSumExp(x []float64) float64 {
	largest := math.Inf(-1)
	for _, v := range x {
		largest = max(largest, v) // unlike math.Max(+Inf, NaN), max returns NaN
	}
	if math.IsInf(largest, 0) || math.IsNaN(largest) {
		return largest
	}
	sum := 0.0
	for _, v := range x {
		sum += math.Exp(v - largest)
	}
	return largest + math.Log(sum)
}

// MeanScatter returns the mean x̄ of x and the scatter Σ(xᵢ − x̄)².
func MeanScatter(x []float64) (mean, scatter float64) {
	for _, v := range x {
		mean += v
	}
	mean /= float64(len(x))
	for _, v := range x {
		scatter += (v - mean) * (v - mean)
	}
	return mean, scatter
}

// MeanSE returns the mean of x and its standard error √(Σ(xᵢ − x̄)²/n/(n − 1)), which is NaN for a single element.
func MeanSE(x []float64) (mean, se float64) {
	n := float64(len(x))
	mean, scatter := MeanScatter(x)
	return mean, math.Sqrt(scatter / n / (n - 1))
}
