package linalg

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"unsafe"
)

// Levels of vector kernels, from none to the fastest.
const (
	levelPlain = iota
	levelAVX2
	levelAVX512
)

// levels are their names.
var levels = []string{"none", "avx2", "avx512"}

// level is which kernels run: the best that processor and operating system support, or
// less if the environment variable HVAE_SIMD says so.
var level, levelError = chooseLevel(os.Getenv("HVAE_SIMD"), bestLevel())

// chooseLevel returns the level wished for, if the best is not less.
func chooseLevel(wish string, best int) (int, error) {
	if wish == "" {
		return best, nil
	}
	l := slices.Index(levels, wish)
	if l < 0 {
		return best, fmt.Errorf("HVAE_SIMD is %q; it chooses the vector kernels, and can be %s, or unset for the best",
			wish, strings.Join(levels, ", "))
	}
	return min(l, best), nil
}

// Vectors returns the name of the vector kernels in use: avx512, avx2, or none, where
// everything is plain Go. They are the best that the processor has, unless the environment
// variable HVAE_SIMD, read when the program starts, names others; it cannot ask for more
// than there is. If it holds anything else, the best run, and Vectors says so by its
// error: a command should stop there, and a library that does not ask has lost nothing.
func Vectors() (name string, err error) { return levels[level], levelError }

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
