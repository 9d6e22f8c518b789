package main

import "math"

// The functions below use these constants. The maps are keyed by element size in bytes: 4 for float32 and 8 for
// float64.
var (
	mantissaBits = map[int]int{4: 23, 8: 52}
	exponentBias = map[int]float64{4: 127, 8: 1023}
	smallest     = map[int]float64{4: 0x1p-126, 8: 0x1p-1022} // smallest normal number
	sqrtHalf     = map[int]uint64{4: 0x3f3504f3, 8: 0x3fe6a09e667f3bcd}

	// log 2 = log2High + log2Low
	log2High = map[int]float64{4: 0.693147182464599609375, 8: math.Ln2}
	log2Low  = map[int]float64{4: math.Ln2 - 0.693147182464599609375, 8: 2.319046813846299558e-17}

	// eʳ ≈ 1 + r + r²·Σ_i expSeries[i]·rⁱ for |r| ≤ ½ log 2. For each precision, this is a minimax polynomial, which
	// was computed with the Remez algorithm. Without rounding, the relative error of eʳ would be at most 4.3e-9
	// (float32) and 1.5e-17 (float64).
	expSeries = map[int][]float64{
		4: {0.4999999403953552, 0.1666651964187622, 0.04166839271783829, 0.008368780836462975, 0.0013814466074109077},
		8: {0.5000000000000001, 0.16666666666666674, 0.04166666666662416, 0.008333333333322217, 0.0013888888917198547,
			0.0001984126988655934, 2.4801521319909416e-05, 2.7557242372712863e-06, 2.76200769158137e-07, 2.5110036257801614e-08},
	}
	// log((1 + s)/(1 − s)) = 2s + s·Σ_i logSeries[i]·s²ⁱ⁺² for |s| ≤ 3 − √8. The coefficients are from the functions
	// logf and log of FreeBSD's msun library; math.Log uses the second list, too.
	logSeries = map[int][]float64{
		4: {0xaaaaaa.0p-24, 0xccce13.0p-25, 0x91e9ee.0p-25, 0xf89e26.0p-26},
		8: {6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01, 2.222219843214978396e-01,
			1.818357216161805012e-01, 1.531383769920937332e-01, 1.479819860511658591e-01},
	}
	// log(1 + e) = e·Σ_i log1pSeries[i]·eⁱ for 0 ≤ e ≤ 1 in float32. The error of this minimax polynomial is at most
	// 2.1e-8.
	log1pSeries = []float64{1, -0.4999990165233612, 0.3332996368408203, -0.24954132735729218, 0.19675935804843903,
		-0.1530558466911316, 0.10603640973567963, -0.05695940554141998, 0.01985139586031437, -0.0032440107315778732}
)

// tail is the value of |x| above which float32 softplus and sigmoid treat e^−|x| as zero. It must equal the constant
// tail of package kernel, whose comment states the reason for the value.
const tail = 44

// bits returns the constant with the given bits, and float returns the constant x, rounded to the element type.
func (f *formula) bits(bits uint64) *value {
	return &value{constant: &constant{bits, f.size}, register: -1}
}

func (f *formula) float(x float64) *value {
	if f.size == 4 {
		return f.bits(uint64(math.Float32bits(float32(x))))
	}
	return f.bits(math.Float64bits(x))
}

func (f *formula) signBit() *value { return f.bits(1 << (8*f.size - 1)) }

func (f *formula) abs(x *value) *value { return f.and(x, f.bits(1<<(8*f.size-1)-1)) }

// polynomial returns Σ_i coefficients[i]·xⁱ.
func (f *formula) polynomial(coefficients []float64, x *value) *value {
	last := len(coefficients) - 1
	p := f.float(coefficients[last])
	for i := last - 1; i >= 0; i-- {
		p = f.fma(p, x, f.float(coefficients[i]))
	}
	return p
}

// reduce returns the integer n nearest to x/log 2, and rest = x − n·log2High, where log2High is log 2 rounded to fewer
// bits. The third result, bits, holds bias + n as an integer in its lowest bits. To round x/log 2 to an integer, reduce
// adds the large number m, which is 1.5·2²³ + bias in float32 and 1.5·2⁵² + bias in float64.
func (f *formula) reduce(x *value, bias float64) (n, rest, bits *value) {
	m := math.Ldexp(1.5, mantissaBits[f.size]) + bias
	bits = f.add(f.mul(x, f.float(math.Log2E)), f.float(m))
	n = f.sub(bits, f.float(m))
	return n, f.fnma(n, f.float(log2High[f.size]), x), bits
}

// exp returns eˣ = eʳ·2ⁿ for n = round(x/log 2) and r = x − n·log 2. It multiplies by 2^⌊n/2⌋ and then by 2^⌈n/2⌉,
// because 2ⁿ may be outside the range of normal numbers.
func (f *formula) exp(x *value) *value {
	limits := map[int][2]float64{4: {-104, 89}, 8: {-746, 710}}[f.size] // outside these limits, eˣ is 0 or ∞
	x = f.min(f.float(limits[1]), f.max(f.float(limits[0]), x))
	n, rest, bits := f.reduce(x, 2*exponentBias[f.size])
	r := f.fnma(n, f.float(log2Low[f.size]), rest)
	y := f.polynomial(append([]float64{1, 1}, expSeries[f.size]...), r)
	// The variable bits holds the integer 2·bias + n. The code splits it into half and rest, the biased exponents of
	// 2^⌊n/2⌋ and 2^⌈n/2⌉. After a shift into the exponent field, half and rest are these powers of 2 in floating-point
	// format.
	half := f.shift(bits, -1)
	rest = f.subInt(bits, half)
	y = f.mul(y, f.shift(half, mantissaBits[f.size]))
	return f.mul(y, f.shift(rest, mantissaBits[f.size]))
}

// expOfMinusAbs returns e^−|x|. In float32, the result is zero if |x| > tail.
func (f *formula) expOfMinusAbs(x *value) *value {
	x = f.or(x, f.signBit())
	if f.size == 8 {
		return f.exp(x)
	}
	n, rest, bits := f.reduce(x, exponentBias[4])
	r := f.fnma(n, f.float(log2Low[4]), rest)
	y := f.polynomial(append([]float64{1, 1}, expSeries[4]...), r)
	return f.choose(x, f.float(-tail), f.float(0), f.mul(y, f.shift(bits, mantissaBits[4])))
}

// softplus returns max(x, 0) + log(1 + e) for e = exp(−|x|). In float64, log(1 + e) is n·log 2 + log(1 + g), where n =
// 0 and g = e if e < √2 − 1. Otherwise, n = 1 and g = (e − 1)/2.
func (f *formula) softplus(x, e *value) *value {
	positive := f.max(f.float(0), x)
	if f.size == 4 {
		return f.fma(f.polynomial(log1pSeries, e), e, positive)
	}
	middle := f.float(math.Sqrt2 - 1)
	g := f.choose(e, middle, e, f.mul(f.sub(e, f.float(1)), f.float(0.5)))
	return f.add(f.logSum(f.choose(e, middle, f.float(0), f.float(1)), g), positive)
}

// sigmoid returns 1/(1 + e), or e/(1 + e) for negative x, given e = exp(−|x|).
func (f *formula) sigmoid(x, e *value) *value {
	return f.div(f.choose(x, f.float(0), e, f.float(1)), f.add(e, f.float(1)))
}

// tanh returns tanh x = ±(1 − t)/(1 + t), where t = exp(−2|x|) = 2ⁿ(1 + q), q = exp(r) − 1 and −2|x| = n·log 2 + r. For
// small |x|, n is 0, so 1 − t is −q, which is accurate.
func (f *formula) tanh(x *value) *value {
	limit := map[int]float64{4: 10, 8: 20}[f.size] // for |x| ≥ limit, tanh x is ±1
	y := f.mul(f.min(f.float(limit), f.abs(x)), f.float(-2))
	n, rest, bits := f.reduce(y, exponentBias[f.size])
	r := f.fnma(n, f.float(log2Low[f.size]), rest)
	rounding := f.fnma(n, f.float(log2Low[f.size]), f.sub(rest, r)) // the exact remainder is r + rounding
	q := f.add(r, f.fma(f.polynomial(expSeries[f.size], r), f.mul(r, r), rounding))
	power := f.shift(bits, mantissaBits[f.size])
	// tanh |x| = ((1 − 2ⁿ) − q·2ⁿ)/((1 + 2ⁿ) + q·2ⁿ), where e^(−2|x|) = 2ⁿ(1 + q)
	numerator := f.fnma(power, q, f.sub(f.float(1), power))
	return f.or(f.div(numerator, f.fma(power, q, f.add(power, f.float(1)))), f.and(x, f.signBit()))
}

// log returns log x = n·log 2 + log(1 + g), where x = 2ⁿ·(1 + g) and √½ ≤ 1 + g < √2. It first multiplies a subnormal
// x by a power of two. The result is NaN for negative x, −∞ for 0, and x for ∞ and NaN.
func (f *formula) log(x *value) *value {
	bits := mantissaBits[f.size]
	bias, m := exponentBias[f.size], math.Ldexp(1, bits)
	y := f.choose(x, f.float(smallest[f.size]), f.mul(x, f.float(m)), x)
	shifted := f.addInt(y, f.bits(uint64(bias)<<bits-sqrtHalf[f.size]))
	n := f.or(f.shift(shifted, -bits), f.float(m)) // m + bias + n
	n = f.sub(n, f.choose(x, f.float(smallest[f.size]), f.float(m+bias+float64(bits)), f.float(m+bias)))
	g := f.sub(f.addInt(f.and(shifted, f.bits(1<<bits-1)), f.bits(sqrtHalf[f.size])), f.float(1))
	y = f.logSum(n, g)
	y = f.choose(f.float(0), x, y, f.choose(x, f.float(0), f.float(math.NaN()), f.float(math.Inf(-1))))
	return f.choose(x, f.float(math.Inf(1)), y, x)
}

// logSum returns n·log 2 + log(1 + g) for √½ ≤ 1 + g < √2. With s = g/(2 + g), it computes
// log(1 + g) = g − (g²/2 − s·(g²/2 + s²·Σ_i logSeries[i]·s²ⁱ)), as in FreeBSD's msun library.
func (f *formula) logSum(n, g *value) *value {
	s := f.div(g, f.add(g, f.float(2)))
	s2 := f.mul(s, s)
	half := f.mul(f.mul(g, f.float(0.5)), g)
	series := f.fma(f.polynomial(logSeries[f.size], s2), s2, half)
	y := f.sub(g, f.sub(half, f.fma(s, series, f.mul(n, f.float(log2Low[f.size])))))
	return f.fma(n, f.float(log2High[f.size]), y)
}
