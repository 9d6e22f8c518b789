package kernel

import "unsafe"

// bandArgs are the arguments of a kernel that transposes blocks, bands of rows by quads,
// four columns after the other: the first four columns of a band in src become the first
// four rows of dst, as many columns of them as the band has rows. The next band is the rows
// below in src and the columns to the right in dst, and the next of the blocks lies block
// further on in both. All distances are in bytes.
//
// The kernel counts blocks down and done up. It leaves dst and src as they are: behind the last
// block they could point into memory that is not in use, and a garbage collector that finds
// such a pointer in args ends the program.
type bandArgs struct {
	dst, src             unsafe.Pointer
	dstRow, srcRow       int
	bands, quads, blocks int
	block, done          int
}

// A bandKernel is the number of the kernel for bands of so many rows. Those of a level
// are in order of falling rows.
type bandKernel struct{ rows, number int }

// Transpose writes the transposes of blocks of a, each rows × cols, to dst one after the
// other. The length of a is a multiple of a block's.
func Transpose[T Float](dst, a []T, rows, cols int) {
	dst = dst[:len(a)]
	if singles[T]() && cols >= 4 {
		for _, k := range bandKernels[level] {
			if rows >= k.rows {
				transposeBands(k, dst, a, rows, cols)
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

// transposeBands transposes by a vector kernel. Where a band does not divide the rows, or
// four the columns, the last overlap those before.
func transposeBands[T Float](k bandKernel, dst, a []T, rows, cols int) {
	size := rows * cols
	most := max(1, 4096/size) * size // so that the nearest cache holds what is at work
	for lo := 0; lo < len(a); lo += most {
		args := bandArgs{dstRow: 4 * rows, srcRow: 4 * cols, block: 4 * size}
		for _, r := range [2][2]int{{0, rows / k.rows}, {rows - k.rows, min(1, rows%k.rows)}} {
			for _, c := range [2][2]int{{0, cols / 4}, {cols - 4, min(1, cols%4)}} {
				if r[1] == 0 || c[1] == 0 {
					continue
				}
				args.dst, args.src = pointer(dst[lo+c[0]*rows+r[0]:]), pointer(a[lo+r[0]*cols+c[0]:])
				args.bands, args.quads, args.blocks, args.done = r[1], c[1], min(most, len(a)-lo)/size, 0
				bands(k.number, &args)
			}
		}
	}
}
