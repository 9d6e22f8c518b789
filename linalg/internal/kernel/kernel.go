// Package kernel implements the loops of package linalg. Its functions operate on slices, check bounds and run on the
// calling goroutine. Outside tests, only this package uses unsafe.
//
// For each function, a loop in plain Go defines the result and can run on every machine. Most loops also have a SIMD
// kernel for float32 or float64, an assembly function that ../asmgen generates. A Go function runs either the kernel or
// the loop:
//
//	func Add[T Float](y, a, b []T) {
//		a, b = a[:len(y)], b[:len(y)] // because the assembly does not check bounds
//		if simd32[T]() {
//			elementwise(opAdd, y, a, b, nil) // runs the SIMD kernel
//			return
//		}
//		for i := range y { … }
//	}
//
// Start with contraction.go, which defines the matrix products of dense layers and convolutions. The file tiles.go
// divides these products into tiles that fit into the vector registers. The file elementwise.go has elementwise
// functions, rows.go has loops over rows, transpose.go has transposes, and level.go selects the instruction set.
//
// All instruction sets give the same bits, because they perform the same operations in the same order and fuse the same
// multiplications and additions. In float32, plain Go rounds differently, because it does not fuse multiplications and
// additions. A Go compiler may fuse x*y + z, but not T(x*y) + z, because a conversion rounds.
package kernel

import "unsafe"

// Float is the type constraint for matrix elements.
type Float interface{ float32 | float64 }

// simd32 reports whether T is float32 and SIMD kernels are in use.
func simd32[T Float]() bool { return level > levelNone && unsafe.Sizeof(T(0)) == 4 }

// simd64 reports whether T is float64 and SIMD kernels are in use.
func simd64[T Float]() bool { return level > levelNone && unsafe.Sizeof(T(0)) == 8 }

func pointer[T Float](s []T) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(s)) }

// Overlap implements linalg.Overlap.
func Overlap[T Float](a, b []T) bool {
	address := func(x *T) uintptr { return uintptr(unsafe.Pointer(x)) }
	return len(a) > 0 && len(b) > 0 &&
		address(&a[0]) <= address(&b[len(b)-1]) && address(&b[0]) <= address(&a[len(a)-1])
}
