package linalg

import (
	"fmt"

	"hvae/linalg/internal/kernel"
)

// Add, Sub, Mul, Div and MulAdd broadcast their operands: they repeat an operand that has one row, one column or one
// element. The destination must have the shape of the broadcast operands; see Broadcast.

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
		panic(fmt.Sprintf("linalg: MulAdd: %v, %v, %v do not broadcast to %v", a.Shape(), b.Shape(), c.Shape(), full))
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
	kernel.Scale(dst.Data, s, a.Data)
}

// AddConst sets dst = a + s, elementwise.
func AddConst[T Float](dst, a Matrix[T], s T) {
	check2("AddConst", dst.Shape(), a.Shape())
	kernel.AddConst(dst.Data, a.Data, s)
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
		y := dst.Row(i)
		if ac == 1 {
			copy(y, a.Data)
		} else {
			Of(1, len(y), y).Fill(a.Data[i*ar])
		}
	}
}

// With SIMD, the errors of Exp, Log, Tanh, Sigmoid and SoftplusSigmoid are at most 2.5 units in the last place in
// float32 and 2 in float64, even for subnormal numbers. The only exceptions are Sigmoid and SoftplusSigmoid in float32
// for arguments below −44. In plain Go, these functions use package math in float64 and round each result once.

// Exp sets dst = eᵃ, elementwise.
func Exp[T Float](dst, a Matrix[T]) {
	check2("Exp", dst.Shape(), a.Shape())
	kernel.Exp(dst.Data, a.Data)
}

// Log sets dst = log a, elementwise. The result is −Inf for 0 and NaN for negative numbers.
func Log[T Float](dst, a Matrix[T]) {
	check2("Log", dst.Shape(), a.Shape())
	kernel.Log(dst.Data, a.Data)
}

// Tanh sets dst = tanh a, elementwise.
func Tanh[T Float](dst, a Matrix[T]) {
	check2("Tanh", dst.Shape(), a.Shape())
	kernel.Tanh(dst.Data, a.Data)
}

// Sigmoid sets dst = 1/(1 + e⁻ᵃ), elementwise. In float32, the result is zero for a < −44; see SoftplusSigmoid.
func Sigmoid[T Float](dst, a Matrix[T]) {
	check2("Sigmoid", dst.Shape(), a.Shape())
	kernel.Sigmoid(dst.Data, a.Data)
}

// SoftplusSigmoid sets dst to the softplus log(1 + eᵃ), and slope to its derivative, the sigmoid 1/(1 + e⁻ᵃ). It
// computes only one exponential per element. If dst and slope are the same matrix, it ends up holding the softplus.
//
// The softplus does not overflow for large a and keeps its relative precision for negative a, so log sigmoid(a) =
// −softplus(−a) is accurate. There is one exception: in float32, both results are zero for a < −44, so that gradients
// contain few subnormal numbers; see the comment on tail in internal/kernel/elementwise.go.
func SoftplusSigmoid[T Float](dst, slope, a Matrix[T]) {
	check2("SoftplusSigmoid", dst.Shape(), a.Shape())
	check2("SoftplusSigmoid", slope.Shape(), a.Shape())
	kernel.SoftplusSigmoid(dst.Data, slope.Data, a.Data)
}

// SigmoidGradient sets dst = g ⊙ (s − s²). If s = Sigmoid(a) and g is the gradient with respect to s, then dst is the
// gradient with respect to a.
func SigmoidGradient[T Float](dst, g, s Matrix[T]) {
	check2("SigmoidGradient", dst.Shape(), g.Shape())
	check2("SigmoidGradient", dst.Shape(), s.Shape())
	kernel.SigmoidGradient(dst.Data, g.Data, s.Data)
}

// Adamax performs one step of the Adamax optimiser (Kingma and Ba, 2014, algorithm 2), on all cores. Given the gradient
// g, it updates the moving average m, the maximum u and, by gradient ascent, the parameters p:
//
//	m ← β₁m + (1 − β₁)g,   u ← max(β₂u, |g|),   p ← p + rate·m/(u + ε).
//
// In step t, rate must include the bias correction 1/(1 − β₁ᵗ). All four slices must have the same length.
func Adamax[T Float](p, m, u, g []T, beta1, beta2, rate, epsilon T) {
	if n := len(p); len(m) != n || len(u) != n || len(g) != n {
		panic(fmt.Sprintf("linalg: Adamax: the lengths %d, %d, %d and %d are not equal", n, len(m), len(u), len(g)))
	}
	const grain = 1 << 15 // smallest number of elements that is worth a goroutine
	For(len(p), grain, func(lo, hi int) {
		kernel.Adamax(p[lo:hi], m[lo:hi], u[lo:hi], g[lo:hi], beta1, beta2, rate, epsilon)
	})
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
