// Package kernel implements the loops of package linalg. They take slices, check bounds, and
// run on the calling goroutine. Only this package uses unsafe.
//
// Each kernel is written twice: in plain Go, which defines it and runs anywhere, and as SIMD
// instructions, which the program in ../asmgen generates. One function calls both:
//
//	func Add[T Float](y, a, b []T) {
//		a, b = a[:len(y)], b[:len(y)] // the assembly does not check bounds
//		if SIMD32[T]() {
//			callElementwise(…)
//			return
//		}
//		for i := range y { … }
//	}
//
// Start with contraction.go, the products of dense layers and convolutions, and tiles.go,
// which divides them among tiles that fit the vector registers. elementwise.go has the
// elementwise functions, rows.go the loops over rows of float64 matrices, and level.go
// chooses the instruction set.
//
// In float32 all instruction sets give the same bits: they do the same operations, fused in
// the same places, in the same order. Plain Go differs from them because it does not fuse
// products and sums. In float64 plain Go and all instruction sets give the same bits. A
// compiler may fuse x*y + z; the conversion in T(x*y) + z prevents that.
package kernel

import "unsafe"

//go:generate go run ../asmgen

// Float is the set of element types.
type Float interface{ float32 | float64 }

// SIMD32 reports whether T is float32 and SIMD kernels are in use.
func SIMD32[T Float]() bool { return level > levelNone && unsafe.Sizeof(T(0)) == 4 }

// simd64 reports whether T is float64 and SIMD kernels are in use.
func simd64[T Float]() bool { return level > levelNone && unsafe.Sizeof(T(0)) == 8 }

// pointer returns the address of the first element of s, an argument of an assembly kernel.
func pointer[T Float](s []T) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(s)) }
