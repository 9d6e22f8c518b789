package linalg

import (
	"fmt"
	"math"
	"slices"

	"hvae/linalg/internal/kernel"
)

// Sum sets dst to the sum of a over each axis along which dst has length 1. A column dst [m×1] receives the sums of the
// rows, a row dst [1×n] receives the sums of the columns, and dst [1×1] receives the sum of all elements. If the shapes
// are equal, Sum copies a. Sum adds the elements of a row from left to right. It adds the rows (if dst is a row) or
// their sums (if dst is [1×1]) from top to bottom.
func Sum[T Float](dst, a Matrix[T]) {
	if !dst.Shape().broadcastsTo(a.Shape()) {
		panic(fmt.Sprintf("linalg: Sum: cannot sum %v to %v", a.Shape(), dst.Shape()))
	}
	if dst.Shape() == a.Shape() {
		copy(dst.Data, a.Data)
		return
	}
	clear(dst.Data)
	if dr, dc := dst.strides(a.Shape()); dc == 0 {
		kernel.AddSums(dst.Data, dr, a.Data, a.Rows, a.Cols)
	} else {
		kernel.AddRows(dst.Data, 1, a.Data, a.Rows)
	}
}

// MulSum sets dst to the sum of a ⊙ b over each axis along which dst has length 1. It adds in the same order as Sum,
// and does not store the product. The operands are broadcast as in Mul. If dst has one element, it receives the dot
// product.
//
// If y = a ⊙ b and g is the gradient with respect to y, MulSum(da, g, b) sets da to the gradient with respect to a.
func MulSum[T Float](dst, a, b Matrix[T]) {
	full, ok := Broadcast(a.Shape(), b.Shape())
	if !ok || !dst.Shape().broadcastsTo(full) {
		panic(fmt.Sprintf("linalg: MulSum: cannot sum the product of %v and %v to %v", a.Shape(), b.Shape(), dst.Shape()))
	}
	if dst.Shape() == full {
		Mul(dst, a, b)
		return
	}
	clear(dst.Data)
	if b.Cols != full.Cols {
		a, b = b, a // only a may be constant along each row
	}
	ar, ac := a.strides(full)
	br, _ := b.strides(full)
	switch dr, dc := dst.strides(full); {
	case full.Rows*full.Cols == 0:
	case dc == 1: // sums of columns
		kernel.AddMulRows(dst.Data, a.Data, ar, ac, b.Data, br, full.Rows)
	case ac == 1: // dot products of rows
		kernel.AddDots(dst.Data, dr, a.Data, ar, b.Data, br, full.Rows, full.Cols)
	default: // sums of rows, where a is constant along each row
		for i := range full.Rows {
			for j := range full.Cols {
				dst.Data[i*dr] += T(a.Data[i*ar] * b.Data[i*br+j])
			}
		}
	}
}

// AddSum adds the sum of each row of a [m×n] to dst [m×1]. The result is bit-identical to Sum followed by Add.
func AddSum[T Float](dst, a Matrix[T]) {
	if dst.Shape() != (Shape{a.Rows, 1}) {
		panic(fmt.Sprintf("linalg: AddSum: cannot add the sums of the rows of %v to %v", a.Shape(), dst.Shape()))
	}
	kernel.AddSums(dst.Data, 1, a.Data, a.Rows, a.Cols)
}

// AddMulSum adds the dot product of each row of a [m×n] and the corresponding row of b [m×n] to dst [m×1]. The result
// is bit-identical to MulSum followed by Add.
func AddMulSum[T Float](dst, a, b Matrix[T]) {
	if a.Shape() != b.Shape() || dst.Shape() != (Shape{a.Rows, 1}) {
		panic(fmt.Sprintf("linalg: AddMulSum: cannot add the dot products of the rows of %v and %v to %v",
			a.Shape(), b.Shape(), dst.Shape()))
	}
	kernel.AddDots(dst.Data, 1, a.Data, a.Cols, b.Data, b.Cols, a.Rows, a.Cols)
}

// Finite reports whether every element of m is finite.
func Finite[T Float](m Matrix[T]) bool {
	return !slices.ContainsFunc(m.Data, func(x T) bool { return x-x != 0 })
}

// SquaresFinite reports whether the square of every element of m is finite.
func SquaresFinite[T Float](m Matrix[T]) bool {
	exponent := 64 // x² is infinite if |x| ≥ 2⁶⁴ (float32) or |x| ≥ 2⁵¹² (float64)
	if _, ok := any(T(0)).(float64); ok {
		exponent = 512
	}
	// If |x| ≥ 2⁶⁴, the product of 2⁶⁵ and x is so large that its sum with any finite number is infinite. So if 128 sums
	// of such products are finite, the squares of all elements in the sums are finite.
	rest := m.Data // elements to check one by one
	if rows := len(rest) / 128; rows > 0 {
		var sums [128]T
		kernel.AddRows(sums[:], T(math.Ldexp(1, exponent+1)), rest, rows)
		if Finite(Column(sums[:]...)) {
			rest = rest[rows*len(sums):]
		}
	}
	for _, x := range rest {
		if T(x*x)-T(x*x) != 0 {
			return false
		}
	}
	return true
}
