package linalg

import (
	"fmt"
	"math"
)

// Cholesky returns the lower triangular matrix C with CCᵀ = m, for a symmetric positive definite matrix m [n×n]. It
// takes about n³/3 operations. If m is not positive definite, the diagonal of C contains a NaN or a zero.
func Cholesky[T Float](m Matrix[T]) Matrix[T] {
	if m.Rows != m.Cols {
		panic(fmt.Sprintf("linalg: Cholesky: a matrix %v is not square", m.Shape()))
	}
	c := New[T](m.Rows, m.Rows)
	for i := range m.Rows {
		for j := range i + 1 {
			rest := m.At(i, j)
			for k := range j {
				rest -= c.At(i, k) * c.At(j, k)
			}
			if i == j {
				c.Row(i)[i] = T(math.Sqrt(float64(rest)))
			} else {
				c.Row(i)[j] = rest / c.At(j, j)
			}
		}
	}
	return c
}
