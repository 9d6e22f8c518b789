package linalg

import (
	"fmt"
	"math"

	"hvae/linalg/internal/kernel"
)

// Add, Sub, Mul, Div and MulAdd broadcast their operands: an operand with one row, one column or one
// element is repeated. dst must have the shape that Broadcast returns for the operands.

// Add sets dst = a + b, elementwise.
func Add[T Float](dst, a, b Matrix[T]) {
	if full := dst.Shape(); a.Shape() == full && b.Shape() == full {
		kernel.Add(dst.Data, a.Data, b.Data)
		return
	}
	check3("Add", dst.Shape(), a.Shape(), b.Shape())
	if a.Cols == 1 {
		a, b = b, a // MulAdd is slow if both factors are constant along each row
	}
	MulAdd(dst, Matrix[T]{1, 1, []T{1}}, a, b)
}

// Sub sets dst = a − b, elementwise.
func Sub[T Float](dst, a, b Matrix[T]) {
	check3("Sub", dst.Shape(), a.Shape(), b.Shape())
	MulAdd(dst, Matrix[T]{1, 1, []T{-1}}, b, a) // (−1)·b + a is bit-identical to a − b
}

// Div sets dst = a / b, elementwise.
func Div[T Float](dst, a, b Matrix[T]) {
	full := dst.Shape()
	check3("Div", full, a.Shape(), b.Shape())
	ar, ac := a.strides(full)
	br, bc := b.strides(full)
	for i := range dst.Rows {
		for j := range dst.Cols {
			dst.Data[i*dst.Cols+j] = a.Data[i*ar+j*ac] / b.Data[i*br+j*bc]
		}
	}
}

// Mul sets dst = a ⊙ b, the elementwise product.
func Mul[T Float](dst, a, b Matrix[T]) {
	full := dst.Shape()
	if a.Shape() == full && b.Shape() == full {
		kernel.Mul(dst.Data, a.Data, b.Data)
		return
	}
	check3("Mul", full, a.Shape(), b.Shape())
	ar, ac := a.strides(full)
	br, bc := b.strides(full)
	kernel.MulAddRows(dst.Data, dst.Cols, a.Data, ar, ac, b.Data, br, bc, nil, 0, 0)
}

// MulAdd sets dst = a ⊙ b + c, elementwise. Leapfrog steps, planar layers and most sums of gradients have this form.
func MulAdd[T Float](dst, a, b, c Matrix[T]) {
	full := dst.Shape()
	ab, ok := Broadcast(a.Shape(), b.Shape())
	if all, fits := Broadcast(ab, c.Shape()); !ok || !fits || all != full {
		panic(fmt.Sprintf("linalg: MulAdd: operands %v, %v, %v do not broadcast to %v", a.Shape(), b.Shape(), c.Shape(), full))
	}
	if a.Shape() == full && b.Shape() == full && c.Shape() == full {
		kernel.MulAdd(dst.Data, a.Data, b.Data, c.Data)
		return
	}
	ar, ac := a.strides(full)
	br, bc := b.strides(full)
	cr, cc := c.strides(full)
	kernel.MulAddRows(dst.Data, dst.Cols, a.Data, ar, ac, b.Data, br, bc, c.Data, cr, cc)
}

// Scale sets dst = s·a.
func Scale[T Float](dst Matrix[T], s T, a Matrix[T]) {
	check2("Scale", dst.Shape(), a.Shape())
	for i, x := range a.Data {
		dst.Data[i] = s * x
	}
}

// AddConst sets dst = a + s, elementwise.
func AddConst[T Float](dst, a Matrix[T], s T) {
	check2("AddConst", dst.Shape(), a.Shape())
	for i, x := range a.Data {
		dst.Data[i] = x + s
	}
}

// Copy sets dst to a, broadcast to the shape of dst.
func Copy[T Float](dst, a Matrix[T]) {
	full := dst.Shape()
	if !a.Shape().broadcastsTo(full) {
		panic(fmt.Sprintf("linalg: Copy: %v does not broadcast to %v", a.Shape(), full))
	}
	if a.Shape() == full {
		copy(dst.Data, a.Data)
		return
	}
	ar, ac := a.strides(full)
	for i := range dst.Rows {
		if y := dst.Row(i); ac == 1 {
			copy(y, a.Data)
		} else {
			Of(1, len(y), y).Fill(a.Data[i*ar])
		}
	}
}

// Exp sets dst = eᵃ, elementwise.
func Exp[T Float](dst, a Matrix[T]) { apply("Exp", dst, a, math.Exp) }

// Log sets dst = log a, elementwise.
func Log[T Float](dst, a Matrix[T]) { apply("Log", dst, a, math.Log) }

// Tanh sets dst = tanh a, elementwise.
func Tanh[T Float](dst, a Matrix[T]) { apply("Tanh", dst, a, math.Tanh) }

// Sigmoid sets dst = 1/(1 + e⁻ᵃ), elementwise. For a < −44 the result is zero.
func Sigmoid[T Float](dst, a Matrix[T]) { apply("Sigmoid", dst, a, kernel.Sigmoid) }

// apply computes f in float64 for each element and rounds the result once. Between amd64 and arm64, float64 results of
// package math may differ in the last place, but the float32 results for 8 million arguments were equal.
func apply[T Float](name string, dst, a Matrix[T], f func(float64) float64) {
	check2(name, dst.Shape(), a.Shape())
	for i, x := range a.Data {
		dst.Data[i] = T(f(float64(x)))
	}
}

// Softplus sets dst = log(1 + eᵃ), elementwise. It does not overflow for large a and keeps its relative precision for
// negative a. For a < −44 the result is zero, so that gradients contain few subnormal numbers; see the comment on tail
// in internal/kernel/elementwise.go. In float32 with SIMD, Softplus and SoftplusSigmoid compute in float32, with an
// error of at most 2.5 units in the last place. Otherwise, they compute in float64 and round once.
func Softplus[T Float](dst, a Matrix[T]) {
	check2("Softplus", dst.Shape(), a.Shape())
	kernel.Softplus(dst.Data, a.Data)
}

// SoftplusSigmoid sets dst = log(1 + eᵃ) and slope = 1/(1 + e⁻ᵃ), the derivative of dst with respect to
// a. It computes one exponential per element.
func SoftplusSigmoid[T Float](dst, slope, a Matrix[T]) {
	check2("SoftplusSigmoid", dst.Shape(), a.Shape())
	check2("SoftplusSigmoid", slope.Shape(), a.Shape())
	kernel.SoftplusSigmoid(dst.Data, slope.Data, a.Data)
}

// SigmoidGradient sets dst = g ⊙ (s − s²). If s = Sigmoid(a) and g is the gradient with respect to
// s, then dst is the gradient with respect to a.
func SigmoidGradient[T Float](dst, g, s Matrix[T]) {
	check2("SigmoidGradient", dst.Shape(), g.Shape())
	check2("SigmoidGradient", dst.Shape(), s.Shape())
	kernel.SigmoidGradient(dst.Data, g.Data, s.Data)
}

// Adamax performs one step of the optimiser Adamax (Kingma and Ba, 2014, algorithm 2) on the calling
// goroutine. Given the gradient g, it updates the parameters p and the moving averages m and u:
//
//	m ← β₁m + (1 − β₁)g,   u ← max(β₂u, |g|),   p ← p + rate·m/(u + ε).
//
// All four slices must have the same length.
func Adamax[T Float](p, m, u, g []T, beta1, beta2, rate, epsilon T) {
	if n := len(p); len(m) != n || len(u) != n || len(g) != n {
		panic(fmt.Sprintf("linalg: Adamax: the lengths %d, %d, %d and %d are not equal", n, len(m), len(u), len(g)))
	}
	kernel.Adamax(p, m, u, g, beta1, beta2, rate, epsilon)
}

func check2(name string, dst, a Shape) {
	if dst != a {
		panic(fmt.Sprintf("linalg: %s: the destination is %v, but an operand is %v", name, dst, a))
	}
}

func check3(name string, dst, a, b Shape) {
	if s, ok := Broadcast(a, b); !ok || s != dst {
		panic(fmt.Sprintf("linalg: %s: operands %v and %v do not broadcast to %v", name, a, b, dst))
	}
}
