package linalg

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"hvae/linalg/internal/kernel"
)

// eighths returns a matrix of random multiples of 1/8 from −4 to 4. In the tests, their products and sums are exact
// even in float32, so the order of additions does not matter.
func eighths[T Float](rng *rand.Rand, s Shape) Matrix[T] {
	m := New[T](s.Rows, s.Cols)
	for i := range m.Data {
		m.Data[i] = T(rng.IntN(65)-32) / 8
	}
	return m
}

// shapesOf returns the shapes that can be broadcast to [r×c].
func shapesOf(r, c int) []Shape { return []Shape{{r, c}, {r, 1}, {1, c}, {1, 1}} }

// at returns element (i, j) of m after broadcasting.
func at[T Float](m Matrix[T], i, j int) float64 {
	return float64(m.At(min(i, m.Rows-1), min(j, m.Cols-1)))
}

// formula returns the matrix with the elements f(i, j), rounded to T.
func formula[T Float](s Shape, f func(i, j int) float64) Matrix[T] {
	m := New[T](s.Rows, s.Cols)
	for i := range s.Rows {
		for j := range s.Cols {
			m.Data[i*s.Cols+j] = T(f(i, j))
		}
	}
	return m
}

// compare reports an error unless the elements of got and want agree to within a relative tolerance. NaN equals NaN.
func compare[T Float](t *testing.T, got, want Matrix[T], tolerance float64, what string, operands ...Matrix[T]) {
	t.Helper()
	for i, w := range want.Data {
		g := got.Data[i]
		if g == w || g != g && w != w || math.Abs(float64(g-w)) <= tolerance*math.Abs(float64(w)) {
			continue
		}
		var shapes []Shape
		for _, m := range operands {
			shapes = append(shapes, m.Shape())
		}
		t.Fatalf("%T: %s of %v: element %d of %v is %v, want %v", g, what, shapes, i, want.Shape(), g, w)
	}
}

// An operation describes an elementwise operation to test. The function do computes the whole result, and the function
// formula computes a single element.
type operation[T Float] struct {
	name       string
	operands   int
	broadcasts bool    // whether the operation broadcasts its operands
	tolerance  float64 // largest relative error
	do         func(dst Matrix[T], x []Matrix[T])
	formula    func(x []float64) float64
}

func softplus(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func operations[T Float]() []operation[T] {
	type m = Matrix[T]
	tolerance := 6e-16 // for functions whose errors are a few units in the last place
	if _, single := any(T(0)).(float32); single {
		tolerance = 3e-7
	}
	function := func(name string, do func(dst, a m), formula func(x float64) float64) operation[T] {
		return operation[T]{name, 1, false, tolerance, func(d m, x []m) { do(d, x[0]) },
			func(x []float64) float64 { return formula(x[0]) }}
	}
	return []operation[T]{
		{"Add", 2, true, 0, func(d m, x []m) { Add(d, x[0], x[1]) }, func(x []float64) float64 { return x[0] + x[1] }},
		{"Sub", 2, true, 0, func(d m, x []m) { Sub(d, x[0], x[1]) }, func(x []float64) float64 { return x[0] - x[1] }},
		{"Mul", 2, true, 0, func(d m, x []m) { Mul(d, x[0], x[1]) }, func(x []float64) float64 { return x[0] * x[1] }},
		{"Div", 2, true, 0, func(d m, x []m) { Div(d, x[0], x[1]) }, func(x []float64) float64 { return x[0] / x[1] }},
		{"MulAdd", 3, true, 0, func(d m, x []m) { MulAdd(d, x[0], x[1], x[2]) },
			func(x []float64) float64 { return x[0]*x[1] + x[2] }},
		{"SigmoidGradient", 2, false, 0, func(d m, x []m) { SigmoidGradient(d, x[0], x[1]) },
			func(x []float64) float64 { return x[0] * (x[1] - x[1]*x[1]) }},
		{"Scale", 1, false, 0, func(d m, x []m) { Scale(d, -2, x[0]) }, func(x []float64) float64 { return -2 * x[0] }},
		{"AddConst", 1, false, 0, func(d m, x []m) { AddConst(d, x[0], 3) }, func(x []float64) float64 { return x[0] + 3 }},
		function("Exp", Exp[T], math.Exp),
		function("Log", Log[T], math.Log),
		function("Tanh", Tanh[T], math.Tanh),
		function("Sigmoid", Sigmoid[T], sigmoid),
		function("SoftplusSigmoid, first result", func(dst, a m) { SoftplusSigmoid(dst, a.Clone(), a) }, softplus),
		function("SoftplusSigmoid, same matrix", func(dst, a m) { SoftplusSigmoid(dst, dst, a) }, softplus),
		function("SoftplusSigmoid, second result", func(slope, a m) { SoftplusSigmoid(a.Clone(), slope, a) }, sigmoid),
	}
}

// checkElementwise compares the elementwise operations on a, b and c that have at least the given number of operands
// with their formulas. The destination is first a separate matrix and then each operand with the shape of the result.
func checkElementwise[T Float](t *testing.T, fewest int, a, b, c Matrix[T]) {
	t.Helper()
	for _, op := range operations[T]() {
		if op.operands < fewest {
			continue
		}
		x := []Matrix[T]{a, b, c}[:op.operands]
		full := a.Shape()
		compatible := true
		for _, m := range x {
			s, ok := Broadcast(full, m.Shape())
			compatible = compatible && ok && (op.broadcasts || m.Shape() == full)
			full = s
		}
		if !compatible {
			continue
		}
		want := formula[T](full, func(i, j int) float64 {
			var v []float64
			for _, m := range x {
				v = append(v, at(m, i, j))
			}
			return op.formula(v)
		})
		dst := New[T](full.Rows, full.Cols)
		dst.Fill(T(math.NaN()))
		op.do(dst, x)
		compare(t, dst, want, op.tolerance, op.name, x...)
		for k, m := range x {
			if m.Shape() == full {
				aliased := slices.Clone(x)
				aliased[k] = m.Clone()
				op.do(aliased[k], aliased)
				compare(t, aliased[k], dst, 0, op.name+" in place", x...)
			}
		}
	}
}

// checkSums checks the sums of a and of a ⊙ b along each axis, and the result of broadcasting b.
func checkSums[T Float](t *testing.T, a, b Matrix[T]) {
	t.Helper()
	full, ok := Broadcast(a.Shape(), b.Shape())
	if !ok {
		return
	}
	total := func(s Shape, f func(i, j int) float64) Matrix[T] {
		sum := New[T](s.Rows, s.Cols)
		for i := range full.Rows {
			for j := range full.Cols {
				sum.Data[min(i, s.Rows-1)*s.Cols+min(j, s.Cols-1)] += T(f(i, j))
			}
		}
		return sum
	}
	ab := func(i, j int) float64 { return at(a, i, j) * at(b, i, j) }
	onlyA := func(i, j int) float64 { return at(a, i, j) }
	for _, s := range shapesOf(full.Rows, full.Cols) {
		got := New[T](s.Rows, s.Cols)
		got.Fill(T(math.NaN()))
		MulSum(got, a, b)
		compare(t, got, total(s, ab), 0, "MulSum", a, b)
		if a.Shape() == full {
			got.Fill(T(math.NaN()))
			Sum(got, a)
			compare(t, got, total(s, onlyA), 0, "Sum", a)
		}
	}
	spread := New[T](full.Rows, full.Cols)
	Copy(spread, b)
	compare(t, spread, formula[T](full, func(i, j int) float64 { return at(b, i, j) }), 0, "Copy", b)
}

// onEachLevel runs the tests in plain Go and with each instruction set that the processor supports.
func onEachLevel(t *testing.T, tests ...func(t *testing.T)) {
	kernel.OnEachLevel(func(name string) {
		for _, test := range tests {
			t.Run(name, test)
		}
	})
}

func TestElementwiseOperationsAndSumsMatchTheirFormulas(t *testing.T) {
	onEachLevel(t, testOperations[float32], testOperations[float64])
}

func testOperations[T Float](t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	special := []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), 800, -800} // e⁸⁰⁰ is infinite

	operand := func(s Shape) Matrix[T] { // half of the operands contain up to three special values
		m := eighths[T](rng, s)
		for range rng.IntN(2) * rng.IntN(4) * min(1, len(m.Data)) {
			m.Data[rng.IntN(len(m.Data))] = T(special[rng.IntN(len(special))])
		}
		return m
	}
	for _, size := range []Shape{{0, 5}, {4, 0}, {1, 1}, {1, 7}, {5, 1}, {3, 4}, {17, 10}, {9, 33}, {50, 10}} {
		shapes := shapesOf(size.Rows, size.Cols)
		for _, sa := range shapes {
			for i, sb := range shapes {
				a, b := operand(sa), operand(sb)
				checkSums(t, a, b)
				for j, sc := range shapes {
					fewest := 3 // number of operands
					if j == 0 {
						fewest = min(2, 1+i) // an operation of a and b need not be repeated for each c
					}
					checkElementwise(t, fewest, a, b, operand(sc))
				}
			}
		}
	}
}

// Sum must add the elements of a row from left to right. It must add rows, or the sums of rows, from top to bottom.
// AddSum and AddMulSum must add the complete sum of a row to the destination.
func TestSumsHaveAFixedOrder(t *testing.T) {
	onEachLevel(t, testOrder[float32], testOrder[float64])
}

func testOrder[T Float](t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 2))
	for _, s := range []Shape{{0, 5}, {4, 0}, {1, 1}, {1, 7}, {3, 10}, {6, 10}, {50, 10}, {33, 70}, {4, 16}, {4, 17}} {
		a, b, start := random[T](rng, s.Rows, s.Cols), random[T](rng, s.Rows, s.Cols), random[T](rng, s.Rows, 1)
		rows, columns, all := New[T](s.Rows, 1), New[T](1, s.Cols), New[T](1, 1)
		for i := range s.Rows {
			for j, v := range a.Row(i) {
				rows.Data[i] += v
				columns.Data[j] += v
			}
			all.Data[0] += rows.Data[i]
		}
		for _, want := range []Matrix[T]{rows, columns, all} {
			got := New[T](want.Rows, want.Cols)
			Sum(got, a)
			compare(t, got, want, 0, "Sum", a)
		}
		sum, dot, want := start.Clone(), start.Clone(), New[T](s.Rows, 1)
		AddSum(sum, a)
		Add(want, rows, start)
		compare(t, sum, want, 0, "AddSum", a)
		AddMulSum(dot, a, b)
		MulSum(want, a, b)
		Add(want, want, start)
		compare(t, dot, want, 0, "AddMulSum", a, b)
	}
}

func TestFiniteAndSquaresFiniteCheckEveryElement(t *testing.T) {
	kernel.OnEachLevel(func(name string) {
		testFinite(t, name+", Finite", Finite, math.MaxFloat32, float32(math.NaN()), float32(math.Inf(1)))
		testFinite(t, name+", Finite", Finite, math.MaxFloat64, math.NaN(), math.Inf(1))
		testFinite(t, name+", SquaresFinite", SquaresFinite, 0x1.fffffep63, float32(math.NaN()), 0x1p64)
		testFinite(t, name+", SquaresFinite", SquaresFinite, 0x1.fffffffffffffp511, math.NaN(), 0x1p512)
	})
}

// testFinite checks that finite is true for a matrix whose elements are at most largest, and false with one element
// that is NaN or ±overflow.
func testFinite[T Float](t *testing.T, name string, finite func(Matrix[T]) bool, largest, nan, overflow T) {
	for _, n := range []int{0, 1, 127, 128, 129, 256, 1000} {
		m := New[T](n, 1)
		for _, sign := range []T{1, -1} {
			m.Fill(sign * largest)
			if !finite(m) {
				t.Errorf("%s of %d elements %v is false", name, n, sign*largest)
			}
		}
		clear(m.Data)
		for i := range n {
			for _, v := range []T{nan, overflow, -overflow} {
				m.Data[i] = v
				if finite(m) {
					t.Fatalf("%s is true although element %d of %d is %v", name, i, n, v)
				}
			}
			// 128 elements later, the partial sum of this element and +overflow must not be finite.
			m.Data[i], m.Data[max(0, i-128)] = -largest, 0
		}
	}
}
