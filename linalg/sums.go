package linalg

import (
	"fmt"

	"hvae/linalg/internal/kernel"
)

// Sum adds up a along every axis on which dst has length 1: to a column (over
// samples), to a row (over features), to one element, or, where the shapes agree, not
// at all. Rows are added up from left to right, then one after the other.
func Sum[T Float](dst, a Matrix[T]) {
	if !dst.shape().repeats(a.shape()) {
		panic(fmt.Sprintf("linalg: Sum: %v does not sum to %v", a.shape(), dst.shape()))
	}
	if dst.shape() == a.shape() {
		copy(dst.Data, a.Data)
		return
	}
	clear(dst.Data)
	switch dr, dc := dst.strides(a.shape()); {
	case dc == 0:
		kernel.Sums(dst.Data, dr, a.Data, a.Cols, a.Rows, a.Cols)
	default:
		kernel.AddRows(dst.Data, a.Data, a.Rows)
	}
}

// MulSum multiplies a and b elementwise, repeating as Mul does, and adds the products
// up as Sum does, without storing them. It is the adjoint of Mul: with y = a ⊙ b, the
// gradient of a is MulSum(ȳ, b) to a's shape. To one element it is the dot product.
func MulSum[T Float](dst, a, b Matrix[T]) {
	full, ok := Broadcast(a.shape(), b.shape())
	if !ok || !dst.shape().repeats(full) {
		panic(fmt.Sprintf("linalg: MulSum: the product of %v and %v does not sum to %v", a.shape(), b.shape(), dst.shape()))
	}
	if dst.shape() == full {
		Mul(dst, a, b)
		return
	}
	clear(dst.Data)
	if b.Cols != full.Cols {
		a, b = b, a // what is constant along rows comes first; products commute bit for bit
	}
	ar, ac := a.strides(full)
	br, bc := b.strides(full)
	switch dr, dc := dst.strides(full); {
	case full.Rows*full.Cols == 0:
	case dc == 0 && ac == 1 && bc == 1: // along a row, to one element
		kernel.Dots(dst.Data, dr, a.Data, ar, b.Data, br, full.Rows, full.Cols)
	case dc == 1 && dr == 0 && ac == 0 && bc == 1: // down the columns, a constant along each row
		kernel.AddScaledRows(dst.Data, a.Data, ar, b.Data, br, full.Rows)
	case dc == 1 && dr == 0 && ac == 1 && bc == 1: // down the columns
		kernel.AddProducts(dst.Data, a.Data, ar, b.Data, br, full.Rows)
	default:
		for i := range full.Rows {
			for j := range full.Cols {
				dst.Data[i*dr+j*dc] += a.Data[i*ar+j*ac] * b.Data[i*br+j*bc]
			}
		}
	}
}

// AddSum adds the sums of the rows of a [m×n] to dst [m×1]: the bits of Sum, then Add.
func AddSum[T Float](dst, a Matrix[T]) {
	if dst.shape() != (Shape{a.Rows, 1}) {
		panic(fmt.Sprintf("linalg: AddSum: the rows of %v do not sum to %v", a.shape(), dst.shape()))
	}
	kernel.Sums(dst.Data, 1, a.Data, a.Cols, a.Rows, a.Cols)
}

// AddMulSum adds the dot products of the rows of a and b [m×n] to dst [m×1]: the bits of
// MulSum, then Add.
func AddMulSum[T Float](dst, a, b Matrix[T]) {
	if a.shape() != b.shape() || dst.shape() != (Shape{a.Rows, 1}) {
		panic(fmt.Sprintf("linalg: AddMulSum: the rows of %v and %v have no dot products %v", a.shape(), b.shape(), dst.shape()))
	}
	kernel.Dots(dst.Data, 1, a.Data, a.Cols, b.Data, b.Cols, a.Rows, a.Cols)
}

// Finite reports whether every element of m is finite.
func Finite[T Float](m Matrix[T]) bool {
	rest := m.Data
	if kernel.Singles[T]() {
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
		if sums != [columns]T{} {
			return false
		}
		rest = m.Data[rows*columns:]
	}
	for _, x := range rest {
		if x-x != 0 {
			return false
		}
	}
	return true
}
