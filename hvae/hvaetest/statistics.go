package hvaetest

import (
	"math"

	"hvae/linalg"
)

// ZBound is the largest allowed difference between a mean and its expectation, in standard errors.
// If the tested code is correct, the difference exceeds ZBound with probability 7e-6. A test should
// also bound the standard error, because a large standard error hides mistakes. Use the condition
// !(z <= ZBound) for a failure, so that the test also fails for NaN.
const ZBound = 4.5

// Z returns the difference between the mean of x and want, in standard errors.
func Z(x []float64, want float64) float64 {
	mean, se := linalg.MeanSE(x)
	return (mean - want) / se
}

// Apply returns the slice y with elements y_i = f(x_i).
func Apply(x []float64, f func(float64) float64) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = f(v)
	}
	return y
}

// Differences returns a − b, element by element. If a and b are two estimates from the same noise,
// their difference often has a smaller variance than either estimate.
func Differences(a, b []float64) []float64 {
	d := make([]float64, len(a))
	for i := range a {
		d[i] = a[i] - b[i]
	}
	return d
}

// Distance returns ‖a − b‖.
func Distance(a, b []float64) float64 {
	s := 0.0
	for _, d := range Differences(a, b) {
		s += d * d
	}
	return math.Sqrt(s)
}

// Norm returns ‖x‖.
func Norm(x []float64) float64 { return Distance(x, make([]float64, len(x))) }
