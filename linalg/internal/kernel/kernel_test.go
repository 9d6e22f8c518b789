package kernel

import (
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
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

// random is the number of random cases in a test. Emulators are slow, so -short reduces it.
var random = 400

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		random = 80
	}
	os.Exit(m.Run())
}

// withLevel selects level l, calls f and restores the previous level.
func withLevel(l int, f func()) {
	defer func(best int) { level = best }(level)
	level = l
	f()
}

// normals returns n independent samples from the normal distribution N(0, 1).
func normals(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// randomContraction returns a random contraction whose sizes are close to multiples of the tile sizes.
// The rows and groups may be separated by gaps in memory.
func randomContraction(rng *rand.Rand) Contraction[float32] {
	sizes := []int{1, 2, 3, 4, 4, 5, 6, 7, 8, 9, 11, 12, 13, 15, 16, 17, 20, 23, 24, 25, 31, 32, 33, 36, 47, 48, 49, 52, 63, 64, 65, 100}
	pick := func() int { return sizes[rng.IntN(len(sizes))] }
	c := Contraction[float32]{Rows: pick(), Cols: pick(), Steps: rng.IntN(20), Groups: 1 + rng.IntN(10), Add: rng.IntN(2) == 0}
	if rng.IntN(4) == 0 {
		c.Groups, c.Steps = 1, 1+rng.IntN(300)
	}
	c.CRow = c.Cols + rng.IntN(3)
	c.CGroup = c.Rows*c.CRow + rng.IntN(3)
	c.ARow, c.AStep = 1, c.Rows+rng.IntN(3)
	if rng.IntN(2) == 0 {
		c.ARow, c.AStep = c.Steps+rng.IntN(3), 1
	}
	c.BStep, c.BGroup = c.Cols+rng.IntN(3), rng.IntN(30)
	for range rng.IntN(5) {
		c.Segments = append(c.Segments, Segment{rng.IntN(9), rng.IntN(9)})
	}
	c.A = normals(rng, 8+(c.Rows-1)*c.ARow+max(0, c.Steps-1)*c.AStep+1)
	c.B = normals(rng, 8+(c.Groups-1)*c.BGroup+max(0, c.Steps-1)*c.BStep+c.Cols)
	c.C = normals(rng, (c.Groups-1)*c.CGroup+(c.Rows-1)*c.CRow+c.Cols+20)
	if rng.IntN(2) == 0 {
		c.Bias = normals(rng, c.Rows)
	}
	if rng.IntN(3) == 0 { // store the groups in reverse order
		c.CStart, c.CGroup = (c.Groups-1)*c.CGroup, -c.CGroup
	}
	return c
}

// double returns a copy of c in float64, with f applied to each element of the operands.
func double(c Contraction[float32], f func(float64) float64) Contraction[float64] {
	convert := func(x []float32) []float64 {
		var y []float64
		for _, v := range x {
			y = append(y, f(float64(v)))
		}
		return y
	}
	return Contraction[float64]{
		Rows: c.Rows, Cols: c.Cols, Steps: c.Steps, Groups: c.Groups,
		C: convert(c.C), CStart: c.CStart, CRow: c.CRow, CGroup: c.CGroup,
		A: convert(c.A), ARow: c.ARow, AStep: c.AStep,
		B: convert(c.B), BStep: c.BStep, BGroup: c.BGroup,
		Segments: c.Segments, Bias: convert(c.Bias), Add: c.Add,
	}
}

func describe(c Contraction[float32]) string {
	return fmt.Sprintf("[%d×%d], %d steps, %d groups, %d segments, bias %v, add %v", c.Rows, c.Cols, c.Steps, c.Groups, len(c.Segments), c.Bias != nil, c.Add)
}

// TestTilesOfEverySizeMatchPlainGo checks contractions whose sizes are close to multiples of tile and
// vector sizes. The elements are small integers, so sums are exact, and SIMD must give the same bits as
// plain Go.
func TestTilesOfEverySizeMatchPlainGo(t *testing.T) {
	var rows, cols []int
	for n := range 53 {
		if n > 0 && (n <= 18 || n%8 <= 1 || n%8 == 7 || n%8 == 4) {
			cols = append(cols, n)
		}
		if n > 0 && (n <= 18 || n == 24 || n == 33) {
			rows = append(rows, n)
		}
	}
	const most = 60
	whole := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(i*7%17 - 8)
		}
		return x
	}
	a, b, bias, start := whole(100*most), whole(100*most), whole(most), whole(12*34*most)
	onEachLevel(t, func(t *testing.T) {
		got, want := make([]float32, len(start)), make([]float32, len(start))
		variant := 0
		for _, m := range rows {
			for _, n := range cols {
				for _, groups := range []int{1, 2, 3, 4, 5, 9} {
					variant++
					c := Contraction[float32]{
						Rows: m, Cols: n, Steps: 1 + variant%3, Groups: groups, Add: variant%2 == 0,
						CRow: n, CGroup: m * n, ARow: 5, AStep: 1, A: a, BStep: n, BGroup: n + 1, B: b,
						Segments: []Segment{{A: 1, B: 3}, {A: 0, B: 200}}[:1+variant%5%2],
					}
					if variant%7 < 3 {
						c.Bias = bias[:m]
					}
					copy(got, start)
					copy(want, start)
					c.C = got
					c.Run()
					c.C = want
					c.plain()
					if end := groups*m*n + 20; !slices.Equal(got[:end], want[:end]) {
						i := 0
						for got[i] == want[i] {
							i++
						}
						t.Fatalf("%s: element %d is %v, want %v", describe(c), i, got[i], want[i])
					}
				}
			}
		}
	})
}

func TestTilesAreWithinRoundingErrorOfFloat64(t *testing.T) {
	onEachLevel(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 1))
		for range random {
			c := randomContraction(rng)
			exact, size := double(c, func(x float64) float64 { return x }), double(c, math.Abs)
			exact.plain()
			size.plain()
			before := slices.Clone(c.C)
			c.Run()
			// The rounding error of a sequential sum of n terms is at most n·2⁻²⁴ times the sum
			// of their absolute values (Higham, Accuracy and Stability, section 4.2).
			terms := float64(c.Steps*len(c.Segments) + 2)
			for i := range c.C {
				if d := math.Abs(float64(c.C[i]) - exact.C[i]); !(d <= terms*0x1p-24*size.C[i]) {
					t.Fatalf("%s: element %d is %v, want %v", describe(c), i, c.C[i], exact.C[i])
				}
			}
			inside := make([]bool, len(c.C))
			for g := range c.Groups {
				for i := range c.Rows {
					for j := range c.Cols {
						inside[c.CStart+g*c.CGroup+i*c.CRow+j] = true
					}
				}
			}
			for i, in := range inside {
				if !in && c.C[i] != before[i] {
					t.Fatalf("%s: element %d is outside the matrices C_g, but Run changed it", describe(c), i)
				}
			}
		}
	})
}

// TestSoftplusAndSigmoidArePositiveFromMinus44 checks that both functions are positive at −44 and zero
// below it, whether they are computed separately or together. Models take the logarithm of a standard
// deviation softplus(x), so softplus must be positive for plausible outputs x of a network.
func TestSoftplusAndSigmoidArePositiveFromMinus44(t *testing.T) {
	check := func(t *testing.T, name string, at, below float64) {
		if at < math.Exp(-44.001) || below != 0 {
			t.Errorf("%s is %v at −44 and %v at the next smaller number, want about e⁻⁴⁴ and 0", name, at, below)
		}
	}
	check(t, "Softplus in plain Go", Softplus.plain(-44), Softplus.plain(math.Nextafter(-44, -50)))
	check(t, "Sigmoid in plain Go", Sigmoid.plain(-44), Sigmoid.plain(math.Nextafter(-44, -50)))
	onEachLevel(t, func(t *testing.T) {
		x, y, slope := []float32{-44, math.Nextafter32(-44, -50)}, make([]float32, 2), make([]float32, 2)
		Apply(Softplus, y, x)
		check(t, "Softplus", float64(y[0]), float64(y[1]))
		Apply(Sigmoid, y, x)
		check(t, "Sigmoid", float64(y[0]), float64(y[1]))
		SoftplusSigmoid(y, slope, x)
		check(t, "the first result of SoftplusSigmoid", float64(y[0]), float64(y[1]))
		check(t, "the second result of SoftplusSigmoid", float64(slope[0]), float64(slope[1]))
	})
}

func TestSoftplusSigmoidMatchesBothFunctionsInPlainGo(t *testing.T) {
	var x []float64
	for i := -100.0; i < 100; i += 0.37 {
		x = append(x, i)
	}
	x = append(x, 0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1))
	y, slope := make([]float64, len(x)), make([]float64, len(x))
	SoftplusSigmoid(y, slope, x)
	for i, v := range x {
		if y[i] != Softplus.plain(v) || slope[i] != Sigmoid.plain(v) {
			t.Errorf("SoftplusSigmoid(%v) = %v, %v, but Softplus and Sigmoid give %v and %v", v, y[i], slope[i], Softplus.plain(v), Sigmoid.plain(v))
		}
	}
}

// TestAllInstructionSetsGiveTheSameBits checks a hash of the results of contractions and elementwise
// functions. The hash must be the same for all instruction sets and machines.
func TestAllInstructionSetsGiveTheSameBits(t *testing.T) {
	const want = "4d542bd3efb267d3"
	onEachLevel(t, func(t *testing.T) {
		h := fnv.New64a()
		add := func(x []float32) {
			for _, v := range x {
				bits := math.Float32bits(v)
				if v != v {
					bits = 0x7fc00000 // the bits of NaN differ between processors
				}
				h.Write([]byte{byte(bits), byte(bits >> 8), byte(bits >> 16), byte(bits >> 24)})
			}
		}
		rng := rand.New(rand.NewPCG(2, 1))
		for range 500 {
			c := randomContraction(rng)
			c.Run()
			add(c.C)
		}
		// x contains each combination of a sign, an exponent and the first four bits of a fraction. The
		// other bits are random.
		x := make([]float32, 0, 4*256*8)
		for bits := range uint32(4 * 256 * 8) {
			x = append(x, math.Float32frombits(bits<<19|rng.Uint32()>>13))
		}
		y, z, u, v := slices.Clone(x), slices.Clone(x), make([]float32, len(x)), make([]float32, len(x))
		rng.Shuffle(len(y), func(i, j int) { y[i], y[j] = y[j], y[i] })
		rng.Shuffle(len(z), func(i, j int) { z[i], z[j] = z[j], z[i] })
		for _, name := range slices.Sorted(maps.Keys(elementwiseFunctions)) {
			n := len(x) - rng.IntN(20)
			copy(u, y)
			copy(v, z)
			elementwiseFunctions[name](u[:n], x[:n], v[:n], y[:n])
			add(u)
			add(v)
			copy(y, z) // Adamax changes y
		}
		if got := fmt.Sprintf("%x", h.Sum64()); got != want {
			t.Errorf("the hash of the results is %s, want %s", got, want)
		}
	})
}

func TestTilesPropagateNaNAndInfinity(t *testing.T) {
	onEachLevel(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(3, 1))
		for range random {
			c := randomContraction(rng)
			for _, x := range [][]float32{c.A, c.B, c.C} {
				x[rng.IntN(len(x))] = []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))}[rng.IntN(3)]
			}
			exact := double(c, func(x float64) float64 { return x })
			exact.plain()
			c.Run()
			for i := range c.C {
				got, want := float64(c.C[i]), exact.C[i]
				if math.IsNaN(got) != math.IsNaN(want) || math.IsInf(got, 1) != math.IsInf(want, 1) || math.IsInf(got, -1) != math.IsInf(want, -1) {
					t.Fatalf("%s: element %d is %v, want %v", describe(c), i, got, want)
				}
			}
		}
	})
}

// elementwiseFunctions contains the elementwise functions that have SIMD kernels, converted to a
// common signature.
var elementwiseFunctions = map[string]func(y, a, b, c []float32){
	"Add":             func(y, a, b, c []float32) { Add(y, a, b) },
	"Sub":             func(y, a, b, c []float32) { Sub(y, a, b) },
	"Mul":             func(y, a, b, c []float32) { Mul(y, a, b) },
	"Div":             func(y, a, b, c []float32) { Div(y, a, b) },
	"MulAdd":          func(y, a, b, c []float32) { MulAdd(y, a, b, c) },
	"Scale":           func(y, a, b, c []float32) { Scale(y, -1.7, a) },
	"AddConst":        func(y, a, b, c []float32) { AddConst(y, a, 0.3) },
	"Exp":             func(y, a, b, c []float32) { Apply(Exp, y, a) },
	"Log":             func(y, a, b, c []float32) { Apply(Log, y, a) },
	"Softplus":        func(y, a, b, c []float32) { Apply(Softplus, y, a) },
	"Sigmoid":         func(y, a, b, c []float32) { Apply(Sigmoid, y, a) },
	"SigmoidGradient": func(y, a, b, c []float32) { SigmoidGradient(y, a, b) },
	"SoftplusSigmoid": func(y, a, b, c []float32) { SoftplusSigmoid(y, b, a) },
	"Adamax":          func(y, a, b, c []float32) { Mul(b, b, b); Adamax(y, a, b, c, 0.9, 0.999, 1e-2, 1e-8) },
}

func TestElementwiseKernelsMatchPlainGo(t *testing.T) {
	onEachLevel(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(4, uint64(level)))
		for _, name := range slices.Sorted(maps.Keys(elementwiseFunctions)) { // sorted, so that the random inputs are the same in each run
			f := elementwiseFunctions[name]
			for n := range 70 {
				offset := rng.IntN(17) // most vectors are not aligned
				run := func(l int, x [4][]float32) []float32 {
					var m [4][]float32
					for i := range x {
						x[i] = slices.Clone(x[i])
						m[i] = x[i][offset : offset+n]
					}
					withLevel(l, func() { f(m[0], m[1], m[2], m[3]) })
					return slices.Concat(x[0], x[1], x[2])
				}
				x := [4][]float32{normals(rng, 100), normals(rng, 100), normals(rng, 100), normals(rng, 100)}
				if name == "Log" {
					for i := range x[1] {
						x[1][i] = float32(math.Abs(float64(x[1][i]))) + 0.01
					}
				}
				got, want := run(level, x), run(levelNone, x)
				for i := range want {
					if d := math.Abs(float64(got[i] - want[i])); !(d <= 1e-6*(1+math.Abs(float64(want[i])))) {
						t.Fatalf("%s of %d elements: element %d is %v, want %v as in plain Go", name, n, i, got[i], want[i])
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
	case math.IsNaN(want):
		return 0
	case math.IsInf(float64(w), 0) || math.IsInf(float64(got), 0):
		// Treat an infinity and the largest finite numbers of the same sign as equal.
		large := func(x float64) bool { return math.Abs(x) > math.MaxFloat32*(1-0x1p-22) }
		if got == w || large(want) && large(float64(got)) && (got > 0) == (w > 0) {
			return 0
		}
		return math.Inf(1)
	}
	_, exponent := math.Frexp(want)
	unit := math.Ldexp(1, max(exponent-24, -149))
	return math.Abs(float64(got)-want) / unit
}

func TestTranscendentalFunctionsAreAccurateEverywhere(t *testing.T) {
	// x contains all special values and every 8209th float32, so that each exponent occurs.
	step := uint64(8209)
	if testing.Short() {
		step = 131101
	}
	var x []float32
	for bits := uint64(0); bits < 1<<32; bits += step {
		x = append(x, math.Float32frombits(uint32(bits)))
	}
	for e := range 256 {
		for _, fraction := range []uint32{0, 1, 0x7fffff} {
			bits := uint32(e)<<23 | fraction
			x = append(x, math.Float32frombits(bits), math.Float32frombits(bits|1<<31))
		}
	}
	for i := -120.0; i < 120; i += 0.0037 {
		x = append(x, float32(i))
	}
	functions := []struct {
		name  string
		f     func(y, a []float32)
		exact func(float64) float64
		ulps  float64
	}{
		{"Exp", func(y, a []float32) { Apply(Exp, y, a) }, math.Exp, 1.1},
		{"Log", func(y, a []float32) { Apply(Log, y, a) }, math.Log, 1},
		{"Tanh", func(y, a []float32) { Apply(Tanh, y, a) }, math.Tanh, 0.51},
		{"Softplus", func(y, a []float32) { Apply(Softplus, y, a) }, Softplus.plain, 2.5},
		{"Sigmoid", func(y, a []float32) { Apply(Sigmoid, y, a) }, Sigmoid.plain, 2.5},
		{"SoftplusSigmoid, first", func(y, a []float32) { SoftplusSigmoid(y, make([]float32, len(a)), a) }, Softplus.plain, 2.5},
		{"SoftplusSigmoid, second", func(y, a []float32) { SoftplusSigmoid(make([]float32, len(a)), y, a) }, Sigmoid.plain, 2.5},
	}
	results := map[string][]float32{}
	onEachLevel(t, func(t *testing.T) {
		for _, f := range functions {
			y := make([]float32, len(x))
			f.f(y, x)
			worst, where := 0.0, float32(0)
			for i := range x {
				if u := ulps(y[i], f.exact(float64(x[i]))); u > worst {
					worst, where = u, x[i]
				}
			}
			if worst > f.ulps {
				t.Errorf("%s(%v) has an error of %.3g units in the last place, want at most %v", f.name, where, worst, f.ulps)
			}
			t.Logf("%s: the largest error is %.3f units in the last place", f.name, worst)
			if other, ok := results[f.name]; ok {
				for i := range y {
					if math.Float32bits(y[i]) != math.Float32bits(other[i]) && y[i] == y[i] {
						t.Fatalf("%s(%v): AVX2 returns %v, but AVX-512 returns %v", f.name, x[i], other[i], y[i])
					}
				}
			}
			results[f.name] = y
		}
	})
}

// TestRowKernelsAreBitIdenticalToPlainGo checks the functions of rows.go for random matrices. Row
// strides may be zero or exceed the row length, and the result may overwrite an operand.
func TestRowKernelsAreBitIdenticalToPlainGo(t *testing.T) {
	onEachLevel(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(5, 1))
		for range 10 * random {
			rows, n := 1+rng.IntN(13), 1+rng.IntN(33)
			size := rows*(n+3) + 1
			draw := func() []float64 {
				x := make([]float64, size)
				for i := range x {
					x[i] = rng.NormFloat64()
				}
				return x
			}
			y, a, b, c := draw(), draw(), draw(), draw()
			if rng.IntN(10) == 0 {
				for _, x := range [][]float64{a, b, c} {
					x[rng.IntN(size)] = []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1)}[rng.IntN(4)]
				}
			}
			stride := func(n int) int { return []int{0, n, n + rng.IntN(4)}[rng.IntN(3)] }
			rowA, rowB, rowC := stride(n), stride(n), stride(n)
			numberA, numberC, numberY := stride(1), stride(1), stride(1)
			whole := rows * n
			for name, f := range map[string]func(y, a, b, c []float64){
				"y_i = a_i·b_i for numbers a_i": func(y, a, b, c []float64) {
					MulAddRows(y[:whole], n, a, numberA, 0, b, rowB, 1, nil, 0, 0)
				},
				"y_i = a_i ⊙ b_i": func(y, a, b, c []float64) {
					MulAddRows(y[:whole], n, a, rowA, 1, b, rowB, 1, nil, 0, 0)
				},
				"y_i = a_i ⊙ b_i + c_i": func(y, a, b, c []float64) {
					MulAddRows(y[:whole], n, a, rowA, 1, b, rowB, 1, c, rowC, 1)
				},
				"y_i = a_i·b_i + c_i for numbers a_i": func(y, a, b, c []float64) {
					MulAddRows(y[:whole], n, a, numberA, 0, b, rowB, 1, c, rowC, 1)
				},
				"y_i = a_i·b_i + y_i for numbers a_i": func(y, a, b, c []float64) {
					MulAddRows(y[:whole], n, a, numberA, 0, b, rowB, 1, y, n, 1)
				},
				"y_i = a_i·b_i + c_i for numbers a_i and c_i": func(y, a, b, c []float64) {
					MulAddRows(y[:whole], n, a, numberA, 0, b, rowB, 1, c, numberC, 0)
				},
				"AddDots":               func(y, a, b, c []float64) { AddDots(y, numberY, a, rowA, b, rowB, rows, n) },
				"AddSums":               func(y, a, b, c []float64) { AddSums(y, numberY, b, rows, n) },
				"AddMulRows":            func(y, a, b, c []float64) { AddMulRows(y[:n], a, rowA, 1, b, rowB, rows) },
				"AddMulRows of numbers": func(y, a, b, c []float64) { AddMulRows(y[:n], a, numberA, 0, b, rowB, rows) },
			} {
				got, want := slices.Clone(y), slices.Clone(y)
				f(got, a, b, c)
				withLevel(levelNone, func() { f(want, a, b, c) })
				for i := range want {
					if math.Float64bits(got[i]) != math.Float64bits(want[i]) && (got[i] == got[i] || want[i] == want[i]) {
						t.Fatalf("%s, %d rows of %d numbers: element %d is %v, want %v as in plain Go", name, rows, n, i, got[i], want[i])
					}
				}
			}
		}
	})
}

func TestRowKernelsCheckBounds(t *testing.T) {
	onEachLevel(t, func(t *testing.T) {
		defer func() {
			if recover() == nil {
				t.Error("MulAddRows did not panic although an operand is too short")
			}
		}()
		MulAddRows(make([]float64, 50), 10, make([]float64, 50), 10, 1, make([]float64, 49), 10, 1, nil, 0, 0)
	})
}

func TestAdamaxChecksBounds(t *testing.T) {
	onEachLevel(t, func(t *testing.T) {
		for short := 1; short < 4; short++ { // operand 0 determines the number of elements
			var m [4][]float32
			for i := range m {
				m[i] = make([]float32, 20)
			}
			m[short] = m[short][:19:19]
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("Adamax did not panic although operand %d is too short by one element", short)
					}
				}()
				Adamax(m[0], m[1], m[2], m[3], 0.9, 0.999, 1, 0)
			}()
		}
	})
}

func TestAllLevelsExceptNoneUseSIMD(t *testing.T) {
	OnEachLevel(func(name string) {
		simd := name != "none"
		if got := SIMD32[float32](); got != simd {
			t.Errorf("level %s: SIMD32[float32]() = %v, want %v", name, got, simd)
		}
		if got := simd64[float64](); got != simd {
			t.Errorf("level %s: simd64[float64]() = %v, want %v", name, got, simd)
		}
		if SIMD32[float64]() || simd64[float32]() {
			t.Errorf("level %s: SIMD32[float64]() or simd64[float32]() is true", name)
		}
	})
}

func TestOnEachLevelRestoresTheLevel(t *testing.T) {
	defer func(l int) { level = l }(level)
	level = levelNone
	OnEachLevel(func(string) {})
	if level != levelNone {
		t.Errorf("after OnEachLevel the level is %s, want none as before", levelNames[level])
	}
}

func TestHVAESIMDSelectsTheLevel(t *testing.T) {
	intel, older, arm, other := []int{levelNone, levelAVX2, levelAVX512}, []int{levelNone, levelAVX2}, []int{levelNone, levelNEON}, []int{levelNone}
	for _, c := range []struct {
		name      string
		available []int
		want      int
	}{
		{"", intel, levelAVX512}, {"none", intel, levelNone}, {"avx2", intel, levelAVX2}, {"avx512", intel, levelAVX512},
		{"", arm, levelNEON}, {"neon", arm, levelNEON}, {"none", arm, levelNone}, {"", other, levelNone},
	} {
		if got, err := chooseLevel(c.name, c.available); got != c.want || err != nil {
			t.Errorf("HVAE_SIMD=%s, available levels %v: chooseLevel returns %s and the error %v, want %s", c.name, c.available, levelNames[got], err, levelNames[c.want])
		}
	}
	for _, name := range []string{"bogus", "AVX2", "avx2 ", "avx", "1", "avx512", "neon"} {
		got, err := chooseLevel(name, older)
		if got != levelAVX2 || err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", name)) || !strings.Contains(err.Error(), "it can be none, avx2, or unset") {
			t.Errorf("HVAE_SIMD=%s: chooseLevel returns %s and the error %v, want avx2 and an error that lists the available levels", name, levelNames[got], err)
		}
	}
}

func TestContractionsCheckBounds(t *testing.T) {
	fits := func() Contraction[float64] { // returns a contraction whose operands have exactly the required length
		c := Contraction[float64]{
			Rows: 3, Cols: 5, Steps: 4, Groups: 2,
			CStart: 1, CRow: 6, CGroup: 20, ARow: 10, AStep: 2, BStep: 7, BGroup: 30,
			Segments: []Segment{{A: 2, B: 9}, {A: 3, B: 1}}, Bias: make([]float64, 3),
		}
		c.C = make([]float64, 1+20+2*6+5)
		c.A = make([]float64, 3+2*10+3*2+1)
		c.B = make([]float64, 9+30+3*7+5)
		return c
	}
	panics := func(change func(c *Contraction[float64])) (did bool) {
		defer func() {
			if msg := recover(); msg != nil {
				did = strings.HasPrefix(fmt.Sprint(msg), "linalg: Contraction: ")
			}
		}()
		c := fits()
		change(&c)
		c.Run()
		return false
	}
	for what, change := range map[string]func(c *Contraction[float64]){
		"operands of the exact length": func(c *Contraction[float64]) {},
		"groups in reverse":            func(c *Contraction[float64]) { c.CStart, c.CGroup = 21, -20 },
		"no segments, A and B":         func(c *Contraction[float64]) { c.Segments, c.A, c.B = nil, nil, nil },
		"no steps, A and B":            func(c *Contraction[float64]) { c.Steps, c.A, c.B = 0, nil, nil },
		"no rows and no C":             func(c *Contraction[float64]) { c.Rows, c.C = 0, nil },
	} {
		if panics(change) {
			t.Errorf("%s: Run panicked", what)
		}
	}
	for what, change := range map[string]func(c *Contraction[float64]){
		"C too short":                func(c *Contraction[float64]) { c.C = c.C[1:] },
		"A too short":                func(c *Contraction[float64]) { c.A = c.A[1:] },
		"B too short":                func(c *Contraction[float64]) { c.B = c.B[1:] },
		"bias too short":             func(c *Contraction[float64]) { c.Bias = c.Bias[1:] },
		"negative start of C":        func(c *Contraction[float64]) { c.CStart = -1 },
		"groups outside C":           func(c *Contraction[float64]) { c.CStart, c.CGroup = 19, -20 },
		"negative segment in A":      func(c *Contraction[float64]) { c.Segments[0].A = -1 },
		"negative segment in B":      func(c *Contraction[float64]) { c.Segments[1].B = -1 },
		"segment beyond A":           func(c *Contraction[float64]) { c.Segments[0].A = 4 },
		"segment beyond B":           func(c *Contraction[float64]) { c.Segments[1].B = 10 },
		"negative row stride of A":   func(c *Contraction[float64]) { c.ARow = -1 },
		"negative step stride of A":  func(c *Contraction[float64]) { c.AStep = -1 },
		"negative step stride of B":  func(c *Contraction[float64]) { c.BStep = -1 },
		"negative group stride of B": func(c *Contraction[float64]) { c.BGroup = -1 },
		"negative row stride of C":   func(c *Contraction[float64]) { c.CRow = -1 },
	} {
		if !panics(change) {
			t.Errorf("%s: Run did not panic", what)
		}
	}
}
