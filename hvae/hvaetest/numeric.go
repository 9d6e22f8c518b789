package hvaetest

import (
	"math"
	"slices"

	"hvae/ad"
	"hvae/linalg"
)

// Integrate returns an approximate integral of f from lo to hi, h·Σ_i f(lo + ih) for i = 0, …, n and h = (hi − lo)/n.
// If f is smooth and vanishes near both ends, the error decreases faster than any power of 1/n.
func Integrate(f func(float64) float64, lo, hi float64, n int) float64 {
	h, sum := (hi-lo)/float64(n), 0.0
	for i := range n + 1 {
		sum += f(lo + float64(i)*h)
	}
	return sum * h
}

// Slope returns f′(0) by Richardson extrapolation of central differences with step sizes h and h/2.
// The error is −h⁴/4·f⁽⁵⁾(0)/5! to leading order.
func Slope(f func(float64) float64, h float64) float64 {
	central := func(h float64) float64 { return (f(h) - f(-h)) / (2 * h) }
	return (4*central(h/2) - central(h)) / 3
}

const step = 1e-3 // step size h for Slope; it suits functions whose higher derivatives are of order 1

// Gradient returns the derivatives ∂f/∂x_j at x by numerical differentiation with Slope.
func Gradient(f func(x []float64) float64, x []float64) []float64 {
	return Jacobian(func(x []float64) []float64 { return []float64{f(x)} }, x).Data
}

// Jacobian returns the matrix of derivatives ∂f_i/∂x_j at x by numerical differentiation with Slope.
func Jacobian(f func(x []float64) []float64, x []float64) linalg.Matrix[float64] {
	return jacobian(f, x, step)
}

func jacobian(f func(x []float64) []float64, x []float64, h float64) linalg.Matrix[float64] {
	J, moved := linalg.New[float64](len(f(x)), len(x)), slices.Clone(x)
	for i := range J.Data {
		row, j := i/J.Cols, i%J.Cols
		J.Data[i] = Slope(func(h float64) float64 {
			moved[j] = x[j] + h
			return f(moved)[row]
		}, h)
		moved[j] = x[j]
	}
	return J
}

// Determinant returns det m by Gaussian elimination with partial pivoting.
func Determinant(m linalg.Matrix[float64]) float64 {
	rows, det := slices.Collect(slices.Chunk(slices.Clone(m.Data), m.Cols)), 1.0
	for k := range rows {
		pivot := k
		for i, row := range rows[k:] {
			if math.Abs(row[k]) > math.Abs(rows[pivot][k]) {
				pivot = k + i
			}
		}
		if pivot != k {
			rows[k], rows[pivot], det = rows[pivot], rows[k], -det
		}
		if det *= rows[k][k]; det == 0 {
			return 0
		}
		for _, row := range rows[k+1:] {
			factor := row[k] / rows[k][k]
			for j := k; j < m.Cols; j++ {
				row[j] -= factor * rows[k][j]
			}
		}
	}
	return det
}

// GradientError compares two gradients of the mean of f(params) with respect to all elements of all
// parameters: g from automatic and d from numerical differentiation. It returns ‖g − d‖/‖d‖. The
// function f must be smooth and draw the same noise in each call.
func GradientError(params []linalg.Matrix[float64], f func(t *ad.Tape[float64], params []*ad.Var[float64]) *ad.Var[float64]) float64 {
	var t ad.Tape[float64]
	mean := func(x []float64) (y *ad.Var[float64], leaves []*ad.Var[float64]) {
		t.Reset()
		for _, p := range params {
			leaves = append(leaves, t.Leaf(linalg.Of(p.Rows, p.Cols, x[:len(p.Data)])))
			x = x[len(p.Data):]
		}
		return ad.Mean(f(&t, leaves)), leaves
	}
	var start, got []float64
	for _, p := range params {
		start = append(start, p.Data...)
	}
	y, leaves := mean(start)
	for _, g := range ad.Backward(nil, y, leaves...) {
		got = append(got, g.Data...)
	}
	want := Gradient(func(x []float64) float64 { y, _ := mean(x); return y.Scalar() }, start)
	return Distance(got, want) / Norm(want)
}

// ZBound is the largest allowed difference between a mean and its expectation, in standard errors. If the tested code
// is correct, the difference exceeds ZBound with probability 7e-6. A test should also bound the standard error, because
// a large standard error hides mistakes. Report a failure if !(math.Abs(z) <= ZBound): this holds for NaN, too.
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
