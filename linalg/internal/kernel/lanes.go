package kernel

import (
	"math"
	"unsafe"
)

// The elementwise functions. The first operand is where the result goes, and may be one of
// the others; its length is that of all, and a shorter one panics.
//
// The transcendental functions compute in float64 and round once, or where there are
// vectors, float32 in float32, to within 2.5 units in the last place.

// laneArgs are the arguments of an elementwise kernel: y is where the result goes. The
// second result of SoftplusSigmoid is b; Adamax changes b and c, too.
type laneArgs struct {
	y, a, b, c                         unsafe.Pointer
	n                                  int
	s                                  float32
	beta1, rest1, beta2, rate, epsilon float32 // of Adamax; rest1 is 1 − β₁
}

// Add sets y = a + b.
func Add[T Float](y, a, b []T) {
	a, b = a[:len(y)], b[:len(y)]
	if singles[T]() {
		lane(laneAdd, &laneArgs{y: pointer(y), a: pointer(a), b: pointer(b), n: len(y)})
		return
	}
	if n := tens(y); n > 0 {
		MulAddRows(y[:n], 10, []T{1}, 0, a, 10, b, 10)
		y, a, b = y[n:], a[n:], b[n:]
	}
	a, b = a[:len(y)], b[:len(y)]
	for i := range y {
		y[i] = a[i] + b[i]
	}
}

// Sub sets y = a − b.
func Sub[T Float](y, a, b []T) {
	a, b = a[:len(y)], b[:len(y)]
	if singles[T]() {
		lane(laneSub, &laneArgs{y: pointer(y), a: pointer(a), b: pointer(b), n: len(y)})
		return
	}
	for i := range y {
		y[i] = a[i] - b[i]
	}
}

// Mul sets y = a ⊙ b.
func Mul[T Float](y, a, b []T) {
	a, b = a[:len(y)], b[:len(y)]
	if singles[T]() {
		lane(laneMul, &laneArgs{y: pointer(y), a: pointer(a), b: pointer(b), n: len(y)})
		return
	}
	if n := tens(y); n > 0 {
		ProductRows(y[:n], 10, a, 10, b, 10)
		y, a, b = y[n:], a[n:], b[n:]
	}
	a, b = a[:len(y)], b[:len(y)]
	for i := range y {
		y[i] = a[i] * b[i]
	}
}

// Div sets y = a / b.
func Div[T Float](y, a, b []T) {
	a, b = a[:len(y)], b[:len(y)]
	if singles[T]() {
		lane(laneDiv, &laneArgs{y: pointer(y), a: pointer(a), b: pointer(b), n: len(y)})
		return
	}
	for i := range y {
		y[i] = a[i] / b[i]
	}
}

// MulAdd sets y = a ⊙ b + c.
func MulAdd[T Float](y, a, b, c []T) {
	a, b, c = a[:len(y)], b[:len(y)], c[:len(y)]
	if singles[T]() {
		lane(laneMulAdd, &laneArgs{y: pointer(y), a: pointer(a), b: pointer(b), c: pointer(c), n: len(y)})
		return
	}
	for i := range y {
		y[i] = T(a[i]*b[i]) + c[i]
	}
}

// Scale sets y = s·a.
func Scale[T Float](y []T, s T, a []T) {
	a = a[:len(y)]
	if singles[T]() {
		lane(laneScale, &laneArgs{y: pointer(y), a: pointer(a), n: len(y), s: float32(s)})
		return
	}
	if n := tens(y); n > 0 {
		MulRows(y[:n], 10, []T{s}, 0, a, 10)
		y, a = y[n:], a[n:]
	}
	a = a[:len(y)]
	for i := range y {
		y[i] = s * a[i]
	}
}

// AddConst sets y = a + s.
func AddConst[T Float](y, a []T, s T) {
	a = a[:len(y)]
	if singles[T]() {
		lane(laneAddConst, &laneArgs{y: pointer(y), a: pointer(a), n: len(y), s: float32(s)})
		return
	}
	if n := tens(y); n > 0 {
		MulAddConstRows(y[:n], 10, []T{1}, 0, a, 10, []T{s}, 0)
		y, a = y[n:], a[n:]
	}
	a = a[:len(y)]
	for i := range y {
		y[i] = a[i] + s
	}
}

// A Function is an elementwise function of one operand.
type Function struct {
	kernel int
	plain  func(float64) float64
}

// The functions of one operand.
var (
	Exp      = Function{laneExp, math.Exp}
	Log      = Function{laneLog, math.Log}
	Tanh     = Function{laneTanh, math.Tanh}
	Softplus = Function{laneSoftplus, SoftplusAt}
	Sigmoid  = Function{laneSigmoid, SigmoidAt}
)

// Apply sets y = f(a).
func Apply[T Float](f Function, y, a []T) {
	a = a[:len(y)]
	if singles[T]() {
		lane(f.kernel, &laneArgs{y: pointer(y), a: pointer(a), n: len(y)})
		return
	}
	for i := range y {
		y[i] = T(f.plain(float64(a[i])))
	}
}

// SoftplusSigmoid sets y = log(1 + eᵃ) and slope = 1/(1 + e⁻ᵃ), its derivative, from
// one exponential.
func SoftplusSigmoid[T Float](y, slope, a []T) {
	slope, a = slope[:len(y)], a[:len(y)]
	if singles[T]() {
		lane(laneSoftplusSigmoid, &laneArgs{y: pointer(y), b: pointer(slope), a: pointer(a), n: len(y)})
		return
	}
	for i := range y {
		v := float64(a[i])
		e := expOfMinusAbs(v)
		y[i], slope[i] = T(softplusFrom(v, e)), T(sigmoidFrom(v, e))
	}
}

// SigmoidGradient sets y = a ⊙ (b − b²), where b − b² is the derivative of the sigmoid
// where its value is b.
func SigmoidGradient[T Float](y, a, b []T) {
	a, b = a[:len(y)], b[:len(y)]
	if singles[T]() {
		lane(laneSigmoidGradient, &laneArgs{y: pointer(y), a: pointer(a), b: pointer(b), n: len(y)})
		return
	}
	for i := range y {
		y[i] = a[i] * (b[i] - T(b[i]*b[i]))
	}
}

// Adamax moves parameters p and averages m and u by a step of that optimiser for the
// gradient g:
//
//	m ← β₁m + (1 − β₁)g,   u ← max(β₂u, |g|),   p ← p + rate·m/(u + ε).
func Adamax[T Float](p, m, u, g []T, beta1, beta2, rate, epsilon T) {
	m, u, g = m[:len(p)], u[:len(p)], g[:len(p)]
	if singles[T]() {
		lane(laneAdamax, &laneArgs{y: pointer(p), a: pointer(g), b: pointer(m), c: pointer(u), n: len(p),
			beta1: float32(beta1), rest1: float32(1 - beta1), beta2: float32(beta2), rate: float32(rate), epsilon: float32(epsilon)})
		return
	}
	for i, g := range g {
		m[i] = T(beta1*m[i]) + T((1-beta1)*g)
		u[i] = max(beta2*u[i], g, -g)
		p[i] += rate * m[i] / (u[i] + epsilon)
	}
}

// tail is where the tails of softplus and sigmoid end: both treat e^−|x| as zero if
// |x| > 44, where it is below 2⁻⁶³.
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
