package linalg

import "math"

// Log2Pi is log 2π, the constant of a normal density.
const Log2Pi = 1.8378770664093454835606594728112352797227949472755668

// Logit returns log(p/(1 − p)), the inverse of Sigmoid.
func Logit(p float64) float64 { return math.Log(p) - math.Log1p(-p) }

// LogSumExp returns log Σ exp(xᵢ) with the largest term taken out of the sum. It is
// −Inf for no terms (the logarithm of an empty sum), and NaN if a term is NaN.
func LogSumExp(x []float64) float64 {
	largest := math.Inf(-1)
	for _, v := range x {
		largest = max(largest, v) // the builtin keeps a NaN, math.Max(+Inf, NaN) would not
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
