package main

import "math"

// The slices below contain the coefficients of minimax polynomials, computed with the Remez algorithm
// and rounded to float32. The constant term is first. The comments state the largest error of each
// polynomial in exact arithmetic.
var (
	// expSeries approximates eʳ for |r| ≤ ½ log 2, with a relative error of at most 4.3e-9.
	expSeries = []float64{1, 1, 0.4999999403953552, 0.1666651964187622, 0.04166839271783829, 0.008368780836462975, 0.0013814466074109077}
	// log1p approximates log(1 + e)/e for 0 ≤ e ≤ 1, with an error of at most 2.1e-8.
	log1p = []float64{1, -0.4999990165233612, 0.3332996368408203, -0.24954132735729218, 0.19675935804843903, -0.1530558466911316, 0.10603640973567963, -0.05695940554141998, 0.01985139586031437, -0.0032440107315778732}
	// logTail approximates (log(1 + f) − f + f²/2)/f³ for √½ − 1 ≤ f ≤ √2 − 1. The resulting
	// log(1 + f) has a relative error of at most 3.2e-9.
	logTail = []float64{0.3333331346511841, -0.25000008940696716, 0.2000211924314499, -0.1666799634695053, 0.14219552278518677, -0.1240558847784996, 0.11888159066438675, -0.11675654351711273, 0.06746651232242584}
)

// log 2 = log2High + log2Low, where log2High is log 2 rounded to float32.
const (
	log2High = 0.693147182464599609375
	log2Low  = math.Ln2 - log2High
)

// tail is the value of |x| above which softplus and sigmoid treat e^−|x| as zero. It must equal the
// constant tail of package kernel. The comment there states the reason.
const tail = 44

// polynomial emits code that sets register d to Σ_i coefficients[i]·xⁱ.
func (w *body) polynomial(coefficients []float64, x, d int) {
	last := len(coefficients) - 1
	w.set(coefficients[last], d)
	for i := last - 1; i >= 0; i-- {
		w.horner(coefficients[i], x, d)
	}
}

// The functions below emit code that stores a result in a new vector register. They return the number of
// this register and free all other registers that they have allocated.

// exp emits code that computes eˣ = eʳ·2ⁿ, where n is the integer nearest to x/log 2 and r = x − n·log 2.
// If full is set, x may be any number, and the result may overflow or be subnormal. Otherwise, the result
// is valid only for −44 ≤ x ≤ 44.
//
// AVX-512 multiplies by 2ⁿ with one instruction. If full is set, 2ⁿ may be outside the range of float32, so
// AVX2 and NEON multiply by two powers of two. Only the second product may be rounded.
func (w *body) exp(x int, full bool) int {
	y := w.register()
	r, n, half := w.register(), w.register(), w.register()
	w.comment("eˣ = eʳ·2ⁿ for n = round(x/log 2) and r = x − n·log 2")
	if full {
		w.set(-104, n)             // eˣ is zero for x ≤ −104
		w.binary(maximum, r, n, x) // NaN if x is NaN
		w.set(89, n)               // eˣ overflows for x ≥ 89
		w.binary(minimum, r, n, r)
	} else {
		w.unary(move, r, x)
	}
	w.binaryConst(mul, n, r, math.Log2E)
	w.unary(round, n, n)
	w.binaryConst(fms, r, n, log2High)
	w.binaryConst(fms, r, n, log2Low)
	w.comment("eʳ")
	w.polynomial(expSeries, r, y)
	w.comment("eʳ·2ⁿ")
	if w.isa == avx512 {
		w.binary(scale, y, y, n)
		w.release(y + 1)
		return y
	}
	exponents := []int{n}
	w.unary(toInt, n, n)
	if full {
		w.shift(shiftRight, half, n, 1)
		w.binary(subInt, n, n, half)
		exponents = []int{half, n}
	}
	for _, exponent := range exponents {
		w.binaryBits(addInt, exponent, exponent, 127)
		w.shift(shiftLeft, exponent, exponent, 23)
		w.binary(mul, y, y, exponent)
	}
	w.release(y + 1)
	return y
}

// expOfMinusAbs emits code that computes e^−|x|, or zero if |x| > tail.
func (w *body) expOfMinusAbs(x int) int {
	minus := w.register()
	w.comment("e^−|x|")
	w.binaryBits(or, minus, x, 0x80000000)
	e := w.exp(minus, false)
	zero := w.register()
	w.zero(zero)
	w.choose(lessThan, minus, -tail, zero, e)
	w.unary(move, minus, e)
	w.release(minus + 1)
	return minus
}

// softplus emits code that computes max(x, 0) + log(1 + e) for e = exp(−|x|).
func (w *body) softplus(x, e int) int {
	y := w.register()
	w.comment("softplus x = max(x, 0) + log(1 + e) with e = e^−|x|")
	p := w.register()
	w.polynomial(log1p, e, p)
	w.zero(y)
	w.binary(maximum, y, y, x)
	w.binary(fma, y, p, e)
	w.release(y + 1)
	return y
}

// sigmoid emits code that computes 1/(1 + e), or e/(1 + e) for negative x, given e = exp(−|x|).
func (w *body) sigmoid(x, e int) int {
	y := w.register()
	d := w.register()
	w.comment("sigmoid x = 1/(1 + e), or e/(1 + e) for negative x, with e = e^−|x|")
	w.binaryConst(add, d, e, 1)
	w.set(1, y)
	w.chooseNegative(x, e, y)
	w.binary(div, y, y, d)
	w.release(y + 1)
	return y
}

// log emits code that computes log x = k·log 2 + log(1 + f), where x = 2ᵏ·(1 + f) and √½ ≤ 1 + f < √2.
func (w *body) log(x int) int {
	y := w.register()
	scaled, k, f, m := w.register(), w.register(), w.register(), w.register()
	w.comment("k and f such that x = 2ᵏ·(1 + f)")
	w.binaryConst(mul, m, x, 1<<23) // subnormal numbers become normal
	w.unary(move, scaled, x)
	w.choose(lessThan, x, 0x1p-126, m, scaled)
	w.zero(y)
	w.set(-23, m)
	w.choose(lessThan, x, 0x1p-126, m, y)

	root := bitsOf(math.Sqrt2 / 2)
	w.binaryBits(subInt, f, scaled, root)
	w.shift(shiftRight, k, f, 23)
	w.unary(toFloat, k, k)
	w.binary(add, k, k, y)
	w.binaryBits(and, f, f, 0x007fffff)
	w.binaryBits(addInt, f, f, root)
	w.binaryConst(add, f, f, -1)

	w.comment("log(1 + f) + k·log 2")
	p := w.register()
	w.polynomial(logTail, f, p)
	w.binary(mul, m, f, f) // f²
	w.binary(mul, p, p, f) // f·P
	w.binaryConst(add, p, p, -0.5)
	w.binaryConst(mul, y, k, log2Low)
	w.binary(fma, y, m, p) // add the small terms first
	w.binary(add, y, y, f)
	w.binaryConst(fma, y, k, log2High)

	w.comment("log ∞ = ∞, log 0 = −∞, and the logarithm of NaN or of a negative number is NaN.")
	w.set(math.Inf(1), m)
	w.choose(greaterOrEqual, x, math.Inf(1), m, y)
	w.set(math.Inf(-1), m)
	w.choose(equal, x, 0, m, y)
	w.setBits(0x7fc00000, m) // NaN
	w.choose(notGreaterOrEqual, x, 0, m, y)
	w.release(y + 1)
	return y
}
