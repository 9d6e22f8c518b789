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
		w.with("VFMADD213PS", c[i], x, p)
	}
	return p
}

// expLow is where eˣ has long become zero.
const expLow = -104

// exp returns eˣ in a new register: with n the integer nearest to x/log 2 and
// r = x − n·log 2, it is eʳ·2ⁿ. The power of two is applied in two halves, so that the
// result may overflow, or lose bits as a subnormal number, and rounds only once. large
// says whether x may be large enough to overflow.
func (w *lane) exp(x int, large bool) int {
	y := w.register()
	r, n, half := w.register(), w.register(), w.register()
	w.set(expLow, n)
	w.op("VMAXPS %s, %s, %s", w.v(x), w.v(n), w.v(r)) // the second operand of two if one is NaN
	if large {
		w.set(89, n) // e⁸⁹ has overflown
		w.op("VMINPS %s, %s, %s", w.v(r), w.v(n), w.v(r))
	}
	w.with("VMULPS", math.Log2E, r, n)
	if w.lanes == 16 {
		w.op("VRNDSCALEPS $8, %s, %s", w.v(n), w.v(n))
	} else {
		w.op("VROUNDPS $8, %s, %s", w.v(n), w.v(n))
	}
	w.with("VFNMADD231PS", log2High, n, r)
	w.with("VFNMADD231PS", log2Low, n, r)
	w.set(expTail[len(expTail)-1], y)
	for i := len(expTail) - 2; i >= 0; i-- {
		w.with("VFMADD213PS", expTail[i], r, y)
	}
	w.with("VFMADD213PS", 1, r, y)
	w.with("VFMADD213PS", 1, r, y)
	w.op("VCVTPS2DQ %s, %s", w.v(n), w.v(n))
	w.op("VPSRAD $1, %s, %s", w.v(n), w.v(half))
	w.op("VPSUBD %s, %s, %s", w.v(half), w.v(n), w.v(n))
	for _, exponent := range []int{half, n} {
		w.withBits("VPADDD", 127, exponent, exponent)
		w.op("VPSLLD $23, %s, %s", w.v(exponent), w.v(exponent))
		w.op("VMULPS %s, %s, %s", w.v(exponent), w.v(y), w.v(y))
	}
	w.release(y + 1)
	return y
}

// expOfMinusAbs returns e^−|x|, from which both softplus and sigmoid are made.
func (w *lane) expOfMinusAbs(x int) int {
	minus := w.register()
	w.withBits(w.bitwise("VPOR"), 0x80000000, x, minus)
	e := w.exp(minus, false)
	w.op("VMOVAPS %s, %s", w.v(e), w.v(minus))
	w.release(minus + 1)
	return minus
}

// softplus returns max(x, 0) + log(1 + e) for e = e^−|x|.
func (w *lane) softplus(x, e int) int {
	y := w.register()
	p := w.polynomial(log1p, e)
	w.zero(y)
	w.op("VMAXPS %s, %s, %s", w.v(x), w.v(y), w.v(y))
	w.op("VFMADD231PS %s, %s, %s", w.v(p), w.v(e), w.v(y))
	w.release(y + 1)
	return y
}

// sigmoid returns 1/(1 + e), or e/(1 + e) for negative x, for e = e^−|x|.
func (w *lane) sigmoid(x, e int) int {
	y := w.register()
	d := w.register()
	w.with("VADDPS", 1, e, d)
	w.set(1, y)
	w.chooseNegative(x, e, y)
	w.op("VDIVPS %s, %s, %s", w.v(d), w.v(y), w.v(y))
	w.release(y + 1)
	return y
}

// log returns log x: with x = 2ᵏ·(1 + f) and 1 + f between √½ and √2, it is
// k·log 2 + log(1 + f).
func (w *lane) log(x int) int {
	y := w.register()
	scaled, k, f, m := w.register(), w.register(), w.register(), w.register()
	w.with("VMULPS", 1<<23, x, m) // subnormal numbers become normal
	w.op("VMOVAPS %s, %s", w.v(x), w.v(scaled))
	w.choose(lessThan, x, 0x1p-126, m, scaled)
	w.zero(y)
	w.set(-23, m)
	w.choose(lessThan, x, 0x1p-126, m, y)

	root := math.Float32bits(math.Sqrt2 / 2)
	w.withBits("VPSUBD", root, scaled, f)
	w.op("VPSRAD $23, %s, %s", w.v(f), w.v(k))
	w.op("VCVTDQ2PS %s, %s", w.v(k), w.v(k))
	w.op("VADDPS %s, %s, %s", w.v(y), w.v(k), w.v(k))
	w.withBits(w.bitwise("VPAND"), 0x007fffff, f, f)
	w.withBits("VPADDD", root, f, f)
	w.with("VADDPS", -1, f, f)

	p := w.polynomial(logTail, f)
	w.op("VMULPS %s, %s, %s", w.v(f), w.v(f), w.v(m)) // f²
	w.op("VMULPS %s, %s, %s", w.v(f), w.v(p), w.v(p)) // f·P
	w.with("VADDPS", -0.5, p, p)
	w.with("VMULPS", log2Low, k, y)
	w.op("VFMADD231PS %s, %s, %s", w.v(m), w.v(p), w.v(y)) // small parts first
	w.op("VADDPS %s, %s, %s", w.v(f), w.v(y), w.v(y))
	w.with("VFMADD231PS", log2High, k, y)

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
	w.withBits(w.bitwise("VPAND"), 0x7fffffff, x, abs)
	w.op("VADDPS %s, %s, %s", w.v(abs), w.v(abs), w.v(y))
	e := w.expOfMinusAbs(y)
	w.set(1, y)
	w.op("VSUBPS %s, %s, %s", w.v(e), w.v(y), w.v(square))
	w.op("VADDPS %s, %s, %s", w.v(e), w.v(y), w.v(y))
	w.op("VDIVPS %s, %s, %s", w.v(y), w.v(square), w.v(y))
	w.withBits(w.bitwise("VPAND"), 0x80000000, x, square)
	w.op("%s %s, %s, %s", w.bitwise("VPOR"), w.v(square), w.v(y), w.v(y))
	w.op("VMULPS %s, %s, %s", w.v(x), w.v(x), w.v(square))
	p := w.polynomial(tanhTail, square)
	w.op("VMULPS %s, %s, %s", w.v(square), w.v(p), w.v(p))
	w.op("VFMADD213PS %s, %s, %s", w.v(x), w.v(x), w.v(p)) // x·(x²P) + x
	w.choose(lessThan, abs, 0.625, p, y)
	w.release(y + 1)
	return y
}
