package kernel

import (
	"math"
	"math/rand/v2"
	"testing"
)

// onEachLevel runs f as a subtest for each SIMD instruction set that the processor supports.
func onEachLevel(t *testing.T, f func(t *testing.T)) {
	OnEachLevel(func(name string) {
		if level > levelNone {
			t.Run(name, f)
		}
	})
}

func inPlainGo(f func()) {
	defer func(l int) { level = l }(level)
	level = levelNone
	f()
}

func panicOf(f func()) (value any) {
	defer func() { value = recover() }()
	f()
	return nil
}

func normals[T Float](rng *rand.Rand, n int) []T {
	x := make([]T, n)
	for i := range x {
		x[i] = T(rng.NormFloat64())
	}
	return x
}

func special[T Float](rng *rand.Rand) T {
	return T([]float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1)}[rng.IntN(4)])
}

// firstDifference returns the first index at which x and y are neither bit-identical nor both NaN, or −1. The bits of
// NaN differ between processors.
func firstDifference[T Float](x, y []T) int {
	for i := range x {
		same := x[i] == y[i] && math.Signbit(float64(x[i])) == math.Signbit(float64(y[i])) || x[i] != x[i] && y[i] != y[i]
		if !same {
			return i
		}
	}
	return -1
}

// fused returns a·b + c, rounded once, like the fused multiply-add of all SIMD instruction sets. The product is exact
// in float64. The sum is rounded to odd: if it is inexact, the last bit is set. Rounding the result to float32 then
// causes no double-rounding error (Boldo and Melquiond, Emulation of FMA and correctly rounded sums, 2008).
func fused(a, b, c float32) float32 {
	p, q := float64(a)*float64(b), float64(c)
	s := p + q
	part := s - p
	rest := (p - (s - part)) + (q - part) // s + rest is exactly p + q (Knuth)
	if bits := math.Float64bits(s); bits&1 == 0 && (rest < 0 || rest > 0) && !math.IsInf(s, 0) {
		if (rest > 0) == (s > 0) {
			s = math.Float64frombits(bits + 1)
		} else {
			s = math.Float64frombits(bits - 1)
		}
	}
	return float32(s)
}
