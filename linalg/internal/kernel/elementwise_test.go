package kernel

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// elementwiseFunctions contains the functions that have SIMD kernels. The function run computes all elements of y and,
// for some functions, also those of b and c. The function want computes one element. If want is nil, the result must
// equal the result of plain Go up to rounding errors.
var elementwiseFunctions = []struct {
	name string
	run  func(y, a, b, c []float32)
	want func(y, a, b, c *float32)
}{
	{"Add", func(y, a, b, c []float32) { Add(y, a, b) }, func(y, a, b, c *float32) { *y = *a + *b }},
	{"Mul", func(y, a, b, c []float32) { Mul(y, a, b) }, func(y, a, b, c *float32) { *y = *a * *b }},
	{"MulAdd", func(y, a, b, c []float32) { MulAdd(y, a, b, c) }, func(y, a, b, c *float32) { *y = fused(*a, *b, *c) }},
	{"Softplus", func(y, a, b, c []float32) { Softplus(y, a) }, nil},
	{"SoftplusSigmoid", func(y, a, b, c []float32) { SoftplusSigmoid(y, b, a) }, nil},
	{"SigmoidGradient", func(y, a, b, c []float32) { SigmoidGradient(y, a, b) }, func(y, a, b, c *float32) {
		*y = *a * fused(-*b, *b, *b)
	}},
	{"Adamax", func(y, a, b, c []float32) { Adamax(y, b, c, a, 0.9, 0.999, 1e-2, 1e-8) }, func(y, a, b, c *float32) {
		const beta1, beta2, rate, epsilon = float32(0.9), float32(0.999), float32(1e-2), float32(1e-8)
		*b = fused(1-beta1, *a, beta1**b)
		*c = max(beta2**c, *a, -*a)
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
				if f.want == nil {
					inPlainGo(func() { f.run(part(want[0]), part(want[1]), part(want[2]), part(want[3])) })
				} else {
					for i := offset; i < offset+n; i++ {
						f.want(&want[0][i], &want[1][i], &want[2][i], &want[3][i])
					}
				}
				for i := range got {
					for j, w := range want[i] {
						if g := got[i][j]; g != w && (f.want != nil || !(math.Abs(float64(g-w)) <= 1e-6*math.Abs(float64(w)))) {
							t.Fatalf("%s of elements %d to %d: element %d of operand %c is %v, want %v", f.name, offset, offset+n-1, j, "yabc"[i], g, w)
						}
					}
				}
			}
		}
	})
}

// ulps returns the error |got − want| in float32 units in the last place of want.
func ulps(got float32, want float64) float64 {
	w := float32(want)
	switch {
	case math.IsNaN(want) != math.IsNaN(float64(got)):
		return math.Inf(1)
	case math.IsNaN(want) || got == w:
		return 0
	case math.IsInf(float64(w), 0) || math.IsInf(float64(got), 0):
		return math.Inf(1)
	}
	_, exponent := math.Frexp(want)
	unit := math.Ldexp(1, max(exponent-24, -149))
	return math.Abs(float64(got)-want) / unit
}

// TestSoftplusAndSigmoidAreAccurateEverywhere checks the kernels of Softplus and SoftplusSigmoid against float64. All
// instruction sets must give the same bits. The test compares a hash of the results, because no machine has all
// instruction sets. Both softplus and sigmoid must be positive at −44 and zero below −44: models take the logarithm of
// a standard deviation softplus(x), so softplus must be positive for plausible outputs x of a network.
func TestSoftplusAndSigmoidAreAccurateEverywhere(t *testing.T) {
	if at, below := Sigmoid(-44), Sigmoid(math.Nextafter(-44, -50)); at < math.Exp(-44.001) || below != 0 {
		t.Errorf("Sigmoid is %v at −44 and %v at the next smaller number, want about e⁻⁴⁴ and 0", at, below)
	}
	// x contains all special values and every 8209th float32, so that each exponent occurs.
	step := uint64(8209)
	if testing.Short() {
		step = 131101
	}
	x := []float32{-44, math.Nextafter32(-44, -50)}
	for bits := uint64(0); bits < 1<<32; bits += step {
		x = append(x, math.Float32frombits(uint32(bits)))
	}
	for e := range 256 {
		for _, fraction := range []uint32{0, 1, 0x7fffff} {
			bits := uint32(e)<<23 | fraction
			x = append(x, math.Float32frombits(bits), math.Float32frombits(bits|1<<31))
		}
	}
	hashed := len(x) // the hash covers the numbers from this index on, which are the same with -short
	for i := -120.0; i < 120; i += 0.0037 {
		x = append(x, float32(i))
	}
	onEachLevel(t, func(t *testing.T) {
		var y [3][]float32
		for i := range y {
			y[i] = make([]float32, len(x))
		}
		Softplus(y[0], x)
		SoftplusSigmoid(y[1], y[2], x)
		for k, exact := range []func(x float64) float64{
			func(x float64) float64 { return softplus(x, expOfMinusAbs(x)) },
			func(x float64) float64 { return softplus(x, expOfMinusAbs(x)) },
			Sigmoid,
		} {
			worst, where := 0.0, float32(0)
			for i := range x {
				if u := ulps(y[k][i], exact(float64(x[i]))); u > worst {
					worst, where = u, x[i]
				}
			}
			if worst > 2.5 {
				t.Errorf("result %d for %v has an error of %.3g units in the last place, want at most 2.5", k, where, worst)
			}
			h := fnv.New64a()
			binary.Write(h, binary.LittleEndian, y[k][hashed:])
			if got, want := h.Sum64(), [...]uint64{0x6cef969a2e8a391, 0x6cef969a2e8a391, 0x231276b0a5939aba}[k]; got != want {
				t.Errorf("the hash of result %d is %#x, want %#x with all instruction sets", k, got, want)
			}
		}
	})
}

func TestAdamaxChecksBounds(t *testing.T) {
	onEachLevel(t, func(t *testing.T) {
		for short := 1; short < 4; short++ { // operand 0 determines the number of elements
			m := [4][]float32{}
			for i := range m {
				m[i] = make([]float32, 20)
			}
			m[short] = m[short][:19:19]
			if panicOf(func() { Adamax(m[0], m[1], m[2], m[3], 0.9, 0.999, 1, 0) }) == nil {
				t.Errorf("Adamax did not panic although operand %d is too short by one element", short)
			}
		}
	})
}
