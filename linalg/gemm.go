package linalg

import "fmt"

// The three products of a dense layer Y = W·X + b: MatMul (Affine with the bias) is the
// layer, MatMulTA its gradient in X (Wᵀ·δ), MatMulTB its gradient in W (δ·Xᵀ). Each
// output element adds its products in order of the summed index, whatever the matrix's
// size and however rows are shared among goroutines.

// gemmGrain is how many multiply-adds outweigh starting a goroutine: some 50 µs.
const gemmGrain = 1 << 21

// MatMul sets dst [m×n] = a [m×k] · b [k×n]. dst must not overlap a or b.
func MatMul[T Float](dst, a, b Matrix[T]) { Affine(dst, a, b, Matrix[T]{}) }

// Affine sets dst [m×n] = a [m×k] · b [k×n] + bias [m×1], where an empty bias is zero.
// dst must not overlap a or b.
func Affine[T Float](dst, a, b, bias Matrix[T]) {
	if a.Cols != b.Rows || dst.Rows != a.Rows || dst.Cols != b.Cols || bias.Data != nil && bias.Shape() != (Shape{dst.Rows, 1}) {
		panic(fmt.Sprintf("linalg: MatMul: %v · %v and a bias %v do not give %v", a.Shape(), b.Shape(), bias.Shape(), dst.Shape()))
	}
	product(dst, a.Data, a.Cols, 1, a.Cols, b, bias.Data, false)
}

// MatMulTA sets dst [m×n] = aᵀ · b for a [k×m] and b [k×n]. dst must not overlap a or b.
func MatMulTA[T Float](dst, a, b Matrix[T]) {
	if a.Rows != b.Rows || dst.Rows != a.Cols || dst.Cols != b.Cols {
		panic(fmt.Sprintf("linalg: MatMulTA: %vᵀ · %v does not give %v", a.Shape(), b.Shape(), dst.Shape()))
	}
	product(dst, a.Data, 1, a.Cols, a.Rows, b, nil, false)
}

// MatMulTB sets dst [m×n] = a · bᵀ for a [m×k] and b [n×k]. dst must not overlap a or b.
// scratch holds bᵀ meanwhile: k·n elements.
func MatMulTB[T Float](dst, a, b Matrix[T], scratch []T) { matMulTB(dst, a, b, scratch, false) }

// AddMatMulTB adds a · bᵀ to dst; see MatMulTB.
func AddMatMulTB[T Float](dst, a, b Matrix[T], scratch []T) { matMulTB(dst, a, b, scratch, true) }

func matMulTB[T Float](dst, a, b Matrix[T], scratch []T, add bool) {
	if a.Cols != b.Cols || dst.Rows != a.Rows || dst.Cols != b.Rows {
		panic(fmt.Sprintf("linalg: MatMulTB: %v · %vᵀ does not give %v", a.Shape(), b.Shape(), dst.Shape()))
	}
	bt := Of(b.Cols, b.Rows, scratch[:b.Rows*b.Cols])
	Transpose(bt, b)
	product(dst, a.Data, a.Cols, 1, a.Cols, bt, nil, add)
}

// product sets dst[i,j] = bias[i] + Σ_p A[i,p]·b[p,j], where A[i,p] = a[i·ai + p·ap]
// reads a matrix or its transpose, or adds it to dst.
func product[T Float](dst Matrix[T], a []T, ai, ap, k int, b Matrix[T], bias []T, add bool) {
	work := dst.Cols * k // of a row
	if Serial(dst.Rows, grainFor(gemmGrain, work)) {
		productRange(dst, a, ai, ap, k, b, bias, add, 0, dst.Rows)
		return
	}
	For(dst.Rows, grainFor(gemmGrain, work), func(lo, hi int) {
		productRange(dst, a, ai, ap, k, b, bias, add, lo, hi)
	})
}

// productRange computes rows lo to hi-1 of a product.
func productRange[T Float](dst Matrix[T], a []T, ai, ap, k int, b Matrix[T], bias []T, add bool, lo, hi int) {
	if bias != nil {
		bias = bias[lo:hi]
	}
	whole := [1]Segment{{A: lo * ai}}
	c := Contraction[T]{
		Rows: hi - lo, Cols: dst.Cols, Steps: k, Groups: 1,
		C: dst.Data[lo*dst.Cols:], CRow: dst.Cols,
		A: a, ARow: ai, AStep: ap,
		B: b.Data, BStep: b.Cols,
		Segments: whole[:], Bias: bias, Add: add,
	}
	c.Run()
}

// grainFor returns how many pieces of the given work each make up a grain of work.
func grainFor(grain, work int) int { return max(1, grain/max(1, work)) }

// Transpose sets dst [n×m] = aᵀ for a [m×n]. dst must not overlap a.
func Transpose[T Float](dst, a Matrix[T]) {
	if dst.Rows != a.Cols || dst.Cols != a.Rows {
		panic(fmt.Sprintf("linalg: Transpose: %vᵀ does not fit %v", a.Shape(), dst.Shape()))
	}
	transpose(dst.Data, a.Data, a.Rows, a.Cols)
}

// TransposeBlocks transposes each block of so many rows of a by itself: block i of
// dst.Data is [Cols×rows], the transpose of rows i·rows to (i+1)·rows − 1 of a. The
// shape of dst is that of a.
func TransposeBlocks[T Float](dst, a Matrix[T], rows int) {
	if dst.Shape() != a.Shape() || rows < 1 || a.Rows%rows != 0 {
		panic(fmt.Sprintf("linalg: TransposeBlocks: %v in blocks of %d rows does not fit %v", a.Shape(), rows, dst.Shape()))
	}
	size := rows * a.Cols
	for lo := 0; lo < len(a.Data); lo += size {
		transpose(dst.Data[lo:lo+size], a.Data[lo:lo+size], rows, a.Cols)
	}
}

// transpose writes the transpose of a, rows × cols, to dst.
func transpose[T Float](dst, a []T, rows, cols int) {
	i := 0
	if vectors(dst) {
		i = transposeTiles(dst, a, rows, cols)
	}
	for ; i < rows; i++ {
		for j, v := range a[i*cols : (i+1)*cols] {
			dst[j*rows+i] = v
		}
	}
}
