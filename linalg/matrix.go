// Package linalg is the ground floor: dense matrices over float32 or float64
// and the whole-matrix operations that layers, flows and their gradients need.
//
// A batch is a matrix whose columns are samples: [features × samples], row-major,
// so that the samples of one feature are contiguous. A dense layer is then W·X, and
// the paper's column vectors z, ρ, ε are what they look like.
//
// Start with Matrix in this file, then elementwise.go (broadcasting), sums.go (sums and
// sums of products along axes), gemm.go (W·X and its two gradients), contraction.go (what
// is behind them and behind convolutions), scalar.go (the overflow-safe functions) and
// parallel.go (loops over goroutines).
//
// The loops themselves are in internal/kernel, in plain Go and as vector instructions.
// In float32 all vectors give the same bits, and plain Go rounds otherwise; in float64
// everything gives the same bits.
//
// Operations write into a destination given first, and allocate nothing but what
// goroutines take where a matrix is large enough for several. Shapes that
// do not fit are programming errors: they panic and name the shapes. Every sum runs
// in an order fixed by the shapes alone, so results do not depend on GOMAXPROCS.
//
// The package imports the standard library and its own internal/kernel only.
package linalg

import (
	"fmt"

	"hvae/linalg/internal/kernel"
)

// Float is the set of element types.
type Float = kernel.Float

// Matrix is a dense row-major view: element (i, j) is Data[i*Cols+j], and
// len(Data) == Rows*Cols. Like a slice, a copy of a Matrix shares its elements.
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

// Of views data as a rows × cols matrix. It panics if the length is not rows*cols.
func Of[T Float](rows, cols int, data []T) Matrix[T] {
	if rows < 0 || cols < 0 || len(data) != rows*cols {
		panic(fmt.Sprintf("linalg: Of: %d elements cannot be viewed as [%d×%d]", len(data), rows, cols))
	}
	return Matrix[T]{rows, cols, data}
}

// Column views data as a column vector, len(data) × 1.
func Column[T Float](data ...T) Matrix[T] { return Matrix[T]{len(data), 1, data} }

// At returns element (i, j).
func (m Matrix[T]) At(i, j int) T { return m.Row(i)[j] }

// Row returns row i, the samples of feature i, sharing the matrix's elements.
func (m Matrix[T]) Row(i int) []T { return m.Data[i*m.Cols : (i+1)*m.Cols : (i+1)*m.Cols] }

// RowRange returns rows lo to hi-1 as a matrix that shares m's elements.
func (m Matrix[T]) RowRange(lo, hi int) Matrix[T] {
	if lo < 0 || hi < lo || hi > m.Rows {
		panic(fmt.Sprintf("linalg: RowRange(%d, %d) of a %v matrix", lo, hi, m.Shape()))
	}
	return Matrix[T]{hi - lo, m.Cols, m.Data[lo*m.Cols : hi*m.Cols : hi*m.Cols]}
}

// Clone returns a copy of m with elements of its own.
func (m Matrix[T]) Clone() Matrix[T] {
	c := New[T](m.Rows, m.Cols)
	copy(c.Data, m.Data)
	return c
}

// Fill sets every element to v.
func (m Matrix[T]) Fill(v T) {
	for i := range m.Data {
		m.Data[i] = v
	}
}

// Shape is a matrix's dimensions; it prints as [rows×cols].
type Shape struct{ Rows, Cols int }

// Shape returns m's dimensions.
func (m Matrix[T]) Shape() Shape { return Shape{m.Rows, m.Cols} }

// shape is Shape for the loops over small matrices: a method that takes a matrix by value
// copies its five words, even where it is inlined.
func (m *Matrix[T]) shape() Shape { return Shape{m.Rows, m.Cols} }

// String formats the shape for messages.
func (s Shape) String() string { return fmt.Sprintf("[%d×%d]", s.Rows, s.Cols) }

// Broadcast returns the shape of an elementwise operation on operands of shapes a
// and b: along each axis they agree, or one of them has length 1 and is repeated.
// ok reports whether they fit.
func Broadcast(a, b Shape) (s Shape, ok bool) {
	rows, okRows := broadcastAxis(a.Rows, b.Rows)
	cols, okCols := broadcastAxis(a.Cols, b.Cols)
	return Shape{rows, cols}, okRows && okCols
}

func broadcastAxis(a, b int) (int, bool) {
	switch {
	case a == b, b == 1:
		return a, true
	case a == 1:
		return b, true
	}
	return 0, false
}

// repeats reports whether an operand of shape s can be repeated to shape full.
func (s Shape) repeats(full Shape) bool {
	return (s.Rows == full.Rows || s.Rows == 1) && (s.Cols == full.Cols || s.Cols == 1)
}

// strides returns how far apart in m's Data neighbours of the broadcast matrix lie,
// down a column and along a row: 0 where m is repeated.
func (m *Matrix[T]) strides(full Shape) (row, col int) {
	if m.Rows == full.Rows {
		row = m.Cols
	}
	if m.Cols == full.Cols {
		col = 1
	}
	return row, col
}
