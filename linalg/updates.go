package linalg

import "hvae/linalg/internal/kernel"

// Updates stores at most maxPending columns of each factor.
const maxPending = 64

// Updates adds products a·bᵀ to a matrix C, for example the contributions of all leapfrog steps to a
// weight gradient. If a and b have few columns, an addition spends most of its time reading and writing
// C. Updates therefore stores the factors and adds several products at once:
//
//	C += [ a₁ a₂ a₃ a₄ ] · [ b₁ b₂ b₃ b₄ ]ᵀ
//
// For a 512×450 matrix C and factors of 16 columns, this reduces the time per product from 72 to 52 µs
// (one core with AVX-512). The zero value is ready to use. The first stored product allocates memory
// for 64 columns of each factor.
type Updates[T Float] struct {
	a, bt []T // the stored factors, a [rows of C × maxPending] and bᵀ [n × columns of C]
	n     int // number of columns stored
}

// AddMatMulTB adds a · bᵀ to c [m×n] for a [m×k] and b [n×k], either immediately or in a later
// call to AddMatMulTB or Flush. All calls before the next Flush must have the same c. scratch must
// have at least k·n elements, as in the function AddMatMulTB.
func (u *Updates[T]) AddMatMulTB(c, a, b Matrix[T], scratch []T) {
	k := a.Cols
	if u.n+k > maxPending {
		u.Flush(c)
	}
	if 2*k > maxPending || b.Cols != k || c.Shape() != (Shape{a.Rows, b.Rows}) {
		AddMatMulTB(c, a, b, scratch)
		return
	}
	if len(u.a) < maxPending*c.Rows || len(u.bt) < maxPending*c.Cols {
		u.a, u.bt = make([]T, maxPending*c.Rows), make([]T, maxPending*c.Cols)
	}
	for i := range a.Rows {
		copy(u.a[i*maxPending+u.n:], a.Row(i))
	}
	kernel.Transpose(u.bt[u.n*c.Cols:(u.n+k)*c.Cols], b.Data, b.Rows, k)
	u.n += k
}

// Flush adds all stored products to c. The preceding calls to AddMatMulTB must have had the same c.
func (u *Updates[T]) Flush(c Matrix[T]) {
	if u.n > 0 {
		product(c, u.a, maxPending, 1, u.n, Of(u.n, c.Cols, u.bt[:u.n*c.Cols]), nil, true)
		u.n = 0
	}
}

// Forget discards all stored products.
func (u *Updates[T]) Forget() { u.n = 0 }
