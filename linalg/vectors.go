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

// Finite reports whether every element of m is finite.
func Finite[T Float](m Matrix[T]) bool {
	// 0·x is zero unless x is NaN or infinite, and then it is NaN.
	const columns = 128
	var sums [columns]T
	var zero, segment = [1]T{}, [1]Segment{}
	rows := len(m.Data) / columns
	c := Contraction[T]{
		Rows: 1, Cols: 16, Groups: columns / 16, Steps: rows,
		C: sums[:], CRow: columns, CGroup: 16,
		A: zero[:], B: m.Data, BStep: columns, BGroup: 16, Segments: segment[:],
	}
	c.Run()
	total := T(0)
	for _, s := range sums {
		total += s
	}
	for _, v := range m.Data[rows*columns:] {
		total += 0 * v
	}
	return total == 0
}
