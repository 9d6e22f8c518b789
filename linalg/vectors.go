package linalg

import "unsafe"

// Levels of vector kernels, from none to the fastest.
const (
	levelPlain = iota
	levelAVX2
	levelAVX512
)

// single returns the address of the first element of s, which must be float32: an
// argument of a vector kernel.
func single[T Float](s []T) *float32 { return (*float32)(unsafe.Pointer(unsafe.SliceData(s))) }

// Lanes returns how many float32 the vector kernels in use compute at a time: 16, 8, or 0
// where there are none.
func Lanes() int { return [...]int{0, 8, 16}[level] }
