package linalg

import "fmt"

// Sum adds up a along every axis on which dst has length 1: to a column (over
// samples), to a row (over features), to one element, or, where the shapes agree, not
// at all. Rows are added up from left to right, then one after the other.
func Sum[T Float](dst, a Matrix[T]) {
	if !dst.Shape().repeats(a.Shape()) {
		panic(fmt.Sprintf("linalg: Sum: %v does not sum to %v", a.Shape(), dst.Shape()))
	}
	if dst.Shape() == a.Shape() {
		copy(dst.Data, a.Data)
		return
	}
	clear(dst.Data)
	switch dr, dc := dst.strides(a.Shape()); {
	case dc == 0 && dr == 1 && vectors(a.Data) && a.Cols > 0:
		sumRows(dst, a)
	case dc == 0:
		sums(dst.Data, dr, a.Data, a.Cols, a.Rows, a.Cols)
	default:
		addRows(dst.Data, a.Data, a.Rows)
	}
}

// sumRows adds up each row of a, as the product with a column of ones.
func sumRows[T Float](dst, a Matrix[T]) {
	one, segment := [1]T{1}, [1]Segment{}
	c := Contraction[T]{
		Rows: a.Rows, Cols: 1, Steps: a.Cols, Groups: 1,
		C: dst.Data, CRow: 1, A: a.Data, ARow: a.Cols, AStep: 1, B: one[:], Segments: segment[:],
	}
	c.Run()
}

// addRows adds rows of as many elements as y to it, one after the other.
func addRows[T Float](y, x []T, rows int) {
	if vectors(y) {
		for i := range rows {
			vectorAdd(single(y), single(y), single(x[i*len(y):]), len(y))
		}
		return
	}
	one := [1]T{1}
	addScaledRows(y, one[:], 0, x, len(y), rows)
}

// MulSum multiplies a and b elementwise, repeating as Mul does, and adds the products
// up as Sum does, without storing them. It is the adjoint of Mul: with y = a ⊙ b, the
// gradient of a is MulSum(ȳ, b) to a's shape. To one element it is the dot product.
func MulSum[T Float](dst, a, b Matrix[T]) {
	full, ok := Broadcast(a.Shape(), b.Shape())
	if !ok || !dst.Shape().repeats(full) {
		panic(fmt.Sprintf("linalg: MulSum: the product of %v and %v does not sum to %v", a.Shape(), b.Shape(), dst.Shape()))
	}
	if dst.Shape() == full {
		Mul(dst, a, b)
		return
	}
	clear(dst.Data)
	p, pr, pc, q, qr, qc := factors(a, b, full)
	switch dr, dc := dst.strides(full); {
	case full.Rows*full.Cols == 0:
	case dc == 0 && pc == 1 && qc == 1: // along a row, to one element
		dots(dst.Data, dr, p, pr, q, qr, full.Rows, full.Cols)
	case dc == 1 && dr == 0 && pc == 0 && qc == 1: // down the columns, a constant along each row
		addScaledRows(dst.Data, p, pr, q, qr, full.Rows)
	case dc == 1 && dr == 0 && pc == 1 && qc == 1: // down the columns
		addProducts(dst.Data, p, pr, q, qr, full.Rows)
	default:
		for i := range full.Rows {
			for j := range full.Cols {
				dst.Data[i*dr+j*dc] += p[i*pr+j*pc] * q[i*qr+j*qc]
			}
		}
	}
}
