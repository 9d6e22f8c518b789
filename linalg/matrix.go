// Package linalg implements float32 and float64 matrices and the operations that neural networks, flows and their
// gradients need.
//
// A batch is a row-major matrix [features × samples], so the values of one feature are contiguous in memory. Each
// sample is a column, as in the HVAE paper, and a dense layer is the product W·X.
//
// Start with Matrix in this file. The file elementwise.go contains the broadcasting operations, sums.go contains sums
// along axes, gemm.go contains matrix products, and parallel.go contains parallel loops.
//
// Package internal/kernel implements the inner loops of these operations, in plain Go and with SIMD instructions. All
// SIMD instruction sets give bit-identical results. In float32, plain Go rounds differently. In float64, plain Go and
// SIMD give the same bits on the same machine, except for Exp, Log, Tanh, Sigmoid and SoftplusSigmoid.
//
// Operations write to their first argument, the destination. The destination of an elementwise operation may be an
// operand of the same shape; other destinations must not overlap an operand. If the shapes of the arguments do not
// match, operations panic with a message that contains the shapes. The shapes alone determine the order in which the
// terms of a sum are added, so results do not depend on GOMAXPROCS.
package linalg

import (
	"fmt"
	"slices"

	"hvae/linalg/internal/kernel"
)

// Float is the type constraint for matrix elements.
type Float = kernel.Float

// A Matrix is a dense matrix in row-major order: element (i, j) is Data[i*Cols+j], and len(Data) is Rows*Cols. As
// with a slice, a copy of a Matrix shares the elements of the original.
type Matrix[T Float] struct {
	Rows, Cols int
	Data       []T
}

// New returns a zeroed rows × cols matrix. It panics if a dimension is negative.
func New[T Float](rows, cols int) Matrix[T] {
	if rows < 0 || cols < 0 {
		panic(fmt.Sprintf("linalg: New(%d, %d): negative dimension", rows, cols))
	}
	return Matrix[T]{rows, cols, make([]T, rows*cols)}
}

// Of returns a rows × cols matrix that stores its elements in data. It panics if len(data) is not rows*cols.
func Of[T Float](rows, cols int, data []T) Matrix[T] {
	if rows < 0 || cols < 0 || len(data) != rows*cols {
		panic(fmt.Sprintf("linalg: Of: %d elements cannot be viewed as [%d×%d]", len(data), rows, cols))
	}
	return Matrix[T]{rows, cols, data}
}

// Column returns a column vector that stores its elements in data, without copying.
func Column[T Float](data ...T) Matrix[T] { return Matrix[T]{len(data), 1, data} }

// At returns element (i, j).
func (m Matrix[T]) At(i, j int) T { return m.Row(i)[j] }

// Row returns row i of m, which holds the values of feature i for all samples. The slice shares its elements with m.
func (m Matrix[T]) Row(i int) []T { return m.Data[i*m.Cols : (i+1)*m.Cols : (i+1)*m.Cols] }

// RowRange returns rows lo to hi-1 of m as a matrix that shares its elements with m.
func (m Matrix[T]) RowRange(lo, hi int) Matrix[T] {
	if lo < 0 || hi < lo || hi > m.Rows {
		panic(fmt.Sprintf("linalg: RowRange(%d, %d) is out of range for a %v matrix", lo, hi, m.Shape()))
	}
	return Matrix[T]{hi - lo, m.Cols, m.Data[lo*m.Cols : hi*m.Cols : hi*m.Cols]}
}

// Clone returns a deep copy of m.
func (m Matrix[T]) Clone() Matrix[T] {
	return Matrix[T]{m.Rows, m.Cols, slices.Clone(m.Data)}
}

// Fill sets every element of m to v.
func (m Matrix[T]) Fill(v T) {
	for i := range m.Data {
		m.Data[i] = v
	}
}

// Overlap reports whether a and b share memory.
func Overlap[T Float](a, b Matrix[T]) bool { return kernel.Overlap(a.Data, b.Data) }

// A Shape holds the dimensions of a matrix. Package fmt prints it as [rows×cols].
type Shape struct{ Rows, Cols int }

// Shape returns the dimensions of m. The receiver is a pointer because copying m would slow down small operations.
func (m *Matrix[T]) Shape() Shape { return Shape{m.Rows, m.Cols} }

// String returns the shape as [rows×cols].
func (s Shape) String() string { return fmt.Sprintf("[%d×%d]", s.Rows, s.Cols) }

// Broadcast returns the shape of the result of an elementwise operation on operands of shapes a and b, and reports
// whether the shapes are compatible. Two shapes are compatible if, along each axis, their lengths are equal or one
// length is 1. An operand with length 1 along an axis is repeated along it.
func Broadcast(a, b Shape) (s Shape, ok bool) {
	s = a
	if a.Rows == 1 {
		s.Rows = b.Rows
	}
	if a.Cols == 1 {
		s.Cols = b.Cols
	}
	return s, b.broadcastsTo(s)
}

// broadcastsTo reports whether an operand of shape s can be broadcast to shape full.
func (s Shape) broadcastsTo(full Shape) bool {
	return (s.Rows == full.Rows || s.Rows == 1) && (s.Cols == full.Cols || s.Cols == 1)
}

// strides returns the strides of m when it is broadcast to shape full: element (i, j) is m.Data[i*row + j*col]. The
// stride along an axis is 0 if m must be repeated along that axis.
func (m *Matrix[T]) strides(full Shape) (row, col int) {
	if m.Rows == full.Rows {
		row = m.Cols
	}
	if m.Cols == full.Cols {
		col = 1
	}
	return row, col
}

// Vectors returns the name of the SIMD kernels in use: avx512 or avx2 on amd64, neon on arm64, or none for plain Go.
// The environment variable HVAE_SIMD selects the kernels when the program starts. If the variable is unset, the program
// uses the best kernels that the processor supports. If the variable does not name supported kernels, the program still
// uses the best kernels, but Vectors returns an error. A command should then exit, but a library may ignore the error.
func Vectors() (name string, err error) { return kernel.Level() }

// PeakLoop runs n iterations of a loop of independent multiply-adds in vector registers. It returns the number of
// float32 operations performed, or 0 in plain Go. Dividing this number by the elapsed time gives the peak speed of a
// core.
func PeakLoop(n int) (operations int) { return kernel.Peak(n) }
