package linalg

import "fmt"

// The three products of a dense layer Y = W·X: MatMul is the layer, MatMulTA its
// gradient in X (Wᵀ·δ), MatMulTB its gradient in W (δ·Xᵀ). Each output element adds
// its products in order of the summed index, whatever the matrix's
// size and however rows are shared among goroutines.

// gemmGrain is how many multiply-adds outweigh starting a goroutine: about 50 µs.
const gemmGrain = 1 << 17

// MatMul sets dst [m×n] = a [m×k] · b [k×n]. dst must not overlap a or b.
func MatMul[T Float](dst, a, b Matrix[T]) {
	if a.Cols != b.Rows || dst.Rows != a.Rows || dst.Cols != b.Cols {
		panic(fmt.Sprintf("linalg: MatMul: %v · %v does not give %v", a.Shape(), b.Shape(), dst.Shape()))
	}
	gemm(dst, a.Data, a.Cols, 1, a.Cols, b)
}

// MatMulTA sets dst [m×n] = aᵀ · b for a [k×m] and b [k×n]. dst must not overlap a or b.
func MatMulTA[T Float](dst, a, b Matrix[T]) {
	if a.Rows != b.Rows || dst.Rows != a.Cols || dst.Cols != b.Cols {
		panic(fmt.Sprintf("linalg: MatMulTA: %vᵀ · %v does not give %v", a.Shape(), b.Shape(), dst.Shape()))
	}
	gemm(dst, a.Data, 1, a.Cols, a.Rows, b)
}

// MatMulTB sets dst [m×n] = a · bᵀ for a [m×k] and b [n×k]. dst must not overlap a or b.
func MatMulTB[T Float](dst, a, b Matrix[T]) {
	if a.Cols != b.Cols || dst.Rows != a.Rows || dst.Cols != b.Rows {
		panic(fmt.Sprintf("linalg: MatMulTB: %v · %vᵀ does not give %v", a.Shape(), b.Shape(), dst.Shape()))
	}
	clear(dst.Data)
	if dst.Rows*dst.Cols*a.Cols < 2*gemmGrain {
		AddProductTB(Strided[T]{dst.Rows, dst.Cols, dst.Cols, dst.Data}, a, b)
		return
	}
	For(dst.Rows, rowGrain(dst.Cols*a.Cols), func(lo, hi int) {
		d := dst.RowRange(lo, hi)
		AddProductTB(Strided[T]{d.Rows, d.Cols, d.Cols, d.Data}, a.RowRange(lo, hi), b)
	})
}

// gemm sets dst[i,j] = Σ_p A[i,p]·b[p,j], where A[i,p] = a[i*ai+p*ap] reads a matrix
// or its transpose.
func gemm[T Float](dst Matrix[T], a []T, ai, ap, k int, b Matrix[T]) {
	clear(dst.Data)
	if dst.Rows*dst.Cols*k < 2*gemmGrain {
		gemmRows(dst, a, ai, ap, k, b)
		return
	}
	For(dst.Rows, rowGrain(dst.Cols*k), func(lo, hi int) {
		gemmRows(dst.RowRange(lo, hi), a[lo*ai:], ai, ap, k, b)
	})
}

// rowGrain is how many rows of a product make gemmGrain multiply-adds.
func rowGrain(perRow int) int { return max(1, gemmGrain/perRow) }

// Strided is a block of a larger matrix: element (i, j) is Data[i*Stride+j].
type Strided[T Float] struct {
	Rows, Cols, Stride int
	Data               []T
}

// AddProduct adds A·b to dst [m×n] for a block A [m×k] and b [k×n]: one kernel row of a
// convolution. It runs on the calling goroutine.
func AddProduct[T Float](dst Matrix[T], a Strided[T], b Matrix[T]) {
	if a.Cols != b.Rows || dst.Rows != a.Rows || dst.Cols != b.Cols {
		panic(fmt.Sprintf("linalg: AddProduct: [%d×%d] · %v does not give %v", a.Rows, a.Cols, b.Shape(), dst.Shape()))
	}
	gemmRows(dst, a.Data, a.Stride, 1, a.Cols, b)
}

// AddProductTA adds Aᵀ·b to dst [m×n] for a block A [k×m] and b [k×n]. It runs on the
// calling goroutine.
func AddProductTA[T Float](dst Matrix[T], a Strided[T], b Matrix[T]) {
	if a.Rows != b.Rows || dst.Rows != a.Cols || dst.Cols != b.Cols {
		panic(fmt.Sprintf("linalg: AddProductTA: [%d×%d]ᵀ · %v does not give %v", a.Rows, a.Cols, b.Shape(), dst.Shape()))
	}
	gemmRows(dst, a.Data, 1, a.Stride, a.Rows, b)
}

// gemmRows adds four rows of b at a time to a row of dst, so that the row is loaded
// and stored once for four multiply-adds.
func gemmRows[T Float](dst Matrix[T], a []T, ai, ap, k int, b Matrix[T]) {
	for i := range dst.Rows {
		y := dst.Row(i)
		p := 0
		for ; p+4 <= k; p += 4 {
			o := i*ai + p*ap
			a0, a1, a2, a3 := a[o], a[o+ap], a[o+2*ap], a[o+3*ap]
			b0, b1, b2, b3 := b.Row(p)[:len(y)], b.Row(p + 1)[:len(y)], b.Row(p + 2)[:len(y)], b.Row(p + 3)[:len(y)]
			for j := range y {
				y[j] = y[j] + a0*b0[j] + a1*b1[j] + a2*b2[j] + a3*b3[j]
			}
		}
		for ; p < k; p++ {
			s, x := a[i*ai+p*ap], b.Row(p)[:len(y)]
			for j := range y {
				y[j] += s * x[j]
			}
		}
	}
}

// AddProductTB adds a·bᵀ to a block dst [m×n] for a [m×k] and b [n×k]. It takes dot
// products of a row of a with four rows of b at a time: four independent sums keep the
// adder busy. It runs on the calling goroutine.
func AddProductTB[T Float](dst Strided[T], a, b Matrix[T]) {
	if a.Cols != b.Cols || dst.Rows != a.Rows || dst.Cols != b.Rows {
		panic(fmt.Sprintf("linalg: AddProductTB: %v · %vᵀ does not give [%d×%d]", a.Shape(), b.Shape(), dst.Rows, dst.Cols))
	}
	for i := range dst.Rows {
		y, x := dst.Data[i*dst.Stride:][:dst.Cols], a.Row(i)
		j := 0
		for ; j+4 <= len(y); j += 4 {
			b0, b1, b2, b3 := b.Row(j)[:len(x)], b.Row(j + 1)[:len(x)], b.Row(j + 2)[:len(x)], b.Row(j + 3)[:len(x)]
			var s0, s1, s2, s3 T
			for p, v := range x {
				s0 += v * b0[p]
				s1 += v * b1[p]
				s2 += v * b2[p]
				s3 += v * b3[p]
			}
			y[j], y[j+1], y[j+2], y[j+3] = y[j]+s0, y[j+1]+s1, y[j+2]+s2, y[j+3]+s3
		}
		for ; j < len(y); j++ {
			var s T
			for p, v := range b.Row(j) {
				s += x[p] * v
			}
			y[j] += s
		}
	}
}
