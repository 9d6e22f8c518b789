package kernel

import (
	"math"
	"unsafe"
)

// The elementwise functions compute what the functions of package linalg with the same names
// document; the plain loops are their definitions. The first operand receives the result and
// may be one of the others. Its length applies to all operands; a shorter one panics.

// elementwiseArgs has the arguments of an elementwise kernel. The result is y; the second
// result of SoftplusSigmoid is b, and Adamax also changes b and c.
type elementwiseArgs struct {
	y, a, b, c                         unsafe.Pointer
	n                                  int
	s                                  float32
	beta1, rest1, beta2, rate, epsilon float32 // of Adamax; rest1 = 1 − β₁
}

// elementwise runs a SIMD kernel if T is float32 and SIMD kernels are in use, and reports
// whether it did. Operands that the kernel does not have are nil.
func elementwise[T Float](kernel int, y, a, b, c []T, s T) bool {
	if !SIMD32[T]() {
		return false
	}
	callElementwise(elementwiseFirst[level]+kernel,
		&elementwiseArgs{y: pointer(y), a: pointer(a), b: pointer(b), c: pointer(c), n: len(y), s: float32(s)})
	return true
}

func Add[T Float](y, a, b []T) {
	a, b = a[:len(y)], b[:len(y)]
	if elementwise(opAdd, y, a, b, nil, 0) {
		return
	}
	for i := range y {
		y[i] = a[i] + b[i]
	}
}

func Sub[T Float](y, a, b []T) {
	a, b = a[:len(y)], b[:len(y)]
	if elementwise(opSub, y, a, b, nil, 0) {
		return
	}
	for i := range y {
		y[i] = a[i] - b[i]
	}
}

func Mul[T Float](y, a, b []T) {
	a, b = a[:len(y)], b[:len(y)]
	if elementwise(opMul, y, a, b, nil, 0) {
		return
	}
	for i := range y {
		y[i] = a[i] * b[i]
	}
}

func Div[T Float](y, a, b []T) {
	a, b = a[:len(y)], b[:len(y)]
	if elementwise(opDiv, y, a, b, nil, 0) {
		return
	}
	for i := range y {
		y[i] = a[i] / b[i]
	}
}

func MulAdd[T Float](y, a, b, c []T) {
	a, b, c = a[:len(y)], b[:len(y)], c[:len(y)]
	if elementwise(opMulAdd, y, a, b, c, 0) {
		return
	}
	for i := range y {
		y[i] = T(a[i]*b[i]) + c[i]
	}
}

func Scale[T Float](y []T, s T, a []T) {
	a = a[:len(y)]
	if elementwise(opScale, y, a, nil, nil, s) {
		return
	}
	for i := range y {
		y[i] = s * a[i]
	}
}

func AddConst[T Float](y, a []T, s T) {
	a = a[:len(y)]
	if elementwise(opAddConst, y, a, nil, nil, s) {
		return
	}
	for i := range y {
		y[i] = a[i] + s
	}
}

// A Function is an elementwise function of one operand.
type Function struct {
	kernel int // or noKernel
	plain  func(float64) float64
}

const noKernel = -1

// The functions of one operand. With SIMD kernels, float32 is within 2.5 ulps; all others
// compute in float64 and round once. Tanh has no SIMD kernel because only float64 models use it.
var (
	Exp      = Function{opExp, math.Exp}
	Log      = Function{opLog, math.Log}
	Tanh     = Function{noKernel, math.Tanh}
	Softplus = Function{opSoftplus, SoftplusAt}
	Sigmoid  = Function{opSigmoid, SigmoidAt}
)

// Apply sets y = f(a).
func Apply[T Float](f Function, y, a []T) {
	a = a[:len(y)]
	if f.kernel != noKernel && elementwise(f.kernel, y, a, nil, nil, 0) {
		return
	}
	for i := range y {
		y[i] = T(f.plain(float64(a[i])))
	}
}

func SoftplusSigmoid[T Float](y, slope, a []T) {
	slope, a = slope[:len(y)], a[:len(y)]
	if elementwise(opSoftplusSigmoid, y, a, slope, nil, 0) {
		return
	}
	for i := range y {
		v := float64(a[i])
		e := expOfMinusAbs(v)
		y[i], slope[i] = T(softplusFrom(v, e)), T(sigmoidFrom(v, e))
	}
}

func SigmoidGradient[T Float](y, a, b []T) {
	a, b = a[:len(y)], b[:len(y)]
	if elementwise(opSigmoidGradient, y, a, b, nil, 0) {
		return
	}
	for i := range y {
		y[i] = a[i] * (b[i] - T(b[i]*b[i]))
	}
}

func Adamax[T Float](p, m, u, g []T, beta1, beta2, rate, epsilon T) {
	m, u, g = m[:len(p)], u[:len(p)], g[:len(p)]
	if SIMD32[T]() {
		callElementwise(elementwiseFirst[level]+opAdamax, &elementwiseArgs{
			y: pointer(p), a: pointer(g), b: pointer(m), c: pointer(u), n: len(p),
			beta1: float32(beta1), rest1: float32(1 - beta1), beta2: float32(beta2), rate: float32(rate), epsilon: float32(epsilon)})
		return
	}
	for i, g := range g {
		m[i] = T(beta1*m[i]) + T((1-beta1)*g)
		u[i] = max(beta2*u[i], g, -g)
		p[i] += rate * m[i] / (u[i] + epsilon)
	}
}

// tail is the threshold beyond which softplus and sigmoid treat e^−|x| as zero. It is below
// 2⁻⁶³ there.
//
// The reason is speed. Logits of pixels that are never white fall below −87, where e^−|x|
// leaves the normal range of float32, and gradients would multiply subnormal numbers: an
// Intel processor computes with them in microcode, and an epoch of a trained model took
// twice as long as the first. Values slightly above the threshold become subnormal a layer
// later, so the threshold is high. In a training step of mnist/results/vae.safetensors on
// the first 100 training images, the number of subnormal operands of contractions is
//
//	threshold      right     left
//	none          20,848    5,518
//	2⁻¹²⁶         14,563    5,342
//	2⁻¹⁰⁰          4,793    1,920
//	e⁻⁴⁴             107       64
//
// of 22.7 and 7.1 million. As a consequence, a standard deviation that is softplus(x) is
// positive, and has a logarithm, only for x ≥ −44.
const tail = 44

// expOfMinusAbs returns e^−|x|, or zero beyond the tail.
func expOfMinusAbs(x float64) float64 {
	x = math.Abs(x)
	if x > tail {
		return 0
	}
	return math.Exp(-x)
}

// SoftplusAt returns log(1 + eˣ) = max(x, 0) + log(1 + e^−|x|), which does not overflow for
// large x and keeps its relative precision for negative x. It is zero for x < −44; see tail.
func SoftplusAt(x float64) float64 { return softplusFrom(x, expOfMinusAbs(x)) }

// SigmoidAt returns 1/(1 + e^−x), the derivative of SoftplusAt. It is computed from e^−|x|,
// so that nothing overflows and small values keep their relative precision. It is zero for
// x < −44; see tail.
func SigmoidAt(x float64) float64 { return sigmoidFrom(x, expOfMinusAbs(x)) }

// softplusFrom is SoftplusAt where e is e^−|x|.
func softplusFrom(x, e float64) float64 { return max(x, 0) + math.Log1p(e) }

// sigmoidFrom is SigmoidAt where e is e^−|x|.
func sigmoidFrom(x, e float64) float64 {
	if x < 0 {
		return e / (1 + e)
	}
	return 1 / (1 + e)
}
