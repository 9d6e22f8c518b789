package kernel

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestRowKernelsAreBitIdenticalToPlainGo compares the functions of rows.go with plain Go for random matrices. Row
// strides may be zero or exceed the row length, and the result may overwrite an operand.
func TestRowKernelsAreBitIdenticalToPlainGo(t *testing.T) {
	onEachLevel(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(5, 1))
		for range 1000 {
			rows, n := 1+rng.IntN(13), 1+rng.IntN(33)
			size := rows*(n+3) + 1
			var operands [4][]float64
			for i := range operands {
				operands[i] = normals[float64](rng, size)
				if rng.IntN(10) == 0 {
					operands[i][rng.IntN(size)] = special[float64](rng)
				}
			}
			y, a, b, c := operands[0], operands[1], operands[2], operands[3]
			stride := func(n int) int { return []int{0, n, n + rng.IntN(4)}[rng.IntN(3)] }
			rowA, rowB, rowC := stride(n), stride(n), stride(n)
			columnA, columnC, columnY := stride(1), stride(1), stride(1)
			const noC, addC, addY = 0, 1, 2 // kinds of the third operand of MulAddRows
			mulAdd := func(rowA, stepA, third, rowC, stepC int) func(y, a, b, c []float64) {
				return func(y, a, b, c []float64) {
					MulAddRows(y[:rows*n], n, a, rowA, stepA, b, rowB, 1, [][]float64{nil, c, y}[third], rowC, stepC)
				}
			}
			for name, f := range map[string]func(y, a, b, c []float64){
				"y_i = a_i·b_i for a column a":            mulAdd(columnA, 0, noC, 0, 0),
				"y_i = a_i ⊙ b_i":                         mulAdd(rowA, 1, noC, 0, 0),
				"y_i = a_i ⊙ b_i + c_i":                   mulAdd(rowA, 1, addC, rowC, 1),
				"y_i = a_i·b_i + c_i for a column a":      mulAdd(columnA, 0, addC, rowC, 1),
				"y_i = a_i ⊙ b_i + c_i for a column c":    mulAdd(rowA, 1, addC, columnC, 0),
				"y_i = a_i·b_i + y_i for a column a":      mulAdd(columnA, 0, addY, n, 1),
				"y_i = a_i·b_i + c_i for columns a and c": mulAdd(columnA, 0, addC, columnC, 0),
				"AddDots":                func(y, a, b, c []float64) { AddDots(y, columnY, a, rowA, b, rowB, rows, n) },
				"AddSums":                func(y, a, b, c []float64) { AddSums(y, columnY, b, rows, n) },
				"AddMulRows":             func(y, a, b, c []float64) { AddMulRows(y[:n], a, rowA, 1, b, rowB, rows) },
				"AddMulRows, a column a": func(y, a, b, c []float64) { AddMulRows(y[:n], a, columnA, 0, b, rowB, rows) },
			} {
				got, want := slices.Clone(y), slices.Clone(y)
				f(got, a, b, c)
				inPlainGo(func() { f(want, a, b, c) })
				if i := firstDifference(got, want); i >= 0 {
					t.Fatalf("%s, %d rows of %d elements: element %d is %v, want %v as in plain Go", name, rows, n, i, got[i], want[i])
				}
			}
		}
	})
}

func TestRowKernelsCheckBounds(t *testing.T) {
	onEachLevel(t, func(t *testing.T) {
		y, a, short := make([]float64, 50), make([]float64, 50), make([]float64, 49)
		if panicOf(func() { MulAddRows(y, 10, a, 10, 1, short, 10, 1, nil, 0, 0) }) == nil {
			t.Error("MulAddRows did not panic although an operand is too short")
		}
	})
}
