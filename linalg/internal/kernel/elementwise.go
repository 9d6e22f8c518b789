package kernel

import (
	"math"
	"unsafe"
)

// The functions in this file implement the functions of package linalg with the same names. The plain Go loops define
// the results, but SIMD kernels may round differently. The first argument receives the result and may be the same slice
// as an operand. All slices must have the same length. The functions do not check this fully: they panic only if the
// capacity of an operand is too small.

// elementwiseArgs holds the arguments of an elementwise kernel. The kernel writes its result to y. The kernel of
// SoftplusSigmoid also writes b, and the kernel of Adamax also writes b and c.
type elementwiseArgs struct {
	y, a, b, c                         unsafe.Pointer
	n                                  int
	scale, shift                       float32 // used only by ScaleShift
	beta1, rest1, beta2, rate, epsilon float32 // used only by Adamax; rest1 = 1 − β₁
}

// elementwise runs the SIMD kernel with the given index (float32), or its float64 version. Operands that the kernel
// does not use are nil. For fewer than 512 float64 elements, it uses AVX2 instead of AVX-512, because on a 2023 Xeon, a
// few AVX-512 instructions lowered the clock frequency by 5 % throughout a step of the Gaussian model. AVX2 and AVX-512
// give the same bits.
func elementwise[T Float](kernel int, y, a, b, c []T) {
	set := kernelSets[level]
	if simd64[T]() {
		kernel += opExp64 - opExp // opExp to opSoftplusSigmoid and their float64 versions are in the same order
		if level == levelAVX512 && len(y) < 512 {
			set = kernelSets[levelAVX2]
		}
	}
	args := elementwiseArgs{y: pointer(y), a: pointer(a), b: pointer(b), c: pointer(c), n: len(y)}
	callElementwise(set.elementwise+kernel, &args)
}

func Add[T Float](y, a, b []T) {
	a, b = a[:len(y)], b[:len(y)]
	if simd32[T]() {
		elementwise(opAdd, y, a, b, nil)
		return
	}
	for i := range y {
		y[i] = a[i] + b[i]
	}
}

func Mul[T Float](y, a, b []T) {
	a, b = a[:len(y)], b[:len(y)]
	if simd32[T]() {
		elementwise(opMul, y, a, b, nil)
		return
	}
	for i := range y {
		y[i] = a[i] * b[i]
	}
}

func MulAdd[T Float](y, a, b, c []T) {
	a, b, c = a[:len(y)], b[:len(y)], c[:len(y)]
	if simd32[T]() {
		elementwise(opMulAdd, y, a, b, c)
		return
	}
	for i := range y {
		y[i] = T(a[i]*b[i]) + c[i]
	}
}

// Scale sets y = s·a. It calls scaleShift with t = −0, because x + (−0) is x, even if x is −0.
func Scale[T Float](y []T, s T, a []T) { scaleShift(y, s, a, T(math.Copysign(0, -1))) }

// AddConst sets y = a + t.
func AddConst[T Float](y, a []T, t T) { scaleShift(y, 1, a, t) }

// scaleShift sets y = s·a + t. Callers must choose s and t so that the product or the sum is exact. The bits are then
// the same with and without fused multiply-adds.
func scaleShift[T Float](y []T, s T, a []T, t T) {
	a = a[:len(y)]
	if simd32[T]() {
		callElementwise(kernelSets[level].elementwise+opScaleShift, &elementwiseArgs{
			y: pointer(y), a: pointer(a), n: len(y), scale: float32(s), shift: float32(t)})
		return
	}
	MulAddRows(y, len(y), []T{s}, 0, 0, a, 0, 1, []T{t}, 0, 0)
}

func Exp[T Float](y, a []T) { apply(opExp, y, a, math.Exp) }

func Log[T Float](y, a []T) { apply(opLog, y, a, math.Log) }

func Tanh[T Float](y, a []T) { apply(opTanh, y, a, math.Tanh) }

func Sigmoid[T Float](y, a []T) {
	apply(opSigmoid, y, a, func(x float64) float64 { return sigmoid(x, expOfMinusAbs[T](x)) })
}

// apply sets y = f(a), elementwise. Without SIMD, it computes f in float64 and rounds once.
func apply[T Float](kernel int, y, a []T, f func(float64) float64) {
	a = a[:len(y)]
	if level > levelNone {
		elementwise(kernel, y, a, nil, nil)
		return
	}
	for i, x := range a {
		y[i] = T(f(float64(x)))
	}
}

// SoftplusSigmoid sets y to the softplus of a, and slope to the sigmoid. It stores y last (see linalg.SoftplusSigmoid).
func SoftplusSigmoid[T Float](y, slope, a []T) {
	slope, a = slope[:len(y)], a[:len(y)]
	if level > levelNone {
		elementwise(opSoftplusSigmoid, y, a, slope, nil)
		return
	}
	for i := range y {
		v := float64(a[i])
		e := expOfMinusAbs[T](v)
		slope[i] = T(sigmoid(v, e))
		y[i] = T(softplus(v, e))
	}
}

func SigmoidGradient[T Float](y, a, b []T) {
	a, b = a[:len(y)], b[:len(y)]
	if simd32[T]() {
		elementwise(opSigmoidGradient, y, a, b, nil)
		return
	}
	for i := range y {
		y[i] = a[i] * (b[i] - T(b[i]*b[i]))
	}
}

func Adamax[T Float](p, m, u, g []T, beta1, beta2, rate, epsilon T) {
	m, u, g = m[:len(p)], u[:len(p)], g[:len(p)]
	if simd32[T]() {
		callElementwise(kernelSets[level].elementwise+opAdamax, &elementwiseArgs{
			y: pointer(p), a: pointer(g), b: pointer(m), c: pointer(u), n: len(p),
			beta1: float32(beta1), rest1: float32(1 - beta1), beta2: float32(beta2),
			rate: float32(rate), epsilon: float32(epsilon),
		})
		return
	}
	smallest := T(0x1p-126) // smallest normal number
	if unsafe.Sizeof(smallest) == 8 {
		smallest = T(0x1p-1022)
	}
	for i, g := range g {
		m[i] = zeroBelow(smallest, T(beta1*m[i])+T((1-beta1)*g))
		u[i] = zeroBelow(smallest, max(beta2*u[i], g, -g))
		p[i] += T(rate * (m[i] / (u[i] + epsilon))) // rate·m could overflow
	}
}

// zeroBelow returns 0 if |x| < smallest, and x otherwise. Without it, the averages of Adamax for a gradient that has
// become 0 would stop at subnormal numbers, and a step would take two to three times as long.
func zeroBelow[T Float](smallest, x T) T {
	if -smallest < x && x < smallest {
		return 0
	}
	return x
}

// For |x| > tail, softplus and sigmoid in float32 replace e^−|x|, which is less than 2⁻⁶³, with zero.
//
// The reason is speed: Intel processors are slow on subnormal numbers. During training, the logits of pixels that are
// never white fall below −87, where e^−|x| is a subnormal float32. Without the replacement, late epochs took twice as
// long as the first epoch. Values slightly above the subnormal range lead to subnormal numbers in the next layer, so
// the threshold has a large margin. In a training step of the model in mnist/results/vae.safetensors, 26,366 of 29.8
// million operands of contractions are subnormal without a threshold, 6,713 with 2⁻¹⁰⁰, and 171 with e⁻⁴⁴. So a float32
// standard deviation softplus(x) is positive only for x ≥ −44.
const tail = 44

// expOfMinusAbs returns e^−|x|. If T is float32, it returns zero for |x| > tail.
func expOfMinusAbs[T Float](x float64) float64 {
	x = math.Abs(x)
	if unsafe.Sizeof(T(0)) == 4 && x > tail {
		return 0
	}
	return math.Exp(-x)
}

// softplus returns log(1 + exp(x)) = max(x, 0) + log(1 + e), given e = exp(−|x|). It does not overflow for large x and
// keeps its relative precision for negative x.
func softplus(x, e float64) float64 { return max(x, 0) + math.Log1p(e) }

// sigmoid returns 1/(1 + exp(−x)), given e = exp(−|x|). Like softplus, it neither overflows nor loses precision.
func sigmoid(x, e float64) float64 {
	if x < 0 {
		return e / (1 + e)
	}
	return 1 / (1 + e)
}
