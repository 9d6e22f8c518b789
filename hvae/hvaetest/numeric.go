package hvaetest

import (
	"math"
	"slices"

	"hvae/ad"
	"hvae/linalg"
	"hvae/linalg/numeric"
)

const step = 1e-3 // step size h for Jacobian; it suits functions whose higher derivatives are of order 1

// Jacobian computes the derivatives ∂f_i/∂x_j at x by finite differences (numeric.Derivative) with step size h.
func Jacobian(f func(x []float64) []float64, x []float64, h float64) linalg.Matrix[float64] {
	J := linalg.New[float64](len(f(x)), len(x))
	for j := range x {
		for i, d := range numeric.Derivative(func(s float64) []float64 {
			moved := slices.Clone(x)
			moved[j] += s
			return f(moved)
		}, h) {
			J.Row(i)[j] = d
		}
	}
	return J
}

// Determinant computes det m by Gaussian elimination with partial pivoting.
func Determinant(m linalg.Matrix[float64]) float64 {
	rows, det := slices.Collect(slices.Chunk(slices.Clone(m.Data), m.Cols)), 1.0
	for k := range rows {
		for i := k + 1; i < len(rows); i++ {
			if math.Abs(rows[i][k]) > math.Abs(rows[k][k]) {
				rows[i], rows[k], det = rows[k], rows[i], -det
			}
		}
		det *= rows[k][k]
		for _, row := range rows[k+1:] {
			factor := row[k] / rows[k][k]
			for j := k; j < m.Cols && det != 0; j++ {
				row[j] -= factor * rows[k][j]
			}
		}
	}
	return det
}

// GradientError returns ‖g − d‖/‖d‖ for the gradients g and d of the mean of f(params) with respect to params, from
// automatic and numerical differentiation. The function f must be smooth and draw the same noise in each call.
func GradientError(params []linalg.Matrix[float64],
	f func(t *ad.Tape[float64], params []*ad.Var[float64]) *ad.Var[float64]) float64 {
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
	want := Jacobian(func(x []float64) []float64 { y, _ := mean(x); return y.Value.Data }, start, step).Data
	return Distance(got, want) / Norm(want)
}

// Distance returns ‖a − b‖.
func Distance(a, b []float64) float64 { return math.Sqrt(numeric.SquaredDistance(a, b)) }

// Norm returns ‖x‖.
func Norm(x []float64) float64 { return Distance(x, make([]float64, len(x))) }
