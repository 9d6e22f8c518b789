package kernel

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// elementwiseFunctions contains functions with SIMD kernels. The field run computes all elements of y and, in Adamax,
// of b and c. The field want computes one element of each result.
var elementwiseFunctions = []struct {
	name string
	run  func(y, a, b, c []float32)
	want func(y, a, b, c *float32)
}{
	{"Add", func(y, a, b, c []float32) { Add(y, a, b) }, func(y, a, b, c *float32) { *y = *a + *b }},
	{"Mul", func(y, a, b, c []float32) { Mul(y, a, b) }, func(y, a, b, c *float32) { *y = *a * *b }},
	{"MulAdd", func(y, a, b, c []float32) { MulAdd(y, a, b, c) }, func(y, a, b, c *float32) { *y = fused(*a, *b, *c) }},
	{"Scale", func(y, a, b, c []float32) { Scale(y, 1.7, a) }, func(y, a, b, c *float32) { *y = 1.7 * *a }},
	{"AddConst", func(y, a, b, c []float32) { AddConst(y, a, 1.7) }, func(y, a, b, c *float32) { *y = *a + 1.7 }},
	{"SigmoidGradient", func(y, a, b, c []float32) { SigmoidGradient(y, a, b) }, func(y, a, b, c *float32) {
		*y = *a * fused(-*b, *b, *b)
	}},
	{"Adamax", func(y, a, b, c []float32) { Adamax(y, b, c, a, 0.9, 0.999, 1e-2, 1e-8) }, func(y, a, b, c *float32) {
		const beta1, beta2, rate, epsilon = float32(0.9), float32(0.999), float32(1e-2), float32(1e-8)
		*b = zeroBelow(0x1p-126, fused(1-beta1, *a, beta1**b))
		*c = zeroBelow(0x1p-126, max(beta2**c, *a, -*a))
		*y = fused(rate, *b/(*c+epsilon), *y)
	}},
}

func TestElementwiseKernelsMatchTheirDefinitions(t *testing.T) {
	onEachLevel(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(4, 1))
		for _, f := range elementwiseFunctions {
			for n := range 70 {
				offset := rng.IntN(17) // most vectors are not aligned
				var got, want [4][]float32
				for i := range got {
					got[i] = normals[float32](rng, 100)
					want[i] = slices.Clone(got[i])
				}
				part := func(x []float32) []float32 { return x[offset : offset+n] }
				f.run(part(got[0]), part(got[1]), part(got[2]), part(got[3]))
				for i := offset; i < offset+n; i++ {
					f.want(&want[0][i], &want[1][i], &want[2][i], &want[3][i])
				}
				for i := range got {
					if j := firstDifference(got[i], want[i]); j >= 0 {
						t.Fatalf("%s of [%d:%d]: element %d of %c is %v, want %v",
							f.name, offset, offset+n, j, "yabc"[i], got[i][j], want[i][j])
					}
				}
			}
		}
	})
}

// A function describes an elementwise function of one argument. The functions run compute it. The field exact returns
// the exact result as the sum of two numbers. The field hash is the expected hash of the results for arguments from
// −120 to 120; see testAccuracy.
type function[T Float] struct {
	name  string
	run   []func(y, x []T)
	exact func(x float64) (value, rest float64)
	hash  uint64
}

// TestFunctionsAreAccurateEverywhere compares the SIMD kernels with float64 functions or math/big. All instruction sets
// must give the same bits. No machine supports all sets, so the test compares a hash of the results with a constant.
func TestFunctionsAreAccurateEverywhere(t *testing.T) {
	single := func(f func(x float64) float64) func(x float64) (value, rest float64) {
		return func(x float64) (value, rest float64) { return f(x), 0 }
	}
	softplus := single(func(x float64) float64 { return softplus(x, expOfMinusAbs[float32](x)) })
	sigmoid := single(func(x float64) float64 { return sigmoid(x, expOfMinusAbs[float32](x)) })
	step := uint64(16411)
	if testing.Short() {
		step = 131101
	}
	x := []float32{-44, math.Nextafter32(-44, -50)}
	for bits := uint64(0); bits < 1<<32; bits += step { // each exponent occurs
		x = append(x, math.Float32frombits(uint32(bits)))
	}
	for e := range 256 {
		for _, fraction := range []uint32{0, 1, 0x7fffff} {
			bits := uint32(e)<<23 | fraction
			x = append(x, math.Float32frombits(bits), math.Float32frombits(bits|1<<31))
		}
	}
	unit := func(y float64) float64 { return math.Ldexp(1, max(exponent(y)-24, -149)) }
	testAccuracy(t, 2.5, x, 0.0037, unit, []function[float32]{
		{"exp", []func(y, x []float32){Exp[float32]}, single(math.Exp), 0xafcf4bc724016ba0},
		{"log", []func(y, x []float32){Log[float32]}, single(math.Log), 0x866bedf47d973ff9},
		{"tanh", []func(y, x []float32){Tanh[float32]}, single(math.Tanh), 0x137d8ca06002f041},
		{"sigmoid", []func(y, x []float32){Sigmoid[float32], slope[float32]}, sigmoid, 0x231276b0a5939aba},
		{"softplus", []func(y, x []float32){plus[float32]}, softplus, 0x6cef969a2e8a391},
	})

	rng := rand.New(rand.NewPCG(6, 1))
	var x64 []float64
	for e := range uint64(2048) {
		for _, fraction := range []uint64{0, 1<<52 - 1, rng.Uint64N(1 << 52)} {
			bits := e<<52 | fraction
			x64 = append(x64, math.Float64frombits(bits), math.Float64frombits(bits|1<<63))
		}
	}
	for range 1500 {
		x64 = append(x64, 5*rng.NormFloat64(), 300*rng.NormFloat64(), 1+0.3*rng.NormFloat64())
	}
	plainSoftplus := func(x float64) float64 { return math.Log1p(math.Exp(-math.Abs(x))) + max(x, 0) }
	plainSigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	unit64 := func(y float64) float64 { return math.Ldexp(1, max(exponent(y)-53, -1074)) }
	testAccuracy(t, 2, x64, 0.037, unit64, []function[float64]{
		{"exp", []func(y, x []float64){Exp[float64]}, exactly(math.Exp, bigExp), 0xac938ddcc20cec18},
		{"log", []func(y, x []float64){Log[float64]}, exactly(math.Log, bigLog), 0xf157bd09f313d0cd},
		{"tanh", []func(y, x []float64){Tanh[float64]}, exactly(math.Tanh, bigTanh), 0xc74e35d2e3f5895a},
		{"sigmoid", []func(y, x []float64){Sigmoid[float64], slope[float64]}, exactly(plainSigmoid, bigSigmoid),
			0xd5b5912976abf25d},
		{"softplus", []func(y, x []float64){plus[float64]}, exactly(plainSoftplus, bigSoftplus), 0x3b1cb3efd8439400},
	})
}

func plus[T Float](y, x []T)  { SoftplusSigmoid(y, y, x) }
func slope[T Float](y, x []T) { SoftplusSigmoid(slices.Clone(x), y, x) }

// exponent returns the exponent e of x = f·2^e, where ½ ≤ |f| < 1.
func exponent(x float64) int {
	_, e := math.Frexp(x)
	return e
}

// testAccuracy compares the results of functions with the exact values. It evaluates the functions at the elements of x
// and at −120, −120 + step, and so on up to 120. The argument bound is the largest allowed error, in units in the last
// place. The function unit returns the size of this unit at the exact value y. A hash of the results must be equal to
// function.hash. It covers only the results for −120, −120 + step, and so on, because the elements of x may depend on
// -short.
func testAccuracy[T Float](t *testing.T, bound float64, x []T, step float64,
	unit func(y float64) float64, functions []function[T]) {
	hashed := len(x)
	for i := -120.0; i < 120; i += step {
		x = append(x, T(i))
	}
	for _, f := range functions {
		want, rest := make([]float64, len(x)), make([]float64, len(x))
		for i, x := range x {
			want[i], rest[i] = f.exact(float64(x))
		}
		onEachLevel(t, func(t *testing.T) {
			for _, run := range f.run {
				y := make([]T, len(x))
				run(y, x)
				worst, where := 0.0, T(0)
				for i, y := range y {
					u := 0.0
					switch w := T(want[i]); {
					case w != w && y != y || w == y:
					case w-w != 0 || y-y != 0: // w or y is infinite or NaN
						u = math.Inf(1)
					default:
						u = math.Abs(float64(y)-want[i]-rest[i]) / unit(want[i])
					}
					if u > worst {
						worst, where = u, x[i]
					}
				}
				t.Logf("the largest error of %s in %T is %.3g units in the last place, for %v", f.name, where, worst, where)
				if worst > bound {
					t.Errorf("the largest error of %s in %T must be at most %v units in the last place", f.name, where, bound)
				}
				h := fnv.New64a()
				binary.Write(h, binary.LittleEndian, y[hashed:])
				if got := h.Sum64(); got != f.hash {
					t.Errorf("the hash of %s in %T is %#x, want %#x with all instruction sets", f.name, where, got, f.hash)
				}
			}
		})
	}
}

// TestAdamaxHandlesTheLargestAndNoGradients checks that the largest finite gradient causes no overflow, and that
// without gradients, the averages become 0 instead of subnormal.
func TestAdamaxHandlesTheLargestAndNoGradients(t *testing.T) {
	OnEachLevel(func(name string) {
		testAdamax[float32](t, name, math.MaxFloat32, 0x1p-126)
		testAdamax[float64](t, name, math.MaxFloat64, 0x1p-1022)
	})
}

func testAdamax[T Float](t *testing.T, name string, largest, smallest T) {
	const n = 20
	step := func(m, u, g T) (p, newM, newU []T) {
		fill := func(x T) []T { return slices.Repeat([]T{x}, n) }
		p, newM, newU = fill(0), fill(m), fill(u)
		Adamax(p, newM, newU, fill(g), 0.9, 0.999, 20, 1e-8)
		return p, newM, newU
	}
	for _, sign := range []T{1, -1} {
		if p, _, _ := step(0, 0, sign*largest); !(math.Abs(float64(sign*p[n-1]-2)) < 1e-5) || p[0] != p[n-1] {
			t.Errorf("%s: for the gradient %v, the step is %v, want about %v", name, sign*largest, p, 2*sign)
		}
		if _, m, u := step(sign*smallest, smallest, 0); m[0] != 0 || u[0] != 0 || m[n-1] != 0 || u[n-1] != 0 {
			t.Errorf("%s: after the averages %v and %v, Adamax returns %v and %v, want 0", name, sign*smallest, smallest, m, u)
		}
		if _, m, u := step(sign*1.2*smallest, 1.2*smallest, 0); m[0] == 0 || u[n-1] == 0 {
			t.Errorf("%s: after the averages %v, Adamax returns %v and %v, want no 0", name, sign*1.2*smallest, m, u)
		}
	}
}
