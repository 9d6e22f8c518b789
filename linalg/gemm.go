package linalg

import (
	"fmt"

	"hvae/linalg/internal/kernel"
)

// This file implements the matrix products of a dense layer Y = W·X + b. Affine computes the layer. If
// δ is the gradient with respect to Y, then MatMulTA computes the gradient Wᵀ·δ with respect to X, and
// MatMulTB computes the gradient δ·Xᵀ with respect to W.

// A Contraction is a sum of products of matrices. Dense layers, convolutions and their gradients are
// contractions. The fields and methods are documented in internal/kernel/contraction.go.
type Contraction[T Float] = kernel.Contraction[T]

// A Segment of a Contraction holds the indices at which the matrices A_s and B_{s,0} start in the slices
// A and B.
type Segment = kernel.Segment

// gemmGrain is the minimum number of multiply-adds for a separate goroutine, about 50 µs of work.
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
		return
	}
	shared := c // the closure moves this copy to the heap
	For(c.Rows, grain, func(lo, hi int) { runBlocks(shared.RowRange(lo, hi)) })
}

// A sum Σ_p A[i,p]·b[p,j] is computed in blocks of kBlock terms, so that the elements of A and b stay
// in the first-level cache and on few memory pages. If A is a transpose, the elements of a row of A are
// in different cache lines, so a block has only kBlockDown terms. The division into blocks affects
// rounding. For reproducible results, it depends neither on the number of goroutines nor on whether the
// operands are packed (copied to contiguous memory).
const kBlock, kBlockDown = 192, 64

// runBlocks computes the contraction c in blocks of kBlock or kBlockDown terms. If c.Add is set, all
// terms form one block, so that the complete sum is added to C at once.
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

// A product with at least 64 rows, 192 columns and 384 terms packs its operands, unless it is added to C.
// For each block of n terms, it copies groups of rowGroup = 64 rows of A and panels of panelCols = 48
// columns of b to contiguous memory. After the first block, the product of a group and a panel is added to
// a part of C:
//
//	C [64×48] += A [64×n] · b [n×48]
//
// Without packing, the rows of a large matrix are on different memory pages. They also compete for the
// same cache lines if the distance between them is a power of two. Packing reduces the time of a
// product of 1024×1024 matrices from 62 to 52 ms (one core with AVX-512).
const panelCols, rowGroup = 48, 64

// runPacked packs the operands of c and computes the sums in blocks of at most block terms.
func runPacked[T Float](c Contraction[T], block int) {
	const aRow = kBlock + 16 // distance between rows in group, not a power of two
	var group [rowGroup * aRow]T
	var segment [1]Segment
	panels := make([]T, block*c.Cols) // one panel [steps×48] after the other
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

// TransposeBlocks divides a [n·rows × cols] into n matrices [rows×cols] and stores their transposes
// [cols×rows] in dst.Data, one after the other. dst must have the shape of a and must not overlap it.
func TransposeBlocks[T Float](dst, a Matrix[T], rows int) {
	if dst.Shape() != a.Shape() || rows < 1 || a.Rows%rows != 0 {
		panic(fmt.Sprintf("linalg: TransposeBlocks: cannot divide %v into blocks of %d rows and store their transposes in %v", a.Shape(), rows, dst.Shape()))
	}
	kernel.Transpose(dst.Data, a.Data, rows, a.Cols)
}
