package kernel

import "unsafe"

// transposeArgs holds the arguments of a transpose kernel. A kernel for n rows divides each matrix in src into bands of
// n rows, and each band into quads [n×4]. The transpose of a quad is a block [4×n] of dst. All strides are in bytes.
type transposeArgs struct {
	dst, src       unsafe.Pointer
	dstRow, srcRow int // row strides
	bands, quads   int // number of bands of a matrix, number of quads of a band
	matrices       int // number of consecutive matrices
	// offsets from the end of the last band of a matrix to the start of the next matrix
	dstNext, srcNext int
}

// A transposeKernel is a kernel for bands of a fixed number of rows, with its index in the table of transpose kernels.
type transposeKernel struct{ rows, index int }

// Transpose transposes the consecutive matrices [rows×cols] in the slice a and stores the results in dst, in the same
// order. The length of a must be a multiple of rows·cols.
func Transpose[T Float](dst, a []T, rows, cols int) {
	dst = dst[:len(a)]
	if simd32[T]() && cols >= 4 {
		for _, k := range kernelSets[level].transposes { // tallest bands first
			if rows >= k.rows {
				transposeSIMD(k, dst, a, rows, cols)
				return
			}
		}
	}
	for lo := 0; lo < len(a); lo += rows * cols {
		for i := range rows {
			for j := range cols {
				dst[lo+j*rows+i] = a[lo+i*cols+j]
			}
		}
	}
}

// transposeSIMD implements Transpose with the SIMD kernel k, which transposes bands of k.rows rows, four columns (a
// quad) at a time. If the number of rows is not a multiple of k.rows, the last two bands overlap. If the number of
// columns is not a multiple of four, the last two quads overlap.
func transposeSIMD[T Float](k transposeKernel, dst, a []T, rows, cols int) {
	size := rows * cols
	chunk := max(1, 4096/size) * size // elements of as many matrices as fit into the first-level cache, at least one
	type span struct{ first, count int }
	// The first span of rows consists of bands that do not overlap. If rows remain, the second span is one more band,
	// which overlaps the first span. Otherwise, it is empty. Columns are divided into spans of quads in the same way.
	bands := [2]span{{0, rows / k.rows}, {rows - k.rows, min(1, rows%k.rows)}}
	quads := [2]span{{0, cols / 4}, {cols - 4, min(1, cols%4)}}
	for lo := 0; lo < len(a); lo += chunk {
		args := transposeArgs{dstRow: 4 * rows, srcRow: 4 * cols}
		args.matrices = min(chunk, len(a)-lo) / size
		for _, b := range bands {
			for _, q := range quads {
				if b.count == 0 || q.count == 0 {
					continue
				}
				args.dst = pointer(dst[lo+q.first*rows+b.first:])
				args.src = pointer(a[lo+b.first*cols+q.first:])
				args.bands, args.quads = b.count, q.count
				args.dstNext, args.srcNext = 4*(size-b.count*k.rows), 4*(size-b.count*k.rows*cols)
				callTranspose(k.index, &args)
			}
		}
	}
}
