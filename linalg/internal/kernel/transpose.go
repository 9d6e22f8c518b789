package kernel

import "unsafe"

// transposeArgs has the arguments of a transpose kernel. It divides each matrix in src into
// bands of rows, and these into quads of four columns. The quads of a band become rows of dst,
// four each, in as many columns as the band has rows. All distances are in bytes.
//
// The kernel counts matrices down and done up. It does not change dst and src: beyond the last
// matrix they could point into unused memory, and a garbage collector that finds such a
// pointer in the arguments ends the program.
type transposeArgs struct {
	dst, src       unsafe.Pointer
	dstRow, srcRow int // row strides
	bands, quads   int // in each matrix
	matrices       int
	matrix         int // distance between matrices, in both dst and src
	done           int // distance of the current matrix from the first
}

// A transposeKernel is the number of the kernel for bands with the given number of rows.
type transposeKernel struct{ rows, number int }

// Transpose writes the transposes of consecutive matrices in a, each rows × cols, to dst one
// after the other. The length of a must be a multiple of a matrix's.
func Transpose[T Float](dst, a []T, rows, cols int) {
	dst = dst[:len(a)]
	if SIMD32[T]() && cols >= 4 {
		for _, k := range transposeKernels[level] { // by falling number of rows
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

// transposeSIMD transposes with a SIMD kernel. If the bands do not divide the rows, or the
// quads the columns, the last ones overlap those before.
func transposeSIMD[T Float](k transposeKernel, dst, a []T, rows, cols int) {
	size := rows * cols
	chunk := max(1, 4096/size) * size // matrices that the first-level cache holds
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
