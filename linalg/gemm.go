package linalg

import (
	"fmt"
	"sync"

	"hvae/linalg/internal/kernel"
)

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
	kernel.Transpose(bt.Data, b.Data, b.Rows, b.Cols)
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

// kBlock is how much of the summed index a product adds up at a time: so much of the
// operands stays in the nearest cache, and on few pages, while it is used. It is less where
// the index goes down a's rows, from cache line to cache line. Where an element's sum is cut
// depends on nothing else: its bits are those of any other way to compute it.
const kBlock, kBlockDown = 192, 64

// productRange computes rows lo to hi-1 of a product, a block of the summed index after
// the other. A sum that goes to what dst holds is added up as a whole first.
func productRange[T Float](dst Matrix[T], a []T, ai, ap, k int, b Matrix[T], bias []T, add bool, lo, hi int) {
	if bias != nil {
		bias = bias[lo:hi]
	}
	c := Contraction[T]{
		Rows: hi - lo, Cols: dst.Cols, Groups: 1,
		C: dst.Data[lo*dst.Cols:], CRow: dst.Cols,
		A: a, ARow: ai, AStep: ap,
		B: b.Data, BStep: b.Cols,
		Bias: bias, Add: add,
	}
	block := kBlock
	switch {
	case add:
		block = max(k, 1)
	case ap > 1:
		block = kBlockDown
	}
	if !add && dst.Cols >= 4*panelCols && c.Rows >= rowGroup && k >= 2*kBlock {
		runPacked(&c, lo*ai, k, block)
		return
	}
	var segment [1]Segment
	for p := 0; p == 0 || p < k; p += block {
		segment[0] = Segment{A: lo*ai + p*ap, B: p * b.Cols}
		c.Steps, c.Segments = min(block, k-p), segment[:]
		c.Run()
		c.Bias, c.Add = nil, true
	}
}

// Large products run on copies of pieces of their operands, whose rows lie next to each
// other: panelCols columns of b, and rowGroup rows of a, for a block of steps.
//
//	          panels of b, one after the other:
//	          ┌──── 48 ───┬──── 48 ───┬──── …
//	          │ row p     │ row p     │         in memory: all rows of a panel,
//	          │ row p + 1 │ row p + 1 │         48 numbers each, then the next panel
//	          └───────────┴───────────┴────
//	64 rows ┌─┐ ┌───────┐
//	of a,   │ │ │ piece │   each piece of dst, 64 × 48, is a Contraction of the rows of a
//	packed  └─┘ └───────┘   with a panel
//
// In place, rows of a large matrix are pages apart, and where their distance is a power of
// two, in each other's way in the caches: without copies a product of 1024³ takes a fifth
// longer (62 ms for 52 on one core with AVX-512).
const panelCols, rowGroup = 48, 64

// packed keeps the copies of b between products.
var packed sync.Pool

// runPacked runs a contraction over one segment of k steps, which begins at A[ao], so many
// steps at a time.
func runPacked[T Float](c *Contraction[T], ao, k, block int) {
	const aRow = kBlock + 16 // apart from a power of two
	var group [rowGroup * aRow]T
	var segment [1]Segment
	b, ok := packed.Get().(*[]T)
	if !ok || len(*b) < kBlock*c.Cols {
		b = new([]T)
		*b = make([]T, kBlock*c.Cols)
	}
	defer packed.Put(b)
	for p := 0; p < k; p += block {
		steps := min(block, k-p)
		for q := range steps {
			from := c.B[(p+q)*c.BStep:][:c.Cols]
			for j := 0; j < c.Cols; j += panelCols {
				n := min(panelCols, c.Cols-j)
				copy((*b)[j*steps+q*n:][:n], from[j:])
			}
		}
		for i := 0; i < c.Rows; i += rowGroup {
			rows := min(rowGroup, c.Rows-i)
			for r := range rows {
				from := c.A[ao+(i+r)*c.ARow+p*c.AStep:]
				if c.AStep == 1 {
					copy(group[r*aRow:][:steps], from)
					continue
				}
				for q := range steps {
					group[r*aRow+q] = from[q*c.AStep]
				}
			}
			for j := 0; j < c.Cols; j += panelCols {
				n := min(panelCols, c.Cols-j)
				segment[0] = Segment{B: j * steps}
				piece := Contraction[T]{
					Rows: rows, Cols: n, Steps: steps, Groups: 1,
					C: c.C[i*c.CRow+j:], CRow: c.CRow,
					A: group[:], ARow: aRow, AStep: 1,
					B: *b, BStep: n,
					Segments: segment[:], Add: p > 0,
				}
				if p == 0 && c.Bias != nil {
					piece.Bias = c.Bias[i:]
				}
				piece.Run()
			}
		}
	}
}

// grainFor returns how many pieces of the given work each make up a grain of work.
func grainFor(grain, work int) int { return max(1, grain/max(1, work)) }

// TransposeBlocks transposes each block of so many rows of a by itself: block i of
// dst.Data is [Cols×rows], the transpose of rows i·rows to (i+1)·rows − 1 of a. The
// shape of dst is that of a.
func TransposeBlocks[T Float](dst, a Matrix[T], rows int) {
	if dst.Shape() != a.Shape() || rows < 1 || a.Rows%rows != 0 {
		panic(fmt.Sprintf("linalg: TransposeBlocks: %v in blocks of %d rows does not fit %v", a.Shape(), rows, dst.Shape()))
	}
	kernel.Transpose(dst.Data, a.Data, rows, a.Cols)
}
