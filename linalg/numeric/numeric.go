// Package numeric implements computations with plain numbers: sums of exponentials, sample statistics, the tails of
// weights, distances, and derivatives by finite differences.
package numeric

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

// SquaredDistance returns ‖a − b‖².
func SquaredDistance(a, b []float64) (sum float64) {
	for i := range a {
		sum += (a[i] - b[i]) * (a[i] - b[i])
	}
	return sum
}

// Derivative returns f′(0) for a function f of a number s. It uses Richardson extrapolation of central differences with
// step sizes h and h/2, for example h = 1e-3. The error is −h⁴/4·f⁽⁵⁾/5! to leading order.
func Derivative(f func(s float64) []float64, h float64) (d []float64) {
	factors := []float64{8, -8, -1, 1}
	for k, s := range []float64{h / 2, -h / 2, h, -h} {
		for i, v := range f(s) {
			if k == 0 {
				d = append(d, 0)
			}
			d[i] += factors[k] * v / (6 * h)
		}
	}
	return d
}
