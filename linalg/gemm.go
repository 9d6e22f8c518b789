package linalg

import (
	"fmt"

	"hvae/linalg/internal/kernel"
)

// This file implements the products of a dense layer Y = W·X + b. Affine computes the layer,
// MatMulTA the gradient with respect to X (Wᵀ·δ) and MatMulTB the gradient with respect to W
// (δ·Xᵀ), where δ is the gradient with respect to Y. Each element adds its products in the order
// of the summed index, for any matrix size and number of goroutines.

// gemmGrain is the smallest number of multiply-adds worth a separate goroutine: about 50 µs of
// work.
const gemmGrain = 1 << 21

// MatMul sets dst [m×n] = a [m×k] · b [k×n]. dst must not overlap a or b.
func MatMul[T Float](dst, a, b Matrix[T]) { Affine(dst, a, b, Matrix[T]{}) }

// Affine sets dst [m×n] = a [m×k] · b [k×n] + bias [m×1], with bias added to every column. An
// empty bias means zero. dst must not overlap a or b.
func Affine[T Float](dst, a, b, bias Matrix[T]) {
	if a.Cols != b.Rows || dst.Rows != a.Rows || dst.Cols != b.Cols || bias.Data != nil && bias.Shape() != (Shape{dst.Rows, 1}) {
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

// MatMulTB sets dst [m×n] = a · bᵀ for a [m×k] and b [n×k]. dst must not overlap a or b. scratch
// must have at least k·n elements; MatMulTB transposes b into it.
func MatMulTB[T Float](dst, a, b Matrix[T], scratch []T) { matMulTB(dst, a, b, scratch, false) }

// AddMatMulTB adds a · bᵀ to dst. Its operands have the same shapes as in MatMulTB.
func AddMatMulTB[T Float](dst, a, b Matrix[T], scratch []T) { matMulTB(dst, a, b, scratch, true) }

func matMulTB[T Float](dst, a, b Matrix[T], scratch []T, add bool) {
	if a.Cols != b.Cols || dst.Rows != a.Rows || dst.Cols != b.Rows {
		panic(fmt.Sprintf("linalg: MatMulTB: %v · %vᵀ does not give %v", a.Shape(), b.Shape(), dst.Shape()))
	}
	bt := Of(b.Cols, b.Rows, scratch[:b.Rows*b.Cols])
	kernel.Transpose(bt.Data, b.Data, b.Rows, b.Cols)
	product(dst, a.Data, a.Cols, 1, a.Cols, bt, nil, add)
}

// product sets dst[i,j] = bias[i] + Σ_p A[i,p]·b[p,j] with 0 ≤ p < k, or adds this sum to dst[i,j]
// if add is set. The matrix A is stored with strides ai and ap, A[i,p] = a[i·ai + p·ap], so that
// it may be a transpose. A nil bias means zero.
func product[T Float](dst Matrix[T], a []T, ai, ap, k int, b Matrix[T], bias []T, add bool) {
	c := Contraction[T]{
		Rows: dst.Rows, Cols: dst.Cols, Steps: k, Groups: 1,
		C: dst.Data, CRow: dst.Cols,
		A: a, ARow: ai, AStep: ap,
		B: b.Data, BStep: b.Cols,
		Bias: bias, Add: add,
	}
	grain := max(1, gemmGrain/max(1, c.Cols*k)) // in rows
	if Serial(c.Rows, grain) {
		runBlocks(c)
	} else {
		runParallel(c, grain)
	}
}

// runParallel divides the rows of the product c among goroutines. It is separate from product
// because c, which the closure refers to, is allocated on the heap.
func runParallel[T Float](c Contraction[T], grain int) {
	For(c.Rows, grain, func(lo, hi int) { runBlocks(c.RowRange(lo, hi)) })
}

// kBlock is the number of terms in one block of the sum Σ_p A[i,p]·b[p,j]. It is so small that the
// operands of a block stay in the first-level cache and on few memory pages. If A is a transpose,
// consecutive terms are in different cache lines, and a block has only kBlockDown terms. The block
// length never depends on the number of goroutines or on whether operands are packed, so the bits
// of the result do not depend on them either.
const kBlock, kBlockDown = 192, 64

// runBlocks computes the product c block by block. If c.Add is set, the sum is a single block,
// because the whole sum must be complete before it is added to C.
func runBlocks[T Float](c Contraction[T]) {
	k, block := c.Steps, kBlock
	switch {
	case c.Add:
		block = max(k, 1)
	case c.AStep > 1:
		block = kBlockDown
	}
	if !c.Add && c.Cols >= 4*panelCols && c.Rows >= rowGroup && k >= 2*kBlock {
		runPacked(c, block)
		return
	}
	var segment [1]Segment
	for p := 0; p == 0 || p < k; p += block {
		segment[0] = Segment{A: p * c.AStep, B: p * c.BStep}
		c.Steps, c.Segments = min(block, k-p), segment[:]
		c.Run()
		c.Bias, c.Add = nil, true
	}
}

// Large products pack their operands: for each block of summed indices p, they copy groups of
// rowGroup rows of a and panels of panelCols columns of b into contiguous memory.
//
//	          panels of b, one after the other:
//	          ┌──── 48 ───┬──── 48 ───┬──── …
//	          │ row p     │ row p     │         in memory: all rows of a panel,
//	          │ row p + 1 │ row p + 1 │         48 numbers each, then the next panel
//	          └───────────┴───────────┴────
//	64 rows ┌─┐ ┌───────┐
//	of a,   │ │ │ piece │   each 64 × 48 piece of dst is the Contraction of a packed
//	packed  └─┘ └───────┘   group of rows and a panel
//
// Without packing, the rows of a large matrix are on different pages and compete for the same
// cache lines if the row stride is a power of two: a product of 1024×1024 matrices then takes 62
// ms instead of 52 ms (one core with AVX-512).
const panelCols, rowGroup = 48, 64

// runPacked computes the product c in blocks of the given number of steps, with packed operands.
func runPacked[T Float](c Contraction[T], block int) {
	const aRow = kBlock + 16 // not a power of two
	var group [rowGroup * aRow]T
	var segment [1]Segment
	panels := make([]T, block*c.Cols)
	for p := 0; p < c.Steps; p += block {
		steps := min(block, c.Steps-p)
		for q := range steps {
			from := c.B[(p+q)*c.BStep:][:c.Cols]
			for j := 0; j < c.Cols; j += panelCols {
				n := min(panelCols, c.Cols-j)
				copy(panels[j*steps+q*n:][:n], from[j:])
			}
		}
		for i := 0; i < c.Rows; i += rowGroup {
			rows := c.RowRange(i, min(i+rowGroup, c.Rows))
			for r := range rows.Rows {
				from := rows.A[r*c.ARow+p*c.AStep:]
				if c.AStep == 1 {
					copy(group[r*aRow:][:steps], from)
					continue
				}
				for q := range steps {
					group[r*aRow+q] = from[q*c.AStep]
				}
			}
			for j := 0; j < c.Cols; j += panelCols {
				piece := rows
				piece.Cols, piece.Steps = min(panelCols, c.Cols-j), steps
				piece.C, piece.Segments = rows.C[j:], segment[:]
				piece.A, piece.ARow, piece.AStep = group[:], aRow, 1
				piece.B, piece.BStep = panels[j*steps:], piece.Cols
				piece.Run()
			}
		}
		c.Bias, c.Add = nil, true
	}
}

// TransposeBlocks divides the rows of a into blocks with the given number of rows and transposes
// each block. Block i of dst.Data is a matrix [a.Cols×rows], the transpose of rows i·rows to
// (i+1)·rows − 1 of a. dst must have the shape of a and must not overlap it.
func TransposeBlocks[T Float](dst, a Matrix[T], rows int) {
	if dst.Shape() != a.Shape() || rows < 1 || a.Rows%rows != 0 {
		panic(fmt.Sprintf("linalg: TransposeBlocks: %v in blocks of %d rows does not fit %v", a.Shape(), rows, dst.Shape()))
	}
	kernel.Transpose(dst.Data, a.Data, rows, a.Cols)
}
