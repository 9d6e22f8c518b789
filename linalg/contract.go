package linalg

import "fmt"

// Sum adds up a along every axis on which dst has length 1: to a column (over
// samples), to a row (over features), to one element, or, where the shapes agree, not
// at all. Terms are added in row-major order.
func Sum[T Float](dst, a Matrix[T]) {
	if !dst.Shape().repeats(a.Shape()) {
		panic(fmt.Sprintf("linalg: Sum: %v does not sum to %v", a.Shape(), dst.Shape()))
	}
	if dst.Shape() == a.Shape() {
		copy(dst.Data, a.Data)
		return
	}
	dst.Fill(0)
	dr, dc := dst.strides(a.Shape())
	for i := range a.Rows {
		x := a.Row(i)
		if dc == 1 {
			y := dst.Data[i*dr:][:len(x)]
			for j := range x {
				y[j] += x[j]
			}
			continue
		}
		s := dst.Data[i*dr]
		for j := range x {
			s += x[j]
		}
		dst.Data[i*dr] = s
	}
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
	dst.Fill(0)
	a, b = repeatedFirst(a, b, full)
	dr, dc := dst.strides(full)
	ar, ac := a.strides(full)
	br, bc := b.strides(full)
	switch {
	case dc == 0 && ac == 1 && bc == 1: // along a row, to one element
		for i := range full.Rows {
			x, z := a.Data[i*ar:][:full.Cols], b.Data[i*br:][:full.Cols]
			s := dst.Data[i*dr]
			for j := range x {
				s += x[j] * z[j]
			}
			dst.Data[i*dr] = s
		}
	case dc == 1 && ac == 0 && bc == 1: // down the columns, a constant along each row
		for i := range full.Rows {
			y, x := dst.Data[i*dr:][:full.Cols], b.Data[i*br:][:full.Cols]
			s := a.Data[i*ar]
			for j := range y {
				y[j] += s * x[j]
			}
		}
	default:
		for i := range full.Rows {
			for j := range full.Cols {
				dst.Data[i*dr+j*dc] += a.Data[i*ar+j*ac] * b.Data[i*br+j*bc]
			}
		}
	}
}
