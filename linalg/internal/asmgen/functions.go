package main

import "math"

// The slices below contain the coefficients of minimax polynomials, computed with the Remez algorithm and rounded to
// float32. The constant term is first. The comments state the largest error of each polynomial in exact arithmetic.
var (
	// expSeries approximates eʳ for |r| ≤ ½ log 2, with a relative error of at most 4.3e-9.
	expSeries = []float64{1, 1, 0.4999999403953552, 0.1666651964187622, 0.04166839271783829, 0.008368780836462975, 0.0013814466074109077}
	// log1p approximates log(1 + e)/e for 0 ≤ e ≤ 1, with an error of at most 2.1e-8.
	log1p = []float64{1, -0.4999990165233612, 0.3332996368408203, -0.24954132735729218, 0.19675935804843903, -0.1530558466911316, 0.10603640973567963, -0.05695940554141998, 0.01985139586031437, -0.0032440107315778732}
)

// log 2 = log2High + log2Low, where log2High is log 2 rounded to float32.
const (
	log2High = 0.693147182464599609375
	log2Low  = math.Ln2 - log2High
)

// tail is the value of |x| above which softplus and sigmoid treat e^−|x| as zero. It must equal the constant tail of
// package kernel, whose comment states the reason for the value.
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

// exp emits code that computes eˣ = eʳ·2ⁿ for −44 ≤ x ≤ 44, where n is the integer nearest to x/log 2 and
// r = x − n·log 2. The result is not valid for other x.
func (w *body) exp(x int) int {
	y := w.register()
	r, n := w.register(), w.register()
	w.comment("eˣ = eʳ·2ⁿ for n = round(x/log 2) and r = x − n·log 2")
	w.unary(move, r, x)
	w.binaryConst(mul, n, r, math.Log2E)
	w.unary(round, n, n)
	w.binaryConst(fms, r, n, log2High)
	w.binaryConst(fms, r, n, log2Low)
	w.comment("eʳ")
	w.polynomial(expSeries, r, y)
	w.comment("eʳ·2ⁿ; the bits of the float32 number 2ⁿ are (n + 127)·2²³")
	w.unary(toInt, n, n)
	w.binaryBits(addInt, n, n, 127)
	w.shiftLeft(n, n, 23)
	w.binary(mul, y, y, n)
	w.release(y + 1)
	return y
}

// expOfMinusAbs emits code that computes e^−|x|, or zero if |x| > tail.
func (w *body) expOfMinusAbs(x int) int {
	minus := w.register()
	w.comment("e^−|x|")
	w.binaryBits(or, minus, x, 0x80000000)
	e := w.exp(minus)
	zero := w.register()
	w.zero(zero)
	w.chooseLess(minus, -tail, zero, e)
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
