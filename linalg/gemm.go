package linalg

import (
	"fmt"

	"hvae/linalg/internal/kernel"
)

// A Contraction computes sums of products of matrices. The matrices are parts of larger matrices:
//
//	C_g [Rows×Cols] = Bias + Σ_s A_s [Rows×Steps] · B_{s,g} [Steps×Cols]
//
// The contraction has one result C_g for each group g < Groups. The sum has a term for each segment s. Step p of a
// segment multiplies column p of A_s by row p of B_{s,g}. Dense layers, convolutions and their gradients have this
// form. A dense layer has one segment and one group. In a convolution, the groups are neighbouring pixels of the
// result, which use the same weights A, and the segments are parts of the convolution kernel. In the gradient with
// respect to the weights, the groups are rows of the convolution kernel, and the segments are pixels.
//
// The terms of each element of C are added in a fixed order: first the bias, then the products in the order of the
// segments and, within each segment, in the order of the steps. If Add is set, the complete sum is then added to the
// old element of C. The bits of C therefore depend neither on the division of C into tiles nor on the vector width.
//
// Element (i, j) of C_g is C[CStart + g·CGroup + i·CRow + j], element (i, p) of A_s is A[Segments[s].A + i·ARow +
// p·AStep], and element (p, j) of B_{s,g} is B[Segments[s].B + g·BGroup + p·BStep + j]. A nil Bias means zero. The
// method Run computes the contraction on the calling goroutine. Run panics if an operand is too short or if an index or
// a stride is negative.
type Contraction[T Float] = kernel.Contraction[T]

// A Segment locates the matrices A_s and B_{s,0} of a Contraction: it holds the indices of their first elements in the
// slices A and B.
type Segment = kernel.Segment

// The functions below compute the products of a dense layer Y = W·X + b. Affine computes Y. If δ is the gradient with
// respect to Y, MatMulTA computes the gradient Wᵀ·δ with respect to X, and MatMulTB computes δ·Xᵀ, the gradient with
// respect to W.

// gemmGrain is the smallest number of multiply-adds that justifies a separate goroutine: about 50 µs of work.
const gemmGrain = 1 << 21

// MatMul sets dst [m×n] = a [m×k] · b [k×n]. dst must not overlap a or b.
func MatMul[T Float](dst, a, b Matrix[T]) { Affine(dst, a, b, Matrix[T]{}) }

// Affine sets dst [m×n] = a [m×k] · b [k×n] + bias [m×1], with bias added to every column. An empty bias means zero.
// dst must not overlap a or b.
func Affine[T Float](dst, a, b, bias Matrix[T]) {
	if a.Cols != b.Rows || dst.Rows != a.Rows || dst.Cols != b.Cols ||
		bias.Data != nil && bias.Shape() != (Shape{dst.Rows, 1}) {
		panic(fmt.Sprintf("linalg: Affine: %v · %v + %v does not give %v", a.Shape(), b.Shape(), bias.Shape(), dst.Shape()))
	}
	product(dst, b, Contraction[T]{A: a.Data, ARow: a.Cols, AStep: 1, Bias: bias.Data})
}

// MatMulTA sets dst [m×n] = aᵀ · b for a [k×m] and b [k×n]. dst must not overlap a or b.
func MatMulTA[T Float](dst, a, b Matrix[T]) {
	if a.Rows != b.Rows || dst.Rows != a.Cols || dst.Cols != b.Cols {
		panic(fmt.Sprintf("linalg: MatMulTA: %vᵀ · %v does not give %v", a.Shape(), b.Shape(), dst.Shape()))
	}
	product(dst, b, Contraction[T]{A: a.Data, ARow: 1, AStep: a.Cols})
}

// MatMulTB sets dst [m×n] = a · bᵀ for a [m×k] and b [n×k]. dst must not overlap a or b. MatMulTB stores bᵀ in
// scratch, which must have at least k·n elements.
func MatMulTB[T Float](dst, a, b Matrix[T], scratch []T) { matMulTB(dst, a, b, scratch, false) }

// AddMatMulTB adds a · bᵀ to dst. The arguments have the same shapes as in MatMulTB.
func AddMatMulTB[T Float](dst, a, b Matrix[T], scratch []T) { matMulTB(dst, a, b, scratch, true) }

func matMulTB[T Float](dst, a, b Matrix[T], scratch []T, add bool) {
	if a.Cols != b.Cols || dst.Rows != a.Rows || dst.Cols != b.Rows {
		panic(fmt.Sprintf("linalg: MatMulTB: %v · %vᵀ does not give %v", a.Shape(), b.Shape(), dst.Shape()))
	}
	if len(scratch) < len(b.Data) {
		panic(fmt.Sprintf("linalg: MatMulTB: scratch has %d elements, but b is %v", len(scratch), b.Shape()))
	}
	bt := Of(b.Cols, b.Rows, scratch[:len(b.Data)])
	kernel.Transpose(bt.Data, b.Data, b.Rows, b.Cols)
	product(dst, bt, Contraction[T]{A: a.Data, ARow: a.Cols, AStep: 1, Add: add})
}

// product sets dst to A·b + Bias or, if c.Add is set, adds A·b to dst. The caller sets the fields of c that describe A
// and Bias, and product sets those that describe dst and b. It divides the rows of dst among the cores.
func product[T Float](dst, b Matrix[T], c Contraction[T]) {
	c.Rows, c.Cols, c.Steps, c.Groups = dst.Rows, dst.Cols, b.Rows, 1
	c.C, c.CRow = dst.Data, dst.Cols
	c.B, c.BStep = b.Data, b.Cols
	grain := max(1, gemmGrain/max(1, c.Cols*c.Steps)) // in rows
	if chunks(c.Rows, grain) <= 1 {
		productRows(c, 0, c.Rows)
		return
	}
	shared := c // a closure moves its variables to the heap; moving c in every product takes 2 % of a training step
	For(c.Rows, grain, func(lo, hi int) { productRows(shared, lo, hi) })
}

// productRows computes rows lo to hi−1 of the result of the function product.
func productRows[T Float](c Contraction[T], lo, hi int) {
	c.Rows = hi - lo
	c.C = c.C[lo*c.CRow:]
	c.A = c.A[min(lo*c.ARow, len(c.A)):]
	if c.Bias != nil {
		c.Bias = c.Bias[lo:hi]
	}
	var segment [1]Segment
	c.Segments = segment[:]
	c.Run()
}

// TransposeBlocks divides the matrix a [n·rows × cols] into n matrices [rows×cols] and stores their transposes
// [cols×rows] in dst.Data, one after the other. dst must have the shape of a and must not overlap it.
func TransposeBlocks[T Float](dst, a Matrix[T], rows int) {
	if dst.Shape() != a.Shape() || rows < 1 || a.Rows%rows != 0 {
		panic(fmt.Sprintf("linalg: TransposeBlocks: cannot divide %v into blocks of %d rows and store their transposes in %v",
			a.Shape(), rows, dst.Shape()))
	}
	kernel.Transpose(dst.Data, a.Data, rows, a.Cols)
}
