package linalg

import (
	"math"
	"testing"
)

func TestCholeskyFactorsAPositiveDefiniteMatrix(t *testing.T) {
	m := Of(3, 3, []float64{4, 2, -2, 2, 5, 3, -2, 3, 9})
	c := Cholesky(m)
	for i := range 3 {
		for j := range 3 {
			product := 0.0
			for k := range 3 {
				product += c.At(i, k) * c.At(j, k)
			}
			isFactor := math.Abs(product-m.At(i, j)) <= 1e-14
			isLower := j <= i || c.At(i, j) == 0
			isPositive := j != i || c.At(i, i) > 0
			if !isFactor || !isLower || !isPositive {
				t.Errorf("element (%d, %d): C has %v and CCᵀ has %v, want %v", i, j, c.At(i, j), product, m.At(i, j))
			}
		}
	}
	if c := Cholesky(Of(2, 2, []float64{1, 2, 2, 1})); !math.IsNaN(c.At(1, 1)) {
		t.Errorf("the factor of an indefinite matrix ends with %v, want NaN", c.At(1, 1))
	}
}
