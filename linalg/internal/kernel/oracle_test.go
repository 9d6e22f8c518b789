package kernel

import (
	"math"
	"math/big"
)

// The functions below use math/big with a precision of at least 128 bits. They are the oracle for the float64 kernels.

const bigPrecision = 128

var bigLog2, _, _ = big.ParseFloat(
	"0.693147180559945309417232121458176568075500134360255254120680009493393621969694715605863326996418687",
	10, bigPrecision+20, big.ToNearestEven)

func newBig(x float64) *big.Float    { return new(big.Float).SetPrec(bigPrecision).SetFloat64(x) }
func add(a, b *big.Float) *big.Float { return newBig(0).Add(a, b) }
func mul(a, b *big.Float) *big.Float { return newBig(0).Mul(a, b) }
func quo(a, b *big.Float) *big.Float { return newBig(0).Quo(a, b) }

// exactly returns a function that computes f as the sum of two float64 numbers. If x is 0, NaN or ±Inf, or if
// approximate(x) is infinite or NaN, the returned function returns approximate(x) and 0.
func exactly(approximate func(x float64) float64, f func(x float64) *big.Float) func(x float64) (value, rest float64) {
	return func(x float64) (value, rest float64) {
		if y := approximate(x); x == 0 || y-y != 0 || x-x != 0 {
			return y, 0
		}
		y := f(x)
		value, _ = y.Float64()
		rest, _ = add(y, newBig(-value)).Float64()
		return value, rest
	}
}

func bigExp(x float64) *big.Float { return expOf(newBig(x)) }

// expOf returns eˣ = (e^(r/256))²⁵⁶·2ⁿ for n = round(x/log 2) and r = x − n·log 2. For |x| > 1000, where eˣ is 0 or ∞
// in float64, it uses ±1000 instead of x.
func expOf(x *big.Float) *big.Float {
	v, _ := x.Float64()
	if math.Abs(v) > 1000 {
		return expOf(newBig(math.Copysign(1000, v)))
	}
	n := math.Round(v / math.Ln2)
	r := newBig(0).Sub(x, newBig(0).Mul(newBig(n), bigLog2))
	r.SetMantExp(r, -8)
	sum := newBig(1)
	for i := len(reciprocals) - 1; i > 0; i-- { // 1 + r(1 + r/2(1 + r/3(1 + …)))
		sum.Mul(sum, reciprocals[i])
		sum.Mul(sum, r)
		sum.Add(sum, reciprocals[1])
	}
	for range 8 {
		sum.Mul(sum, sum)
	}
	return sum.SetMantExp(sum, int(n))
}

// reciprocals[i] is 1/i.
var reciprocals = func() (all [14]*big.Float) {
	for i := range all {
		all[i] = quo(newBig(1), newBig(float64(max(i, 1))))
	}
	return all
}()

func bigLog(x float64) *big.Float {
	f, e := x, 0
	if x < 0.5 || x > 2 {
		f, e = math.Frexp(x) // because math.Log is wrong for subnormal numbers on amd64
	}
	return logOf(newBig(x), math.Log(f)+float64(e)*math.Ln2)
}

// logOf returns log x = y + log(1 + d) for an approximation y of log x, where d = x·e^−y − 1 is tiny. It computes log(1
// + d) as d − d²/2.
func logOf(x *big.Float, y float64) *big.Float {
	d := add(mul(x, expOf(newBig(-y))), newBig(-1))
	return add(newBig(y), add(d, mul(mul(d, d), newBig(-0.5))))
}

func bigTanh(x float64) *big.Float {
	b := newBig(x)
	if math.Abs(x) < 1e-5 { // x − x³/3 + 2x⁵/15
		b2 := mul(b, b)
		c3, c5 := quo(newBig(-1), newBig(3)), quo(newBig(2), newBig(15))
		return mul(b, add(newBig(1), mul(b2, add(c3, mul(b2, c5)))))
	}
	e := bigExp(2 * x)
	return quo(add(e, newBig(-1)), add(e, newBig(1)))
}

func bigSigmoid(x float64) *big.Float { return quo(newBig(1), add(newBig(1), bigExp(-x))) }

// bigSoftplus returns max(x, 0) + log(1 + exp(−|x|)).
func bigSoftplus(x float64) *big.Float {
	e := bigExp(-math.Abs(x))
	v, _ := e.Float64()
	log := mul(e, add(newBig(1), mul(e, add(newBig(-0.5), quo(e, newBig(3))))))
	if v > 1e-10 {
		log = logOf(add(newBig(1), e), math.Log1p(v))
	}
	return add(log, newBig(max(x, 0)))
}
