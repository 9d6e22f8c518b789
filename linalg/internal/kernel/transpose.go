package kernel

import "unsafe"

// transposeArgs holds the arguments of a transpose kernel. The kernel divides each matrix in src
// into bands of as many rows as the kernel processes at once, and each band into quads of four
// columns. It transposes a quad into four rows of dst. All strides and distances are in bytes.
//
// The kernel decrements matrices and increments done, but does not change dst and src. Beyond the
// last matrix they could point into unused memory, and a garbage collector that finds such a
// pointer in the arguments aborts the program.
type transposeArgs struct {
	dst, src       unsafe.Pointer
	dstRow, srcRow int // row strides
	bands, quads   int // numbers of bands in a matrix and of quads in a band
	matrices       int // number of matrices left
	matrix         int // distance between consecutive matrices, in both dst and src
	done           int // distance of the current matrix from the first
}

// A transposeKernel holds the number of rows of a band and the number of the kernel that
// transposes such bands.
type transposeKernel struct{ rows, number int }

// Transpose transposes each of the consecutive matrices in a, which are rows × cols, and writes
// the results to dst one after the other. The length of a must be a multiple of rows·cols.
func Transpose[T Float](dst, a []T, rows, cols int) {
	dst = dst[:len(a)]
	if SIMD32[T]() && cols >= 4 {
		for _, k := range kernelSets[level].transposes {
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

// transposeSIMD transposes consecutive matrices with the SIMD kernel k. If the number of rows is
// not a multiple of the rows of a band, the last band overlaps the band before it; if the number
// of columns is not a multiple of four, the last quad overlaps the quad before it.
func transposeSIMD[T Float](k transposeKernel, dst, a []T, rows, cols int) {
	size := rows * cols
	chunk := max(1, 4096/size) * size // elements of as many matrices as the first-level cache holds
	for lo := 0; lo < len(a); lo += chunk {
		args := transposeArgs{dstRow: 4 * rows, srcRow: 4 * cols, matrix: 4 * size}
		for _, r := range [2][2]int{{0, rows / k.rows}, {rows - k.rows, min(1, rows%k.rows)}} {
			for _, c := range [2][2]int{{0, cols / 4}, {cols - 4, min(1, cols%4)}} {
				if r[1] == 0 || c[1] == 0 {
					continue
				}
				args.dst, args.src = pointer(dst[lo+c[0]*rows+r[0]:]), pointer(a[lo+r[0]*cols+c[0]:])
				args.bands, args.quads, args.matrices, args.done = r[1], c[1], min(chunk, len(a)-lo)/size, 0
				callTranspose(k.number, &args)
			}
		}
	}
}
