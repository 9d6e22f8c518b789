package main

import "math"

// The polynomials are minimax approximations (Remez) of the functions named, with
// coefficients rounded to float32, constant term first.
var (
	// (eʳ − 1 − r)/r² for |r| ≤ ½ log 2, to 3e-9 of eʳ
	expTail = []float64{0.4999999403953552, 0.1666651964187622, 0.04166839271783829, 0.008368780836462975, 0.0013814466074109077}
	// log(1 + e)/e for 0 ≤ e ≤ 1, to 5e-9
	log1p = []float64{1, -0.4999990165233612, 0.3332996368408203, -0.24954132735729218, 0.19675935804843903, -0.1530558466911316, 0.10603640973567963, -0.05695940554141998, 0.01985139586031437, -0.0032440107315778732}
	// (log(1 + f) − f + f²/2)/f³ for √½ − 1 ≤ f ≤ √2 − 1, to 8e-10 of log(1 + f)
	logTail = []float64{0.3333331346511841, -0.25000008940696716, 0.2000211924314499, -0.1666799634695053, 0.14219552278518677, -0.1240558847784996, 0.11888159066438675, -0.11675654351711273, 0.06746651232242584}
	// (tanh x − x)/x³ as a polynomial in x² for |x| ≤ √0.4, to 5e-9 of tanh x
	tanhTail = []float64{-0.33333274722099304, 0.13331274688243866, -0.05372512713074684, 0.02058982662856579, -0.005648316349834204}
)

// log 2 as a float32 and the rest of it.
const (
	log2High = 0.693147182464599609375
	log2Low  = math.Ln2 - log2High
)

// polynomial returns a register with the polynomial of x.
func (w *lane) polynomial(c []float64, x int) int {
	p := w.register()
	w.set(c[len(c)-1], p)
	for i := len(c) - 2; i >= 0; i-- {
		w.hornerConst(c[i], x, p)
	}
	return p
}

// expLow is where eˣ has long become zero.
const expLow = -104

// tail is where softplus and sigmoid treat e^−|x| as zero: see tail in package kernel.
const tail = 44

// exp returns eˣ in a new register: with n the integer nearest to x/log 2 and
// r = x − n·log 2, it is eʳ·2ⁿ. If full is set, x may be any number, and the result may overflow or be
// subnormal: multiplications then apply 2ⁿ in two halves, so that the result rounds only
// once. Otherwise x must be from −44 to 44.
func (w *lane) exp(x int, full bool) int {
	y := w.register()
	r, n, half := w.register(), w.register(), w.register()
	w.remark("eˣ = eʳ·2ⁿ: n is x/log 2 to the nearest, r the rest")
	if full {
		w.set(expLow, n)
		w.vec("max", r, n, x) // the second operand of two if one is NaN
		w.set(89, n)          // e⁸⁹ has overflown
		w.vec("min", r, n, r)
	} else {
		w.unary("move", r, x)
	}
	w.vecConst("mul", n, r, math.Log2E)
	w.unary("round", n, n)
	w.vecConst("fms", r, n, log2High)
	w.vecConst("fms", r, n, log2Low)
	w.remark("eʳ")
	w.set(expTail[len(expTail)-1], y)
	for i := len(expTail) - 2; i >= 0; i-- {
		w.hornerConst(expTail[i], r, y)
	}
	w.hornerConst(1, r, y)
	w.hornerConst(1, r, y)
	if w.isa == avx512 {
		w.remark("times 2ⁿ")
		w.vec("scale", y, y, n)
		w.release(y + 1)
		return y
	}
	w.remark("times 2ⁿ")
	w.unary("toInt", n, n)
	factors := []int{n}
	if full {
		w.shift("right", half, n, 1)
		w.vec("subInt", n, n, half)
		factors = []int{half, n}
	}
	for _, exponent := range factors {
		w.vecBits("addInt", exponent, exponent, 127)
		w.shift("left", exponent, exponent, 23)
		w.vec("mul", y, y, exponent)
	}
	w.release(y + 1)
	return y
}

// expOfMinusAbs returns e^−|x|, or zero beyond the tail: the common part of softplus and
// sigmoid.
func (w *lane) expOfMinusAbs(x int) int {
	minus := w.register()
	w.remark("e^−|x|")
	w.vecBits("or", minus, x, 0x80000000)
	e := w.exp(minus, false)
	zero := w.register()
	w.zero(zero)
	w.choose(lessThan, minus, -tail, zero, e)
	w.unary("move", minus, e)
	w.release(minus + 1)
	return minus
}

// softplus returns max(x, 0) + log(1 + e) for e = e^−|x|.
func (w *lane) softplus(x, e int) int {
	y := w.register()
	w.remark("softplus: max(x, 0) + log(1 + e)")
	p := w.polynomial(log1p, e)
	w.zero(y)
	w.vec("max", y, y, x)
	w.vec("fma", y, p, e)
	w.release(y + 1)
	return y
}

// sigmoid returns 1/(1 + e), or e/(1 + e) for negative x, for e = e^−|x|.
func (w *lane) sigmoid(x, e int) int {
	y := w.register()
	d := w.register()
	w.remark("sigmoid: 1/(1 + e), or e/(1 + e) for negative x")
	w.vecConst("add", d, e, 1)
	w.set(1, y)
	w.chooseNegative(x, e, y)
	w.vec("div", y, y, d)
	w.release(y + 1)
	return y
}

// log returns log x: with x = 2ᵏ·(1 + f) and 1 + f between √½ and √2, it is
// k·log 2 + log(1 + f).
func (w *lane) log(x int) int {
	y := w.register()
	scaled, k, f, m := w.register(), w.register(), w.register(), w.register()
	w.remark("log: x = 2ᵏ·(1 + f)")
	w.vecConst("mul", m, x, 1<<23) // subnormal numbers become normal
	w.unary("move", scaled, x)
	w.choose(lessThan, x, 0x1p-126, m, scaled)
	w.zero(y)
	w.set(-23, m)
	w.choose(lessThan, x, 0x1p-126, m, y)

	root := math.Float32bits(math.Sqrt2 / 2)
	w.vecBits("subInt", f, scaled, root)
	w.shift("right", k, f, 23)
	w.unary("toFloat", k, k)
	w.vec("add", k, k, y)
	w.vecBits("and", f, f, 0x007fffff)
	w.vecBits("addInt", f, f, root)
	w.vecConst("add", f, f, -1)

	w.remark("log(1 + f) + k·log 2")
	p := w.polynomial(logTail, f)
	w.vec("mul", m, f, f) // f²
	w.vec("mul", p, p, f) // f·P
	w.vecConst("add", p, p, -0.5)
	w.vecConst("mul", y, k, log2Low)
	w.vec("fma", y, m, p) // small parts first
	w.vec("add", y, y, f)
	w.vecConst("fma", y, k, log2High)

	w.remark("of infinity, zero and negative numbers")
	w.set(math.Inf(1), m)
	w.choose(greaterOrEq, x, math.Inf(1), m, y)
	w.set(math.Inf(-1), m)
	w.choose(equal, x, 0, m, y)
	w.setBits(0x7fc00000, m) // NaN
	w.choose(notGreaterOrEq, x, 0, m, y)
	w.release(y + 1)
	return y
}

// tanh returns tanh x: a polynomial for small x, else ±(1 − e)/(1 + e) for e = e^−2|x|.
func (w *lane) tanh(x int) int {
	y := w.register()
	abs, square := w.register(), w.register()
	w.remark("tanh: ±(1 − e)/(1 + e) for e = e^−2|x|")
	w.vecBits("and", abs, x, 0x7fffffff)
	w.vec("add", y, abs, abs)
	e := w.expOfMinusAbs(y)
	w.set(1, y)
	w.vec("sub", square, y, e)
	w.vec("add", y, y, e)
	w.vec("div", y, square, y)
	w.vecBits("and", square, x, 0x80000000)
	w.vec("or", y, y, square)
	w.remark("or for small x, x + x³·P(x²)")
	w.vec("mul", square, x, x)
	p := w.polynomial(tanhTail, square)
	w.vec("mul", p, p, square)
	w.horner(x, x, p) // x·(x²P) + x
	w.choose(lessThan, abs, 0.625, p, y)
	w.release(y + 1)
	return y
}
