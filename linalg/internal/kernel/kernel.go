// Package kernel has the loops under the matrices of package linalg. They take slices,
// check their bounds, and run on the calling goroutine; nothing here knows of matrices,
// and nothing above uses unsafe.
//
// Each kernel is written twice: in plain Go, which is its definition and runs anywhere,
// and as vector instructions, which the program in ../asmgen writes. One function holds
// both, in one form throughout:
//
//	func Add[T Float](y, a, b []T) {
//		a, b = a[:len(y)], b[:len(y)] // assembly checks no bounds
//		if singles[T]() {
//			lane(laneAdd, &laneArgs{…})
//			return
//		}
//		for i := range y { … }
//	}
//
// Read contraction.go first: the products behind dense layers and convolutions. tiles.go
// cuts them into pieces that fit the registers of vectors, blocks.go, where there are none,
// into pieces that fit the others. lanes.go has the elementwise functions of float32, rows.go
// the loops over rows of float64, transpose.go transposition. level.go chooses among the
// instruction sets.
//
// In float32 every level of vectors gives the same bits: the same operations, fused in the
// same places, in the same order. Plain Go rounds otherwise there (it does not fuse
// products and sums), and gives the same bits in float64. Some compilers would fuse x*y + z;
// the conversion in T(x*y) + z keeps them from it, so that plain Go is the same everywhere.
package kernel

import "unsafe"

//go:generate go run ../asmgen

// Float is the set of element types.
type Float interface{ float32 | float64 }

// singles reports whether T is float32 and there are vector kernels for it.
func singles[T Float]() bool { return level > levelNone && unsafe.Sizeof(T(0)) == 4 }

// doubles reports whether T is float64 and there are vector kernels for it.
func doubles[T Float]() bool { return level > levelNone && unsafe.Sizeof(T(0)) == 8 }

// Singles reports whether T is float32 and vectors compute with it: loops are then ten
// times as fast, and worth a goroutine only if they are longer.
func Singles[T Float]() bool { return singles[T]() }

// pointer returns the address of the first element of s: an argument of a vector kernel,
// which counts in bytes and knows the type.
func pointer[T Float](s []T) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(s)) }
