package linalg

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"hvae/linalg/internal/kernel"
)

func random[T Float](rng *rand.Rand, rows, cols int) Matrix[T] {
	m := New[T](rows, cols)
	for i := range m.Data {
		m.Data[i] = T(rng.NormFloat64())
	}
	return m
}

func near(got, want, tol float64) bool {
	return math.Abs(got-want) <= tol*max(1, math.Abs(want))
}

// shapesOf returns the shapes that can be broadcast to [r×c].
func shapesOf(r, c int) []Shape { return []Shape{{r, c}, {r, 1}, {1, c}, {1, 1}} }

// at returns element (i, j) of m after broadcasting.
func at[T Float](m Matrix[T], i, j int) float64 {
	return float64(m.At(min(i, m.Rows-1), min(j, m.Cols-1)))
}

func TestBinaryOperationsBroadcast(t *testing.T) {
	ops := []struct {
		name string
		op   func(dst, a, b Matrix[float64])
		f    func(x, y float64) float64
	}{
		{"Add", Add[float64], func(x, y float64) float64 { return x + y }},
		{"Sub", Sub[float64], func(x, y float64) float64 { return x - y }},
		{"Mul", Mul[float64], func(x, y float64) float64 { return x * y }},
		{"Div", Div[float64], func(x, y float64) float64 { return x / y }},
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for _, size := range []Shape{{1, 1}, {1, 7}, {5, 1}, {3, 4}, {17, 10}} {
		for _, sa := range shapesOf(size.Rows, size.Cols) {
			for _, sb := range shapesOf(size.Rows, size.Cols) {
				a, b := random[float64](rng, sa.Rows, sa.Cols), random[float64](rng, sb.Rows, sb.Cols)
				s, ok := Broadcast(sa, sb)
				if !ok {
					t.Fatalf("Broadcast(%v, %v) reports that the shapes are not compatible", sa, sb)
				}
				for _, op := range ops {
					dst := New[float64](s.Rows, s.Cols)
					op.op(dst, a, b)
					for i := range s.Rows {
						for j := range s.Cols {
							if want := op.f(at(a, i, j), at(b, i, j)); dst.At(i, j) != want {
								t.Fatalf("%s(%v, %v)[%d,%d] = %v, want %v", op.name, sa, sb, i, j, dst.At(i, j), want)
							}
						}
					}
				}
			}
		}
	}
}

func TestMulAddAndMulSumMatchTheirFormulas(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	for _, size := range []Shape{{1, 1}, {1, 6}, {5, 1}, {4, 3}, {12, 10}} {
		for _, sa := range shapesOf(size.Rows, size.Cols) {
			for _, sb := range shapesOf(size.Rows, size.Cols) {
				for _, sc := range shapesOf(size.Rows, size.Cols) {
					a, b := random[float64](rng, sa.Rows, sa.Cols), random[float64](rng, sb.Rows, sb.Cols)
					c := random[float64](rng, sc.Rows, sc.Cols)
					ab, _ := Broadcast(sa, sb)
					s, _ := Broadcast(ab, sc)
					dst := New[float64](s.Rows, s.Cols)
					MulAdd(dst, a, b, c)
					for i := range s.Rows {
						for j := range s.Cols {
							want := at(a, i, j)*at(b, i, j) + at(c, i, j)
							if !near(dst.At(i, j), want, 1e-15) {
								t.Fatalf("MulAdd(%v, %v, %v)[%d,%d] = %v, want %v", sa, sb, sc, i, j, dst.At(i, j), want)
							}
						}
					}

					if !sc.broadcastsTo(ab) { // MulSum cannot sum products of shape ab to shape sc
						continue
					}
					sum, want := New[float64](sc.Rows, sc.Cols), New[float64](sc.Rows, sc.Cols)
					sum.Fill(math.NaN())
					MulSum(sum, a, b)
					for i := range ab.Rows {
						for j := range ab.Cols {
							want.Row(min(i, sc.Rows-1))[min(j, sc.Cols-1)] += at(a, i, j) * at(b, i, j)
						}
					}
					for i := range sum.Data {
						if !near(sum.Data[i], want.Data[i], 1e-13) {
							t.Fatalf("MulSum(%v, %v → %v)[%d] = %v, want %v", sa, sb, sc, i, sum.Data[i], want.Data[i])
						}
					}
				}
			}
		}
	}
}

func TestSumAndCopyAreAdjoint(t *testing.T) {
	// Test ⟨Copy(v), a⟩ = ⟨v, Sum(a)⟩ for each shape of v that can be broadcast to the shape of a.
	rng := rand.New(rand.NewPCG(3, 1))
	dot := func(a, b Matrix[float64]) float64 {
		d := New[float64](1, 1)
		MulSum(d, a, b)
		return d.Data[0]
	}
	for _, size := range []Shape{{1, 1}, {1, 6}, {5, 1}, {4, 3}, {12, 10}} {
		a := random[float64](rng, size.Rows, size.Cols)
		for _, sv := range shapesOf(size.Rows, size.Cols) {
			v := random[float64](rng, sv.Rows, sv.Cols)
			spread, sum := New[float64](size.Rows, size.Cols), New[float64](sv.Rows, sv.Cols)
			spread.Fill(math.NaN())
			sum.Fill(math.NaN())
			Copy(spread, v)
			Sum(sum, a)
			if l, r := dot(spread, a), dot(v, sum); !near(l, r, 1e-13) {
				t.Errorf("v %v, a %v: ⟨Copy(v), a⟩ = %v, but ⟨v, Sum(a)⟩ = %v", sv, size, l, r)
			}
		}
	}
	m := Of(2, 3, []float64{1, 2, 3, 10, 20, 30})
	for _, c := range []struct {
		s    Shape
		want []float64
	}{{Shape{2, 1}, []float64{6, 60}}, {Shape{1, 3}, []float64{11, 22, 33}}, {Shape{1, 1}, []float64{66}}, {Shape{2, 3}, m.Data}} {
		sum := New[float64](c.s.Rows, c.s.Cols)
		if Sum(sum, m); !slices.Equal(sum.Data, c.want) {
			t.Errorf("the sum to shape %v is %v, want %v", c.s, sum.Data, c.want)
		}
	}
}

func TestAddSumAndAddMulSumMatchSumAndAdd(t *testing.T) {
	testAddedSums[float64](t)
	testAddedSums[float32](t)
}

func testAddedSums[T Float](t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 2))
	for _, s := range []Shape{{1, 1}, {1, 7}, {3, 10}, {6, 10}, {50, 10}, {33, 70}} {
		a, b, start := random[T](rng, s.Rows, s.Cols), random[T](rng, s.Rows, s.Cols), random[T](rng, s.Rows, 1)
		sum, want := start.Clone(), New[T](s.Rows, 1)
		AddSum(sum, a)
		Sum(want, a)
		if Add(want, want, start); !slices.Equal(sum.Data, want.Data) {
			t.Errorf("AddSum of %v gives %v, but Sum and Add give %v", s, sum.Data, want.Data)
		}
		dot := start.Clone()
		AddMulSum(dot, a, b)
		MulSum(want, a, b)
		if Add(want, want, start); !slices.Equal(dot.Data, want.Data) {
			t.Errorf("AddMulSum of %v gives %v, but MulSum and Add give %v", s, dot.Data, want.Data)
		}
	}
}

func TestOperationsWithoutBroadcastingMatchTheirFormulas(t *testing.T) {
	a := Column(1.0, -2, 3)
	for _, c := range []struct {
		name string
		do   func(dst Matrix[float64])
		want []float64
	}{
		{"Scale", func(d Matrix[float64]) { Scale(d, -2, a) }, []float64{-2, 4, -6}},
		{"AddConst", func(d Matrix[float64]) { AddConst(d, a, 0.5) }, []float64{1.5, -1.5, 3.5}},
		{"Mul", func(d Matrix[float64]) { Mul(d, a, a) }, []float64{1, 4, 9}},
	} {
		dst := New[float64](3, 1)
		if c.do(dst); !slices.Equal(dst.Data, c.want) {
			t.Errorf("%s = %v, want %v", c.name, dst.Data, c.want)
		}
	}
}

func TestTranscendentalFunctionsMatchPackageMath(t *testing.T) {
	testUnary[float64](t, 1e-15)
	testUnary[float32](t, 1e-7)
}

func testUnary[T Float](t *testing.T, tol float64) {
	rng := rand.New(rand.NewPCG(4, 1))
	ops := []struct {
		name string
		op   func(dst, a Matrix[T])
		f    func(float64) float64
	}{
		{"Exp", Exp[T], math.Exp}, {"Log", Log[T], math.Log}, {"Tanh", Tanh[T], math.Tanh},
		{"Softplus", Softplus[T], func(x float64) float64 { return math.Log(1 + math.Exp(x)) }},
		{"Sigmoid", Sigmoid[T], func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }},
	}
	for _, n := range []int{0, 1, 5, 1000} {
		a, dst := New[T](1, n), New[T](1, n)
		for i := range a.Data {
			a.Data[i] = T(rng.Float64() * 5)
		}
		for _, op := range ops {
			op.op(dst, a)
			for i, v := range a.Data {
				if want := op.f(float64(v)); !near(float64(dst.Data[i]), want, tol) {
					t.Fatalf("%s(%v) = %v, want %v", op.name, v, dst.Data[i], want)
				}
			}
		}
	}
}

func TestSoftplusSigmoidAndLogSumExpNeverOverflow(t *testing.T) {
	value := func(f func(dst, a Matrix[float64]), x float64) float64 {
		y := Column(x)
		f(y, y)
		return y.Data[0]
	}
	inf := math.Inf(1)
	for _, c := range []struct{ x, softplus, sigmoid float64 }{
		{0, math.Ln2, 0.5},
		{800, 800, 1},
		{-800, 0, 0},
		{1e308, 1e308, 1},
		{-40, 4.248354255291589e-18, 4.248354255291589e-18}, // e⁻⁴⁰
		{40, 40, 1},
		{inf, inf, 1},
		{-inf, 0, 0},
	} {
		if got := value(Softplus, c.x); !(got == c.softplus || math.Abs(got-c.softplus) <= 1e-15*c.softplus) {
			t.Errorf("Softplus(%v) = %v, want %v", c.x, got, c.softplus)
		}
		if got := value(Sigmoid, c.x); !(got == c.sigmoid || math.Abs(got-c.sigmoid) <= 1e-15*c.sigmoid) {
			t.Errorf("Sigmoid(%v) = %v, want %v", c.x, got, c.sigmoid)
		}
	}
	for _, p := range []float64{1e-18, 0.01, 0.5, 0.999} {
		if got := value(Sigmoid, math.Log(p)-math.Log1p(-p)); !(math.Abs(got-p) <= 1e-13*p) {
			t.Errorf("Sigmoid(log(p/(1 − p))) = %v for p = %v", got, p)
		}
	}
	for _, c := range []struct {
		x    []float64
		want float64
	}{
		{nil, -inf},
		{[]float64{-inf, -inf}, -inf},
		{[]float64{3}, 3},
		{[]float64{1000, 1000}, 1000 + math.Ln2},
		{[]float64{-1000, -1000, -1000, -1000}, -1000 + 2*math.Ln2},
		{[]float64{0, -inf}, 0},
		{[]float64{inf, 0}, inf},
	} {
		if got := LogSumExp(c.x); !(got == c.want || math.Abs(got-c.want) <= 1e-12) {
			t.Errorf("LogSumExp(%v) = %v, want %v", c.x, got, c.want)
		}
	}
	for _, x := range [][]float64{{math.NaN(), 1}, {inf, math.NaN()}, {math.NaN(), -inf}} {
		if got := LogSumExp(x); !math.IsNaN(got) {
			t.Errorf("LogSumExp(%v) = %v, want NaN", x, got)
		}
	}
}

func TestVectorsNamesTheKernelsInUse(t *testing.T) {
	name, err := Vectors()
	// Each iteration performs a multiply-add, which counts as two operations, in every lane of 12
	// vectors on amd64 or 24 vectors on arm64.
	want := map[string]int{"none": 0, "avx2": 2 * 8 * 12, "avx512": 2 * 16 * 12, "neon": 2 * 4 * 24}[name]
	if n := PeakLoop(3); err != nil || n != 3*want {
		t.Errorf("Vectors() = %s, %v; PeakLoop(3) = %d, want %d", name, err, n, 3*want)
	}
}

// naive returns the product of a matrix [m×k] with elements a(i, p) and a matrix [k×n] with elements b(p, j).
func naive(m, n, k int, a, b func(i, j int) float64) []float64 {
	y := make([]float64, m*n)
	for i := range m {
		for j := range n {
			for p := range k {
				y[i*n+j] += a(i, p) * b(p, j)
			}
		}
	}
	return y
}

func TestProductsMatchTheirFormulas(t *testing.T) {
	testProducts[float64](t, 1e-13)
	testProducts[float32](t, 1e-4)
}

func testProducts[T Float](t *testing.T, tol float64) {
	rng := rand.New(rand.NewPCG(5, 1))
	sizes := []int{0, 1, 2, 3, 4, 5, 7, 8, 9, 16}
	check := func(name string, got Matrix[T], want []float64) {
		t.Helper()
		for i := range want {
			if !near(float64(got.Data[i]), want[i], tol) {
				t.Fatalf("%s %v: element %d is %v, want %v", name, got.Shape(), i, got.Data[i], want[i])
			}
		}
	}
	product := func(m, n, k int) {
		a, at_ := random[T](rng, m, k), random[T](rng, k, m)
		b, bt := random[T](rng, k, n), random[T](rng, n, k)
		el := func(m Matrix[T]) func(i, j int) float64 {
			return func(i, j int) float64 { return float64(m.At(i, j)) }
		}
		tr := func(m Matrix[T]) func(i, j int) float64 {
			return func(i, j int) float64 { return float64(m.At(j, i)) }
		}
		dst := New[T](m, n)
		dst.Fill(T(math.NaN()))
		MatMul(dst, a, b)
		want := naive(m, n, k, el(a), el(b))
		check("MatMul", dst, want)
		bias := random[T](rng, m, 1)
		for i := range want {
			want[i] += float64(bias.Data[i/n])
		}
		Affine(dst, a, b, bias)
		check("Affine", dst, want)
		MatMulTA(dst, at_, b)
		check("MatMulTA", dst, naive(m, n, k, tr(at_), el(b)))
		MatMulTB(dst, a, bt, make([]T, len(bt.Data)))
		want = naive(m, n, k, el(a), tr(bt))
		check("MatMulTB", dst, want)
		sum := random[T](rng, m, n)
		for i := range want {
			want[i] += float64(sum.Data[i])
		}
		AddMatMulTB(sum, a, bt, make([]T, len(bt.Data)))
		check("AddMatMulTB", sum, want)
	}
	for _, m := range sizes {
		for _, n := range sizes {
			for _, k := range sizes {
				product(m, n, k)
			}
		}
	}
	product(167, 201, 391) // packs its operands and runs on several goroutines
}

func TestResultsDoNotDependOnGOMAXPROCS(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 1))
	a, b := random[float32](rng, 197, 203), random[float32](rng, 203, 151)
	run := func(procs int) []float32 {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		y, bt, ta := New[float32](197, 151), New[float32](203, 151), New[float32](197, 203)
		MatMul(y, a, b)
		MatMulTA(bt, a, y)
		MatMulTB(ta, y, b, make([]float32, len(b.Data)))
		return slices.Concat(y.Data, bt.Data, ta.Data)
	}
	want := run(1)
	for _, procs := range []int{2, 3, 7} {
		if !slices.Equal(run(procs), want) {
			t.Errorf("the results with GOMAXPROCS = %d are not bit-identical to the results with 1", procs)
		}
	}
}

// AddMatMulTB must add the complete sum to dst at once. Above 2⁵³, consecutive float64 numbers differ
// by 2, so 2⁵³ + 400/256 is rounded to 2⁵³ + 2. If blocks of 192 terms 1/256 were added separately, dst
// would stay 2⁵³.
func TestAddMatMulTBAddsTheCompleteSum(t *testing.T) {
	const terms = 2*kBlock + 16
	dst, a, b := New[float64](1, 1), New[float64](1, terms), New[float64](1, terms)
	dst.Fill(1 << 53)
	a.Fill(1)
	b.Fill(1. / 256)
	AddMatMulTB(dst, a, b, make([]float64, terms))
	if want := float64(1<<53 + 2); dst.Data[0] != want {
		t.Errorf("2⁵³ + %d/256 = %.0f, want %.0f", terms, dst.Data[0], want)
	}
}

// TestLongSumsHaveTheSameBitsOnEveryPath checks products whose sums are computed in blocks. The bits of an
// element must not depend on the number of goroutines, on packing, or on which other elements are computed.
func TestLongSumsHaveTheSameBitsOnEveryPath(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	type product struct {
		name string
		do   func(dst, a, b Matrix[float32])
		a, b func(m Matrix[float32], lo, hi int) Matrix[float32] // return the parts of operands a and b for rows or columns lo to hi-1 of dst
	}
	columns := func(m Matrix[float32], lo, hi int) Matrix[float32] {
		c := New[float32](m.Rows, hi-lo)
		for i := range m.Rows {
			copy(c.Row(i), m.Row(i)[lo:hi])
		}
		return c
	}
	rows := Matrix[float32].RowRange
	const m, n = 70, 203
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that the goroutine has enough rows to pack operands
	bias := random[float32](rng, m, 1)
	kernel.OnEachLevel(func(level string) {
		for _, k := range []int{kBlockDown, kBlock + 1, 2*kBlock - 1, 3*kBlock + 5} {
			if testing.Short() && k < 2*kBlock { // shorter sums do not pack operands
				continue
			}
			for _, p := range []product{
				{"MatMul", MatMul[float32], rows, columns},
				{"MatMulTA", MatMulTA[float32], columns, columns},
				{"MatMulTB", func(dst, a, b Matrix[float32]) { MatMulTB(dst, a, b, make([]float32, len(b.Data))) }, rows, rows},
				{"AddMatMulTB", func(dst, a, b Matrix[float32]) {
					dst.Fill(1)
					AddMatMulTB(dst, a, b, make([]float32, len(b.Data)))
				}, rows, rows},
				{"Affine", func(dst, a, b Matrix[float32]) {
					if dst.Rows == m {
						Affine(dst, a, b, bias)
					} else {
						Affine(dst, a, b, bias.RowRange(5, 5+dst.Rows))
					}
				}, rows, columns},
			} {
				a, b := random[float32](rng, m, k), random[float32](rng, k, n)
				if p.name == "MatMulTA" {
					a = random[float32](rng, k, m)
				}
				if strings.HasSuffix(p.name, "TB") {
					b = random[float32](rng, n, k)
				}
				whole := New[float32](m, n)
				p.do(whole, a, b)
				check := func(how string, got Matrix[float32], row, col int) {
					for i := range got.Rows {
						if !slices.Equal(got.Row(i), whole.Row(row + i)[col:col+got.Cols]) {
							t.Fatalf("%s, %s, %d steps: row %d is not bit-identical if computed %s", level, p.name, k, row+i, how)
						}
					}
				}
				shared := New[float32](m, n)
				func() {
					defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
					p.do(shared, a, b)
				}()
				check("on four cores", shared, 0, 0)
				for _, s := range []Shape{{m, 1}, {m, 16}, {m, 37}} {
					strip := New[float32](s.Rows, s.Cols)
					p.do(strip, a, p.b(b, 11, 11+s.Cols))
					check(fmt.Sprintf("in a strip of %d columns", s.Cols), strip, 0, 11)
				}
				piece := New[float32](3, n)
				p.do(piece, p.a(a, 5, 8), b)
				check("in three rows", piece, 5, 0)
			}
		}
	})
}

func TestForDividesEveryLoopAmongTheCores(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	if runtime.GOMAXPROCS(0) == 1 {
		t.Skip("loops are serial because there is a single core, as in WebAssembly")
	}
	for loop := range 100 {
		var chunks atomic.Int32
		For(400, 100, func(lo, hi int) { chunks.Add(1) })
		if n := chunks.Load(); n != 4 {
			t.Fatalf("loop %d is divided into %d chunks on four cores, want 4", loop, n)
		}
	}
}

// fail panics. Tests search stack traces for its name.
func fail() { panic("the body's value") }

// While a loop uses all cores, a nested loop must run as a single chunk.
func TestALoopInsideAParallelLoopIsSerial(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	if runtime.GOMAXPROCS(0) == 1 {
		t.Skip("loops are serial because there is a single core, as in WebAssembly")
	}
	For(4, 1, func(lo, hi int) {
		if chunks(400, 100) > 1 {
			t.Error("a loop inside a loop with four chunks on four cores has several chunks")
		}
	})
}

func TestAPanicInAParallelLoopReachesTheCaller(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	if runtime.GOMAXPROCS(0) == 1 {
		t.Skip("loops are serial because there is a single core, as in WebAssembly")
	}
	for chunk := range 4 {
		for _, how := range []func(){fail, runtime.Goexit} {
			var got any
			done := make(chan bool)
			go func() { // runtime.Goexit in chunk 0 ends this goroutine, not the test
				defer close(done)
				defer func() { got = recover() }()
				For(4, 1, func(lo, hi int) {
					if lo == chunk {
						how()
					}
				})
			}()
			<-done
			p, wrapped := got.(*chunkPanic)
			exited := reflect.ValueOf(how).Pointer() == reflect.ValueOf(runtime.Goexit).Pointer()
			switch {
			case chunk == 0 && exited:
				if got != nil {
					t.Errorf("runtime.Goexit on the calling goroutine became the panic %v", got)
				}
			case chunk == 0:
				if got != "the body's value" {
					t.Errorf("a panic on the calling goroutine has the value %v, want the string \"the body's value\"", got)
				}
			case !wrapped:
				t.Errorf("chunk %d: the panic has the value %v, want a *chunkPanic", chunk, got)
			case exited:
				if !strings.Contains(p.Error(), "runtime.Goexit") {
					t.Errorf("chunk %d: the panic %v does not contain runtime.Goexit", chunk, p)
				}
			case p.value != "the body's value" || !strings.Contains(p.Error(), "linalg.fail("):
				t.Errorf("chunk %d: the panic has the value %v, want the body's value and a stack trace that contains linalg.fail:\n%s", chunk, p.value, p.stack)
			}
		}
	}
	// The *chunkPanic of a nested loop must contain the stack trace of the inner body.
	func() {
		defer func() {
			if p, ok := recover().(*chunkPanic); !ok || p.value != "the body's value" || !strings.Contains(string(p.stack), "linalg.fail(") {
				t.Errorf("the panic of the inner loop became %v, want a *chunkPanic with the stack trace of the inner body", p)
			}
		}()
		For(2, 1, func(lo, _ int) {
			For(2, 1, func(inner, _ int) {
				if lo == 1 && inner == 1 {
					fail()
				}
			})
		})
	}()
	// After the panics, the four chunks of a loop must still run concurrently. Each waits for the others.
	if n := chunks(4, 1); n != 4 {
		t.Fatalf("after panics, a loop is divided into %d chunks, want 4", n)
	}
	var meet sync.WaitGroup
	meet.Add(4)
	For(4, 1, func(lo, hi int) {
		meet.Done()
		meet.Wait()
	})
}

func TestForCoversEachIndexOnce(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(5))
	for _, n := range []int{0, 1, 2, 9, 10, 11, 64, 1001} {
		for _, grain := range []int{0, 1, 2, 10, 5000} {
			seen := make([]int, n)
			For(n, grain, func(lo, hi int) {
				if hi-lo < min(grain, n) {
					panic(fmt.Sprintf("chunk [%d, %d) is smaller than the grain %d", lo, hi, grain))
				}
				for i := lo; i < hi; i++ {
					seen[i]++
				}
			})
			for i, s := range seen {
				if s != 1 {
					t.Fatalf("For(%d, %d) visits index %d %d times, want once", n, grain, i, s)
				}
			}
		}
	}
}

func TestViewsShareElements(t *testing.T) {
	m := New[float64](4, 3)
	m.RowRange(1, 3).Fill(7)
	if want := []float64{0, 0, 0, 7, 7, 7, 7, 7, 7, 0, 0, 0}; !slices.Equal(m.Data, want) {
		t.Errorf("after RowRange(1, 3).Fill(7), the elements are %v, want %v", m.Data, want)
	}
	c := m.Clone()
	c.Row(0)[1] = 5
	if m.At(0, 1) != 0 || c.At(0, 1) != 5 {
		t.Error("a clone shares elements with the original matrix")
	}
}

func TestMismatchedShapesPanicAndNameThem(t *testing.T) {
	m := func(r, c int) Matrix[float64] { return New[float64](r, c) }
	x := make([]float64, 4)
	for name, f := range map[string]func(){
		"[2×3] and [3×2]":          func() { Add(m(2, 3), m(2, 3), m(3, 2)) },
		"Sub: operands [2×3]":      func() { Sub(m(2, 2), m(2, 3), m(2, 1)) },
		"Div: operands [2×3]":      func() { Div(m(2, 2), m(2, 3), m(2, 1)) },
		"to [5×5]":                 func() { Mul(m(5, 5), m(2, 3), m(2, 3)) },
		"[2×3], [2×1], [4×3]":      func() { MulAdd(m(2, 3), m(2, 3), m(2, 1), m(4, 3)) },
		"cannot sum [2×3] to [3":   func() { Sum(m(3, 1), m(2, 3)) },
		"[2×3] and [2×1] to [2×":   func() { MulSum(m(2, 2), m(2, 3), m(2, 1)) },
		"[2×3] · [2×3]":            func() { MatMul(m(2, 3), m(2, 3), m(2, 3)) },
		"[2×3]ᵀ · [3×3]":           func() { MatMulTA(m(3, 3), m(2, 3), m(3, 3)) },
		"[2×3] · [2×2]ᵀ":           func() { MatMulTB(m(2, 2), m(2, 3), m(2, 2), nil) },
		"· [3×2] and a bias [3":    func() { Affine(m(2, 2), m(2, 3), m(3, 2), m(3, 1)) },
		"Affine: [2×3] · [3×2]":    func() { Affine(m(2, 3), m(2, 3), m(3, 2), m(2, 1)) },
		"do not give [2×3]":        func() { MatMul(m(2, 3), m(2, 3), m(3, 2)) },
		"MatMulTB: [2×3] · [4×":    func() { AddMatMulTB(m(2, 3), m(2, 3), m(4, 3), make([]float64, 12)) },
		"blocks of 2 rows":         func() { TransposeBlocks(m(3, 2), m(3, 2), 2) },
		"blocks of 0 rows":         func() { TransposeBlocks(m(3, 2), m(3, 2), 0) },
		"transposes in [2×3]":      func() { TransposeBlocks(m(2, 3), m(3, 2), 1) },
		"4, 2, 4 and 4":            func() { Adamax(x[:4], x[:2], x[:4], x[:4], 0.9, 0.999, 1, 0) },
		"4, 4, 2 and 4":            func() { Adamax(x[:4], x[:4], x[:2], x[:4], 0.9, 0.999, 1, 0) },
		"4, 4, 4 and 2":            func() { Adamax(x[:4], x[:4], x[:4], x[:2], 0.9, 0.999, 1, 0) },
		"operand is [2×2]":         func() { Exp(m(2, 3), m(2, 2)) },
		"RowRange(1, 5)":           func() { m(3, 2).RowRange(1, 5) },
		"viewed as [2×2]":          func() { Of(2, 2, []float64{1, 2, 3}) },
		"New(-1, 2)":               func() { m(-1, 2) },
		"Copy: [2×3]":              func() { Copy(m(2, 2), m(2, 3)) },
		"rows of [2×3] to [3×1]":   func() { AddSum(m(3, 1), m(2, 3)) },
		"[2×3] to [2×2]":           func() { AddMulSum(m(2, 2), m(2, 3), m(2, 3)) },
		"[2×3] and [2×1] to [2×1]": func() { AddMulSum(m(2, 1), m(2, 3), m(2, 1)) },
	} {
		func() {
			defer func() {
				if msg := fmt.Sprint(recover()); !strings.Contains(msg, name) {
					t.Errorf("the message of the panic is %q, want it to contain %q", msg, name)
				}
			}()
			f()
		}()
	}
}

// FuzzBroadcasting checks broadcasting operations and sums against their formulas. The fuzzer
// chooses the shapes and elements, which include empty matrices, NaN and infinities.
func FuzzBroadcasting(f *testing.F) {
	f.Add(byte(3), byte(4), byte(0b0110), []byte{1, 2, 3})
	f.Add(byte(0), byte(5), byte(0), []byte{255})
	f.Add(byte(50), byte(10), byte(0b0101), []byte("leapfrog"))
	f.Fuzz(func(t *testing.T, rows, cols, repeat byte, elements []byte) {
		if len(elements) == 0 {
			return
		}
		r, c := int(rows%60), int(cols%20)
		next := 0
		make_ := func(row, col byte) Matrix[float64] {
			m := New[float64](r, c)
			if repeat>>row&1 == 1 {
				m = New[float64](1, m.Cols)
			}
			if repeat>>col&1 == 1 {
				m = New[float64](m.Rows, 1)
			}
			for i := range m.Data {
				switch e := elements[next%len(elements)]; e {
				case 255:
					m.Data[i] = math.NaN()
				case 254:
					m.Data[i] = math.Inf(1)
				case 253:
					m.Data[i] = math.Copysign(0, -1)
				default:
					m.Data[i] = float64(int(e)-100) / 8
				}
				next++
			}
			return m
		}
		a, b := make_(0, 1), make_(2, 3)
		full, ok := Broadcast(a.Shape(), b.Shape())
		if !ok {
			return
		}
		// Finite elements are small multiples of 1/8, so sums and products are exact.
		equal := func(x, y float64) bool { return x == y || math.IsNaN(x) && math.IsNaN(y) }
		dst := New[float64](full.Rows, full.Cols)
		for _, op := range []struct {
			do func(dst, a, b Matrix[float64])
			f  func(x, y float64) float64
		}{
			{Add[float64], func(x, y float64) float64 { return x + y }},
			{Sub[float64], func(x, y float64) float64 { return x - y }},
			{Mul[float64], func(x, y float64) float64 { return x * y }},
			{func(d, a, b Matrix[float64]) { MulAdd(d, a, b, a) }, func(x, y float64) float64 { return x*y + x }},
			{func(d, a, b Matrix[float64]) { MulAdd(d, a, b, b) }, func(x, y float64) float64 { return x*y + y }},
		} {
			op.do(dst, a, b)
			for i := range full.Rows {
				for j := range full.Cols {
					if want := op.f(at(a, i, j), at(b, i, j)); !equal(dst.At(i, j), want) {
						t.Fatalf("%v and %v: element (%d, %d) is %v, want %v", a.Shape(), b.Shape(), i, j, dst.At(i, j), want)
					}
				}
			}
		}
		for _, s := range shapesOf(full.Rows, full.Cols) {
			got, want := New[float64](s.Rows, s.Cols), New[float64](s.Rows, s.Cols)
			MulSum(got, a, b)
			for i := range full.Rows {
				for j := range full.Cols {
					want.Row(min(i, s.Rows-1))[min(j, s.Cols-1)] += at(a, i, j) * at(b, i, j)
				}
			}
			for i := range want.Data {
				if !equal(got.Data[i], want.Data[i]) {
					t.Fatalf("MulSum of %v and %v to %v: element %d is %v, want %v", a.Shape(), b.Shape(), s, i, got.Data[i], want.Data[i])
				}
			}
		}
	})
}

func TestTransposeBlocksTransposesEachBlock(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 2))
	for _, rows := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 15, 16, 17, 24, 33, 40} {
		for _, cols := range []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 50, 100} {
			for _, blocks := range []int{0, 1, 2, 31} {
				a := random[float32](rng, blocks*rows, cols)
				dst := New[float32](blocks*rows, cols)
				TransposeBlocks(dst, a, rows)
				for i := range a.Rows {
					block := Of(cols, rows, dst.Data[i/rows*rows*cols:][:rows*cols])
					for j := range cols {
						if block.At(j, i%rows) != a.At(i, j) {
							t.Fatalf("with %d blocks [%d×%d], element (%d, %d) of the operand is not at its transposed position", blocks, rows, cols, i, j)
						}
					}
				}
			}
		}
	}
}

func TestFloat32SumsAreWithinRoundingError(t *testing.T) {
	kernel.OnEachLevel(func(name string) {
		rng := rand.New(rand.NewPCG(6, 1))
		for range 2000 {
			rows, cols := 1+rng.IntN(20), 1+rng.IntN(40)
			a := Of(rows, cols, random[float32](rng, rows, cols).Data)
			for _, s := range []Shape{{a.Rows, 1}, {1, a.Cols}, {1, 1}, {a.Rows, a.Cols}} {
				got, want, size := New[float32](s.Rows, s.Cols), New[float64](s.Rows, s.Cols), New[float64](s.Rows, s.Cols)
				Sum(got, a)
				for i := range a.Rows {
					for j := range a.Cols {
						k := i%s.Rows*s.Cols + j%s.Cols
						want.Data[k] += float64(a.At(i, j))
						size.Data[k] += math.Abs(float64(a.At(i, j)))
					}
				}
				for k, w := range want.Data { // the rounding error of n terms is at most n·2⁻²⁴·Σ|aᵢ|
					if d := math.Abs(float64(got.Data[k]) - w); !(d <= float64(len(a.Data)/len(want.Data))*0x1p-24*size.Data[k]) {
						t.Fatalf("%s: Sum of %v to %v: element %d is %v, want %v", name, a.Shape(), s, k, got.Data[k], w)
					}
				}
			}
		}
	})
}

func TestFiniteChecksEveryElement(t *testing.T) {
	kernel.OnEachLevel(func(name string) {
		for _, n := range []int{0, 1, 127, 128, 129, 1000} {
			m := New[float32](n, 1)
			m.Fill(math.MaxFloat32)
			if !Finite(m) {
				t.Errorf("%s: Finite returns false for %d finite elements", name, n)
			}
			for i := range n {
				for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
					m.Data[i] = float32(v)
					if Finite(m) {
						t.Fatalf("%s: Finite returns true although element %d of %d is %v", name, i, n, v)
					}
				}
				m.Data[i] = 1
			}
		}
	})
}
