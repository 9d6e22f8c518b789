package linalg

import "unsafe"

// rowArgs are the arguments of a kernel on rows of float64: the operands' first rows and
// the strides from row to row in bytes. asmgen knows the offsets.
type rowArgs struct {
	y, a, b, c                         unsafe.Pointer
	yStride, aStride, bStride, cStride int
	rows, cols                         int
}

// rowVectors reports whether the kernels on rows serve so many elements of s: calling one
// takes as long as some twenty elements in plain Go.
func rowVectors[T Float](s []T, n int) bool {
	return level > levelPlain && unsafe.Sizeof(T(0)) == 8 && n >= 20
}

// operand returns the address of the first of an operand's rows of n numbers, and their
// stride in bytes. The kernels check no bounds, so it does.
func operand[T Float](s []T, stride, rows, n int) (unsafe.Pointer, int) {
	_ = s[(rows-1)*stride+n-1]
	return unsafe.Pointer(unsafe.SliceData(s)), 8 * stride
}
