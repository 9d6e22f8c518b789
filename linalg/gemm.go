package linalg

import (
	"fmt"

	"hvae/linalg/internal/kernel"
)

// A Contraction is a sum of products of matrices, which are parts of larger matrices:
//
//	C_g [Rows×Cols] = Bias + Σ_s A_s [Rows×Steps] · B_{s,g} [Steps×Cols]
//
// for each group g with 0 ≤ g < Groups, where s runs over the segments. Dense layers, convolutions and their gradients
// have this form. A dense layer has one segment and one group. In a convolution, the groups are neighbouring pixels of
// the result, which use the same weights A, and the segments are parts of the convolution kernel. In the gradient with
// respect to the weights, there is one group, and the segments are pixels.
//
// The terms of each element of C are added in a fixed order: first the bias, then the products in the order of the
// segments and, within each segment, in the order of the steps. If Add is set, the complete sum is then added to the
// old element of C. The bits of C therefore depend neither on the division of C into tiles nor on the vector width.
//
// Element (i, j) of C_g is C[CStart + g·CGroup + i·CRow + j], element (i, p) of A_s is A[Segments[s].A + i·ARow + p·AStep],
// and element (p, j) of B_{s,g} is B[Segments[s].B + g·BGroup + p·BStep + j]. A nil Bias means zero. The method Run computes
// the contraction on the calling goroutine. It panics if an operand is too short, or an index or a stride is negative.
type Contraction[T Float] = kernel.Contraction[T]

// A Segment of a Contraction holds the indices at which A_s and B_{s,0} start in the slices A and B.
type Segment = kernel.Segment

// The functions below compute the matrix products of a dense layer Y = W·X + b. Affine computes Y. If δ is the gradient
// with respect to Y, then MatMulTA computes the gradient Wᵀ·δ with respect to X, and MatMulTB computes the gradient
// δ·Xᵀ with respect to W.

// gemmGrain is the minimum number of multiply-adds for a separate goroutine, about 50 µs of work.
const gemmGrain = 1 << 21

// MatMul sets dst [m×n] = a [m×k] · b [k×n]. dst must not overlap a or b.
func MatMul[T Float](dst, a, b Matrix[T]) { Affine(dst, a, b, Matrix[T]{}) }

// Affine sets dst [m×n] = a [m×k] · b [k×n] + bias [m×1], with bias added to every column. An
// empty bias means zero. dst must not overlap a or b.
func Affine[T Float](dst, a, b, bias Matrix[T]) {
	if a.Cols != b.Rows || dst.Rows != a.Rows || dst.Cols != b.Cols ||
		bias.Data != nil && bias.Shape() != (Shape{dst.Rows, 1}) {
		panic(fmt.Sprintf("linalg: Affine: %v · %v and a bias %v do not give %v", a.Shape(), b.Shape(), bias.Shape(), dst.Shape()))
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

// MatMulTB sets dst [m×n] = a · bᵀ for a [m×k] and b [n×k]. dst must not overlap a or b. MatMulTB
// stores bᵀ in scratch, which must have at least k·n elements.
func MatMulTB[T Float](dst, a, b Matrix[T], scratch []T) { matMulTB(dst, a, b, scratch, false) }

// AddMatMulTB adds a · bᵀ to dst. The arguments have the same shapes as in MatMulTB.
func AddMatMulTB[T Float](dst, a, b Matrix[T], scratch []T) { matMulTB(dst, a, b, scratch, true) }

func matMulTB[T Float](dst, a, b Matrix[T], scratch []T, add bool) {
	if a.Cols != b.Cols || dst.Rows != a.Rows || dst.Cols != b.Rows {
		panic(fmt.Sprintf("linalg: MatMulTB: %v · %vᵀ does not give %v", a.Shape(), b.Shape(), dst.Shape()))
	}
	bt := Of(b.Cols, b.Rows, scratch[:b.Rows*b.Cols])
	kernel.Transpose(bt.Data, b.Data, b.Rows, b.Cols)
	product(dst, a.Data, a.Cols, 1, a.Cols, bt, nil, add)
}

// product sets dst[i,j] = bias[i] + Σ_p A[i,p]·b[p,j], where 0 ≤ p < k and a nil bias means zero. If
// add is set, it adds this value to dst[i,j] instead. The element A[i,p] is a[i·ai + p·ap]. If ap = 1,
// the slice a contains A; if ai = 1, it contains Aᵀ.
func product[T Float](dst Matrix[T], a []T, ai, ap, k int, b Matrix[T], bias []T, add bool) {
	grain := max(1, gemmGrain/max(1, dst.Cols*k)) // in rows
	if Serial(dst.Rows, grain) {
		productRows(dst, a, ai, ap, k, b, bias, add, 0, dst.Rows) // without a closure, which takes 2 % of a training step
		return
	}
	For(dst.Rows, grain, func(lo, hi int) { productRows(dst, a, ai, ap, k, b, bias, add, lo, hi) })
}

// productRows computes rows lo to hi−1 of product.
func productRows[T Float](dst Matrix[T], a []T, ai, ap, k int, b Matrix[T], bias []T, add bool, lo, hi int) {
	c := Contraction[T]{
		Rows: hi - lo, Cols: dst.Cols, Groups: 1,
		C: dst.Data[lo*dst.Cols:], CRow: dst.Cols,
		A: a[min(lo*ai, len(a)):], ARow: ai, AStep: ap,
		B: b.Data, BStep: b.Cols,
		Add: add,
	}
	if bias != nil {
		c.Bias = bias[lo:hi]
	}
	runBlocks(c, k)
}

// A sum Σ_p A[i,p]·b[p,j] is computed in blocks of kBlock terms, so that the elements of A and b stay
// in the first-level cache and on few memory pages. If A is a transpose, the elements of a row of A are
// in different cache lines, so a block has only kBlockDown terms. The division into blocks affects
// rounding. For reproducible results, it does not depend on the number of goroutines.
const kBlock, kBlockDown = 192, 64

// runBlocks computes the contraction c with k steps in blocks of kBlock or kBlockDown steps. If c.Add is
// set, all steps form one block, so that the complete sum is added to C at once.
func runBlocks[T Float](c Contraction[T], k int) {
	block := kBlock
	switch {
	case c.Add:
		block = max(k, 1)
	case c.AStep > 1:
		block = kBlockDown
	}
	var segment [1]Segment
	for p := 0; p == 0 || p < k; p += block {
		segment[0] = Segment{A: p * c.AStep, B: p * c.BStep}
		c.Steps, c.Segments = min(block, k-p), segment[:]
		c.Run()
		c.Bias, c.Add = nil, true
	}
}

// TransposeBlocks divides a [n·rows × cols] into n matrices [rows×cols] and stores their transposes
// [cols×rows] in dst.Data, one after the other. dst must have the shape of a and must not overlap it.
func TransposeBlocks[T Float](dst, a Matrix[T], rows int) {
	if dst.Shape() != a.Shape() || rows < 1 || a.Rows%rows != 0 {
		panic(fmt.Sprintf("linalg: TransposeBlocks: cannot divide %v into blocks of %d rows and store their transposes in %v", a.Shape(), rows, dst.Shape()))
	}
	kernel.Transpose(dst.Data, a.Data, rows, a.Cols)
}
