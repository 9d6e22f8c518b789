package ad

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"hvae/linalg"
)

type (
	matrix   = linalg.Matrix[float64]
	variable = *Var[float64]
)

// An operation is a function whose derivatives are tested. Each element of shapes contains the
// shapes of the operands in one test case.
type operation struct {
	name     string
	f        func(x []variable) variable
	shapes   [][]linalg.Shape
	positive bool // whether f requires positive operands
}

func sh(dims ...int) (s []linalg.Shape) {
	for i := 0; i < len(dims); i += 2 {
		s = append(s, linalg.Shape{Rows: dims[i], Cols: dims[i+1]})
	}
	return s
}

// operations returns the test cases for every differentiable operation of the package.
func operations() []operation {
	alone := [][]linalg.Shape{sh(1, 1), sh(3, 4), sh(5, 1), sh(1, 6)}
	var pairs, triples [][]linalg.Shape // all ways to broadcast two or three operands
	for _, full := range sh(1, 1, 3, 4, 5, 1, 1, 3) {
		fits := []linalg.Shape{full, {Rows: full.Rows, Cols: 1}, {Rows: 1, Cols: full.Cols}, {Rows: 1, Cols: 1}}
		for _, a := range fits {
			for _, b := range fits {
				pairs = append(pairs, []linalg.Shape{a, b})
				for _, c := range fits {
					triples = append(triples, []linalg.Shape{a, b, c})
				}
			}
		}
	}
	unary := func(name string, f func(variable) variable) operation {
		return operation{name: name, f: func(x []variable) variable { return f(x[0]) }, shapes: alone}
	}
	binary := func(name string, f func(a, b variable) variable, shapes [][]linalg.Shape) operation {
		return operation{name: name, f: func(x []variable) variable { return f(x[0], x[1]) }, shapes: shapes}
	}
	positive := func(o operation) operation { o.positive = true; return o }
	mulSum := func(rows, cols bool) operation { // rows and cols select the axes of the sum
		return binary(fmt.Sprintf("MulSumTo(rows %v, cols %v)", rows, cols), func(a, b variable) variable {
			s, _ := linalg.Broadcast(a.Value.Shape(), b.Value.Shape())
			if rows {
				s.Rows = 1
			}
			if cols {
				s.Cols = 1
			}
			return MulSumTo(a, b, s.Rows, s.Cols)
		}, pairs)
	}
	return []operation{
		binary("Add", Add[float64], pairs),
		binary("Sub", Sub[float64], pairs),
		binary("Mul", Mul[float64], pairs),
		positive(binary("Div", Div[float64], pairs)),
		{name: "MulAdd", f: func(x []variable) variable { return MulAdd(x[0], x[1], x[2]) }, shapes: triples},
		unary("Add to itself", func(a variable) variable { return Add(a, a) }),
		unary("Mul by itself", func(a variable) variable { return Mul(a, a) }),
		unary("MulAdd of itself", func(a variable) variable { return MulAdd(a, a, a) }),
		unary("Scale", func(a variable) variable { return Scale(a, -1.7) }),
		unary("Neg", Neg[float64]),
		unary("AddConst", func(a variable) variable { return AddConst(a, 0.3) }),
		unary("Exp", Exp[float64]),
		positive(unary("Log", Log[float64])),
		unary("Square", Square[float64]),
		unary("Tanh", Tanh[float64]),
		unary("Softplus", Softplus[float64]),
		unary("Sigmoid", Sigmoid[float64]),
		unary("Sum", Sum[float64]),
		unary("Mean", Mean[float64]),
		unary("SumTo a column", func(a variable) variable { return SumTo(a, a.Rows(), 1) }),
		unary("SumTo a row", func(a variable) variable { return SumTo(a, 1, a.Cols()) }),
		{name: "BroadcastTo", f: func(x []variable) variable { return BroadcastTo(x[0], 3, 4) }, shapes: [][]linalg.Shape{sh(1, 1), sh(3, 1), sh(1, 4), sh(3, 4)}},
		mulSum(false, false), mulSum(true, false), mulSum(false, true), mulSum(true, true),
		binary("Dot", Dot[float64], pairs),
		binary("MatMul", MatMul[float64], [][]linalg.Shape{sh(1, 1, 1, 1), sh(2, 3, 3, 4), sh(1, 5, 5, 1), sh(4, 1, 1, 3)}),
		binary("MatMulTA", MatMulTA[float64], [][]linalg.Shape{sh(1, 1, 1, 1), sh(3, 2, 3, 4), sh(5, 1, 5, 1), sh(1, 4, 1, 3)}),
		binary("MatMulTB", MatMulTB[float64], [][]linalg.Shape{sh(1, 1, 1, 1), sh(2, 3, 4, 3), sh(1, 5, 1, 5), sh(4, 1, 3, 1)}),
		{name: "Affine", f: func(x []variable) variable { return Affine(x[0], x[1], x[2]) }, shapes: [][]linalg.Shape{sh(1, 1, 1, 1, 1, 1), sh(2, 3, 3, 4, 2, 1), sh(1, 5, 5, 1, 1, 1)}},
		unary("Reshape", func(a variable) variable { return Reshape(a, a.Cols(), a.Rows()) }),
		unary("RowRange", func(a variable) variable { return RowRange(a, a.Rows()/2, a.Rows()) }),
		binary("Stack", Stack[float64], [][]linalg.Shape{sh(1, 1, 1, 1), sh(2, 3, 4, 3), sh(3, 1, 1, 1)}),
		unary("Stack on itself", func(a variable) variable { return Stack(a, a) }),
	}
}

// A problem consists of an operation f and a point x. The tests differentiate the function
//
//	F(x) = ⟨w, f(x)⟩ + ½⟨w, f(x)²⟩
//
// with fixed random weights w. The second derivative of F is nonzero even if f is linear.
type problem struct {
	operation
	x    []matrix
	tape Tape[float64]
}

// value computes F on the tape and returns F and the operands.
func (p *problem) value() (F variable, x []variable) {
	t := &p.tape
	t.Reset()
	for _, m := range p.x {
		x = append(x, t.Leaf(m))
	}
	y := p.f(x)
	w := t.Matrix(y.Rows(), y.Cols())
	rng := rand.New(rand.NewPCG(99, 1))
	for i := range w.Data {
		w.Data[i] = 0.5 + rng.Float64()
	}
	return Dot(t.Const(w), MulAdd(Scale(y, 0.5), y, y)), x
}

// at returns F(x).
func (p *problem) at() float64 {
	F, _ := p.value()
	return F.Scalar()
}

// gradient returns the elements of ∇F(x), concatenated over the operands.
func (p *problem) gradient() (g []float64) {
	F, x := p.value()
	for _, m := range Backward(nil, F, x...) {
		g = append(g, m.Data...)
	}
	return g
}

// hessianVector returns the Hessian-vector product H·v = ∇⟨∇F, v⟩ at x.
func (p *problem) hessianVector(v []float64) (h []float64) {
	F, x := p.value()
	dot, o := p.tape.Scalar(0), 0
	for _, xi := range x {
		n := len(xi.Value.Data)
		dot = Add(dot, Dot(Grad(F, xi), p.tape.Const(linalg.Of(xi.Rows(), xi.Cols(), v[o:o+n]))))
		o += n
	}
	for _, xi := range x {
		h = append(h, Grad(dot, xi).Value.Data...)
	}
	return h
}

// along returns the result of f at the point p.x + s·v. It restores p.x afterwards.
func along[R any](p *problem, v []float64, s float64, f func() R) R {
	var saved []matrix
	o := 0
	for _, m := range p.x {
		saved = append(saved, m.Clone())
		for i := range m.Data {
			m.Data[i] += s * v[o]
			o++
		}
	}
	r := f()
	for i, m := range p.x {
		copy(m.Data, saved[i].Data)
	}
	return r
}

// difference approximates the derivative of f at 0 by Richardson extrapolation of two central
// differences with step sizes h and h/2. The error is O(h⁴).
func difference(f func(s float64) float64, h float64) float64 {
	central := func(h float64) float64 { return (f(h) - f(-h)) / (2 * h) }
	return (4*central(h/2) - central(h)) / 3
}

// convergedDifference approximates the derivative of f at 0 by finite differences. It reduces the
// step size until two successive results agree to 1e-6, because large steps are inaccurate if f is
// strongly curved. If rounding errors prevent agreement, convergedDifference returns ok = false.
func convergedDifference(f func(s float64) float64) (slope float64, ok bool) {
	slope = difference(f, 2e-3)
	for h := 5e-4; h > 1e-7; h /= 4 {
		last := slope
		slope = difference(f, h)
		if math.Abs(slope-last) <= 1e-6*max(1, math.Abs(slope)) {
			return slope, true
		}
	}
	return slope, false
}

func norm(x []float64) float64 {
	s := 0.0
	for _, v := range x {
		s += v * v
	}
	return math.Sqrt(s)
}

func relativeError(got, want []float64) float64 {
	d := make([]float64, len(got))
	for i := range d {
		d[i] = got[i] - want[i]
	}
	return norm(d) / max(norm(want), 1e-3)
}

func TestDerivativesOfEveryOperationAgainstFiniteDifferences(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	for _, op := range operations() {
		t.Run(op.name, func(t *testing.T) {
			for _, shapes := range op.shapes {
				p := &problem{operation: op}
				n := 0
				for _, s := range shapes {
					m := linalg.New[float64](s.Rows, s.Cols)
					for i := range m.Data {
						if m.Data[i] = 0.7 * rng.NormFloat64(); op.positive {
							m.Data[i] = 0.6 + rng.Float64()
						}
					}
					p.x = append(p.x, m)
					n += len(m.Data)
				}
				v := make([]float64, n) // a random unit vector
				for i := range v {
					v[i] = rng.NormFloat64()
				}
				length := norm(v)
				for i := range v {
					v[i] /= length
				}

				// Compare each partial derivative with a finite difference.
				g := p.gradient()
				numeric := make([]float64, n)
				for i := range numeric {
					e := make([]float64, n)
					e[i] = 1
					numeric[i] = difference(func(s float64) float64 { return along(p, e, s, p.at) }, 2e-3)
				}
				if e := relativeError(g, numeric); !(e <= 1e-7) {
					t.Errorf("operands %v: relative error of the gradient is %.1e, want ≤ 1e-7", shapes, e)
				}

				// Compare H·v with finite differences of gradients.
				hv := p.hessianVector(v)
				for i := range numeric {
					numeric[i] = difference(func(s float64) float64 { return along(p, v, s, p.gradient)[i] }, 2e-3)
				}
				if e := relativeError(hv, numeric); !(e <= 1e-7) {
					t.Errorf("operands %v: relative error of the Hessian-vector product is %.1e, want ≤ 1e-7", shapes, e)
				}
			}
		})
	}
}

func TestConstantsAreNotDifferentiated(t *testing.T) {
	var tape Tape[float64]
	x := tape.Leaf(linalg.Column(2.0))
	c := tape.Const(x.Value)
	if g := Grad(Mul(c, x), x).Scalar(); g != 2 { // the derivative is c, not 2x
		t.Errorf("d(c·x)/dx = %v at c = x = 2, want 2", g)
	}
}

func TestDerivativesOfAnyOrder(t *testing.T) {
	const x0 = 0.4
	e, th := math.Exp(x0), math.Tanh(x0)
	d := 1 - th*th
	for _, c := range []struct {
		name string
		f    func(variable) variable
		want []float64 // derivatives of order 0, 1, 2, …
	}{
		{"exp", Exp[float64], []float64{e, e, e, e, e, e}},
		{"x⁵", func(x variable) variable { return Mul(Square(Square(x)), x) },
			[]float64{math.Pow(x0, 5), 5 * math.Pow(x0, 4), 20 * math.Pow(x0, 3), 60 * x0 * x0, 120 * x0, 120, 0}},
		{"log", Log[float64], []float64{math.Log(x0), 1 / x0, -1 / (x0 * x0), 2 / math.Pow(x0, 3), -6 / math.Pow(x0, 4), 24 / math.Pow(x0, 5)}},
		{"tanh", Tanh[float64], []float64{th, d, -2 * th * d, d * (6*th*th - 2), d * th * (16 - 24*th*th)}},
	} {
		var tape Tape[float64]
		x := tape.Leaf(linalg.Column(x0))
		y := c.f(x)
		for order, want := range c.want {
			if order > 0 {
				y = Grad(y, x)
			}
			if got := y.Scalar(); !(math.Abs(got-want) <= 1e-12*max(1, math.Abs(want))) {
				t.Errorf("derivative of order %d of %s at x = 0.4 is %v, want %v", order, c.name, got, want)
			}
		}
	}
}

func TestGradientOfAnUnrelatedVariableIsZero(t *testing.T) {
	var tape Tape[float64]
	x, z := tape.Leaf(linalg.New[float64](2, 3)), tape.Leaf(linalg.New[float64](4, 1))
	y := Sum(Exp(x))
	later := tape.Leaf(linalg.New[float64](4, 1)) // on the tape after y
	for _, v := range []variable{z, later} {
		if g := Grad(y, v); !slices.Equal(g.Value.Data, make([]float64, 4)) {
			t.Errorf("Grad returns %v, want zeros", g.Value.Data)
		}
	}
	g := Backward(nil, y, z, x)
	if !slices.Equal(g[0].Data, make([]float64, 4)) || g[0].Shape() != z.Value.Shape() || g[1].Data[0] != 1 {
		t.Errorf("Backward returns %v, want zeros and ones", g)
	}
}

func TestEmptyMatricesCanBeReshaped(t *testing.T) {
	var tape Tape[float64]
	if y := Reshape(tape.Leaf(linalg.New[float64](0, 3)), 3, 0); y.Rows() != 3 || y.Cols() != 0 {
		t.Errorf("Reshape of a [0×3] matrix returns %v, want [3×0]", y.Value.Shape())
	}
	if y := Reshape(tape.Leaf(linalg.New[float64](3, 0)), 0, 3); y.Rows() != 0 || y.Cols() != 3 {
		t.Errorf("Reshape of a [3×0] matrix returns %v, want [0×3]", y.Value.Shape())
	}
}

// The gradient of a sum over an empty matrix must be empty. A schedule of K leapfrog steps has an
// empty parameter matrix if K = 0.
func TestGradientOfAnEmptySumIsEmpty(t *testing.T) {
	var tape Tape[float64]
	a := tape.Leaf(linalg.New[float64](0, 3))
	if g := Grad(Sum(SumTo(a, 1, 3)), a); g.Rows() != 0 || g.Cols() != 3 {
		t.Errorf("the gradient is [%d×%d], want [0×3]", g.Rows(), g.Cols())
	}
}

func TestValuesOfMeanAndDot(t *testing.T) {
	// A wrong factor in Mean or Dot would change values and derivatives alike, so a comparison of
	// derivatives with finite differences would not detect it.
	var tape Tape[float64]
	x, y := tape.Const(linalg.Of(2, 3, []float64{1, 2, 3, 4, 5, 9})), tape.Const(linalg.Of(2, 1, []float64{10, 100}))
	if got := Mean(x).Scalar(); got != 4 {
		t.Errorf("Mean = %v, want 4", got)
	}
	if got := Dot(x, y).Scalar(); got != 60+1800 {
		t.Errorf("Dot = %v, want 1860", got)
	}
}

func TestSweepsComputeOnlyTheAdjointsNeeded(t *testing.T) {
	// If Grad differentiates y = ⟨1, tanh(W·z)⟩ with respect to z, it must not compute the adjoint
	// of W.
	var tape Tape[float64]
	w := tape.Leaf(linalg.New[float64](6, 5))
	z := tape.Leaf(linalg.New[float64](5, 2))
	y := Sum(Tanh(MatMul(w, z)))
	before := tape.Len()
	Grad(y, z)
	for i := before; i < tape.Len(); i++ {
		if s := tape.vars[i].Value.Shape(); s == w.Value.Shape() {
			t.Errorf("the gradient with respect to z takes a %v matrix, the shape of the adjoint of W", s)
		}
	}
	// If Grad differentiates with respect to the result of an operation, it must not compute the
	// adjoints of the operation's operands.
	u := tape.Leaf(linalg.New[float64](5, 2))
	z2 := Exp(u)
	y2 := Sum(Square(z2))
	before = tape.Len()
	Grad(y2, z2)
	if made := tape.Len() - before; made > 4 {
		t.Errorf("the gradient of Σz² with respect to z = exp(u) takes %d variables, want ≤ 4 without the adjoint of u", made)
	}
}

func TestOperationsOnConstantsAreNotRecorded(t *testing.T) {
	var tape Tape[float64]
	c := tape.Const(linalg.New[float64](3, 3))
	y := Exp(MatMul(c, Tanh(c)))
	if y.live || y.rule != nil || len(y.in) > 0 {
		t.Error("an operation on constants was recorded")
	}
	defer func() {
		if msg := fmt.Sprint(recover()); !strings.Contains(msg, "a [3×3] constant") {
			t.Errorf("Grad with respect to a constant panics with %q, want a message that contains the shape", msg)
		}
	}()
	Grad(y, c)
}

// program computes a scalar y from two leaves x. It uses most operations of the package, and some
// variables several times.
func program(tape *Tape[float64], a, b matrix) (y variable, x []variable) {
	x = []variable{tape.Leaf(a), tape.Leaf(b)}
	h := x[1] // h is [4×1]
	for range 3 {
		s := MatMul(x[0], Tanh(MulAdd(x[0], h, x[0])))
		s = Add(Softplus(s), MatMulTB(x[0], MatMulTA(s, x[0])))
		h = Div(SumTo(s, 4, 1), AddConst(Exp(Scale(Sum(Sigmoid(s)), 0.5)), 2))
		h = Sub(embed(RowRange(h, 1, 3), 0, 4), Neg(Reshape(Reshape(h, 2, 2), 4, 1)))
		h = Add(h, MulSumTo(s, h, 4, 1))
	}
	return Add(Mean(Log(AddConst(Square(h), 1))), Dot(h, Scale(x[1], 0.1))), x
}

// embed pads matrix a with rows of zeros above and below. Row 0 of a becomes row lo of the result.
func embed(a variable, lo, rows int) variable {
	zeros := func(rows int) variable { return a.tape.Fill(rows, a.Cols(), 0) }
	return Stack(Stack(zeros(lo), a), zeros(rows-lo-a.Rows()))
}

func inputs(seed uint64) (a, b matrix) {
	rng := rand.New(rand.NewPCG(seed, 1))
	a, b = linalg.New[float64](4, 4), linalg.New[float64](4, 1)
	for _, m := range []matrix{a, b} {
		for i := range m.Data {
			m.Data[i] = 0.3 * rng.NormFloat64()
		}
	}
	return a, b
}

func TestBackwardIsBitIdenticalToGrad(t *testing.T) {
	for seed := range uint64(20) {
		var tape Tape[float64]
		a, b := inputs(seed)
		y, x := program(&tape, a, b)
		ga, gb := Grad(y, x[0]), Grad(y, x[1])
		g := Backward(nil, y, x...)
		if !slices.Equal(ga.Value.Data, g[0].Data) || !slices.Equal(gb.Value.Data, g[1].Data) {
			t.Fatalf("seed %d: Backward returns %v, Grad returns %v and %v", seed, g, ga.Value, gb.Value)
		}
	}
}

func TestSharedAdjointsAreNotOverwritten(t *testing.T) {
	// The differentiation rule of u + v uses one matrix for the adjoints of u and v. Adding the
	// contribution of u² to the adjoint of u must not change the adjoint of v.
	var tape Tape[float64]
	x, z := tape.Leaf(linalg.Column(0.3)), tape.Leaf(linalg.Column(-0.7))
	u, v := Exp(x), Tanh(z)
	squares := Square(u)
	g := Backward(nil, Add(squares, Add(u, v)), x, z)
	th, e := math.Tanh(-0.7), math.Exp(0.3)
	if got, want := g[1].Data[0], 1-th*th; !(math.Abs(got-want) <= 1e-15) {
		t.Errorf("∂/∂z = %v, want %v", got, want)
	}
	if got, want := g[0].Data[0], e*(1+2*e); !(math.Abs(got-want) <= 1e-14) {
		t.Errorf("∂/∂x = %v, want %v", got, want)
	}
}

func TestBackwardOverwritesItsDestinations(t *testing.T) {
	a, b := inputs(1)
	var tape Tape[float64]
	x, y, z := tape.Leaf(a), tape.Leaf(b), tape.Leaf(b)
	F := Add(Sum(Square(MatMul(x, y))), Sum(MulAdd(x, y, x)))
	want := slices.Clone(Backward(nil, F, x)[0].Data)
	xs := []variable{x, z, y, x}
	var dst []matrix
	for _, v := range xs {
		m := linalg.New[float64](v.Rows(), v.Cols())
		m.Fill(math.NaN())
		dst = append(dst, m)
	}
	Backward(dst, F, xs...)
	if !slices.Equal(dst[0].Data, want) || !slices.Equal(dst[3].Data, want) {
		t.Errorf("the gradients with respect to x are %v and %v, want %v", dst[0].Data, dst[3].Data, want)
	}
	if !slices.Equal(dst[1].Data, make([]float64, 4)) {
		t.Errorf("the gradient with respect to an unused variable is %v, want zeros", dst[1].Data)
	}
}

func TestConstantsOfOtherTapesAreNotDifferentiated(t *testing.T) {
	// The constant c has the same index on its tape as the leaf x on another tape. An
	// implementation that compares only indices would confuse c with x.
	var tape, other Tape[float64]
	x, c := tape.Leaf(linalg.Column(2.0, 3)), other.Const(linalg.Column(5.0, 7))
	for name, y := range map[string]variable{
		"Add": Mul(Add(x, c), c), "Sub": Mul(Sub(x, c), c), "Div": Div(Mul(Mul(x, c), c), c),
		"MulAdd": MulAdd(x, c, c), "MatMulTA": MatMulTA(x, c), "Stack": Mul(RowRange(Stack(x, c), 0, 2), c),
	} {
		g := Grad(Sum(y), x)
		b := Backward(nil, Sum(y), x)[0]
		if want := []float64{5, 7}; !slices.Equal(g.Value.Data, want) || !slices.Equal(b.Data, want) {
			t.Errorf("%s: Grad returns %v and Backward %v, want %v", name, g.Value.Data, b.Data, want)
		}
	}
	got, want := Backward(nil, Sum(Recomputed(sumAndProduct, x, c)), x)[0], []float64{9, 13}
	if !slices.Equal(got.Data, want) {
		t.Errorf("Recomputed: the gradient of x(x + c) is %v, want %v", got.Data, want)
	}
}

func TestRepeatedProgramReusesTheMemoryOfTheTape(t *testing.T) {
	a, b := inputs(1)
	var tape Tape[float64]
	var got []matrix
	step := func() (variables, chunks int) {
		tape.Reset()
		x := []variable{tape.Leaf(a), tape.Leaf(b)}
		h := MulAdd(x[0], x[1], Recomputed(sumAndProduct, x...))
		g := Grad(Sum(Softplus(MatMul(h, h))), h) // an inner gradient, as in a leapfrog step
		got = Backward(got, Sum(Square(MulAdd(g, x[1], h))), x...)
		pool := &tape.backward.pool.vars
		return len(tape.vars) + len(tape.previous) + len(pool.vars), len(tape.chunks) + len(pool.chunks)
	}
	step()
	want := slices.Clone(got[0].Data)
	variables, chunks := step()
	for range 3 {
		if v, c := step(); v != variables || c != chunks {
			t.Errorf("a repeated program has %d variables and %d chunks of memory, want %d and %d as before", v, c, variables, chunks)
		}
		if !slices.Equal(got[0].Data, want) {
			t.Errorf("a repeated program returns the gradient %v, want %v as before", got[0].Data, want)
		}
	}
}

// The third program on a tape reuses the variables of the first program. Constants must not be
// live, even if they reuse leaves.
func TestConstantsOfALaterProgramAreNotLive(t *testing.T) {
	var tape Tape[float64]
	Exp(tape.Leaf(linalg.Column(1.0)))
	tape.Reset()
	tape.Reset()
	c := tape.Const(linalg.Column(2.0))
	if e := Exp(c); c.Live() || e.Live() {
		t.Errorf("a constant is live: %v; its exponential is live: %v", c.Live(), e.Live())
	}
}

func TestFirstNonFiniteNamesOperationAndElement(t *testing.T) {
	for _, c := range []struct {
		program func(x variable) variable
		want    string
	}{
		{func(x variable) variable { return AddConst(x, math.NaN()) }, "the operation ad.add, [2×3], whose element (0, 0) is NaN"},
		{Log[float64], "the operation ad.log, [2×3], whose element (1, 0) is -Inf"},
		{func(x variable) variable { return x.Tape().Const(linalg.Of(1, 2, []float64{0, math.Inf(1)})) }, "a constant or parameter, [1×2], whose element (0, 1) is +Inf"},
		{Exp[float64], ""},
	} {
		var tape Tape[float64]
		Exp(c.program(tape.Leaf(linalg.Of(2, 3, []float64{1, 2, 3, 0, 5, 6}))))
		if got := tape.FirstNonFinite(); got != c.want {
			t.Errorf("FirstNonFinite returns %q, want %q", got, c.want)
		}
	}
}

func TestMatricesOfATapeDoNotOverlap(t *testing.T) {
	var tape Tape[float32]
	small := tape.Matrix(3, 3)
	large := tape.Matrix(700, 700)
	other := tape.Matrix(3, 3)
	small.Fill(1)
	large.Fill(2)
	other.Fill(3)
	if small.At(2, 2) != 1 || large.At(0, 0) != 2 || large.At(699, 699) != 2 || other.At(0, 0) != 3 {
		t.Error("filling one matrix changes the elements of another matrix")
	}
}

func TestMisuseOfTheTapePanics(t *testing.T) {
	var tape, other Tape[float64]
	x, y := tape.Leaf(linalg.New[float64](2, 3)), other.Leaf(linalg.New[float64](2, 3))
	var again Tape[float64] // a tape that is reset once
	before := again.Leaf(linalg.New[float64](1, 2))
	again.Reset()
	now := again.Leaf(linalg.New[float64](1, 2))
	for _, c := range []struct {
		want string
		f    func()
	}{
		{"[1×2] variable used after its tape was reset", func() { Add(now, before) }},
		{"[1×2] variable used after its tape was reset", func() { Exp(before) }},
		{"[1×2] variable used after its tape was reset", func() { Grad(now, before) }},
		{"[1×2] variable used after its tape was reset", func() { Backward(nil, before, now) }},
		{"[2×3] variable used on another tape", func() { MulAdd(x, x, y) }},
		{"[2×3] variable used on another tape", func() { Grad(Sum(x), y) }},
		{"a [1×1] matrix cannot be added to the adjoint of a [2×3] variable", func() {
			y := addWithRule(func(s *Sweep[float64], y, ybar variable) { s.Accumulate(x, tape.Scalar(1)) }, x, x)
			Backward(nil, y, x)
		}},
		{"the gradient of a [2×3] variable does not fit into a [3×3] matrix", func() {
			Backward([]matrix{linalg.New[float64](3, 3)}, Sum(x), x)
		}},
		{"a differentiation rule must not call Grad", func() {
			Grad(addWithRule(func(s *Sweep[float64], y, ybar variable) { Grad(y, x) }, x, x), x)
		}},
		{"Grad cannot differentiate the result of Recomputed", func() {
			Grad(Recomputed(sumAndProduct, x, x), x)
		}},
		{"the variable must be [1×1], not [2×3]", func() { x.Scalar() }},
		{"Reshape: a [2×3] matrix cannot be reshaped to [4×2]", func() { Reshape(x, 4, 2) }},
		{"cannot be reshaped to [-2×-3]", func() { Reshape(x, -2, -3) }},
		{"ad: Add: shapes [2×3] and [3×2] cannot be broadcast", func() { Add(x, tape.Fill(3, 2, 0)) }},
		{"[2×3] and [2×1] have different numbers of columns", func() { Stack(x, SumTo(x, 2, 1)) }},
		{"[2×3], [2×1] and [4×3] cannot be broadcast", func() { MulAdd(x, SumTo(x, 2, 1), tape.Fill(4, 3, 0)) }},
	} {
		func() {
			defer func() {
				if msg := fmt.Sprint(recover()); !strings.Contains(msg, c.want) {
					t.Errorf("panic %q does not contain %q", msg, c.want)
				}
			}()
			c.f()
		}()
	}
}

// FuzzPrograms builds a program from pairs of bytes. The first byte of a pair selects an operation
// and the second byte selects its operands. Backward and Grad must return bit-identical gradients.
// The gradients must agree with finite differences if the finite differences converge.
func FuzzPrograms(f *testing.F) {
	f.Add([]byte{0, 1, 2, 0x10, 4, 0x21, 7, 0x02})
	f.Add([]byte("leapfrog, temper, leapfrog, temper"))
	f.Fuzz(func(t *testing.T, code []byte) {
		code = code[:min(len(code), 40)]
		a, b := inputs(3)
		run := func(tape *Tape[float64]) (variable, []variable) {
			x := []variable{tape.Leaf(a), tape.Leaf(b)}
			v := slices.Clone(x)
			for i := 0; i+1 < len(code); i += 2 {
				p, q := v[int(code[i+1]>>4)%len(v)], v[int(code[i+1]&15)%len(v)]
				ops := []func() variable{
					func() variable { return Add(p, q) },
					func() variable { return Sub(p, q) },
					func() variable { return Mul(p, q) },
					func() variable { return MulAdd(p, q, p) },
					func() variable { return Div(p, AddConst(Square(q), 1)) },
					func() variable { return Tanh(p) },
					func() variable { return Sigmoid(p) },
					func() variable { return Softplus(q) },
					func() variable { return Exp(Neg(Square(p))) },
					func() variable { return SumTo(p, p.Rows(), 1) },
					func() variable { return SumTo(q, 1, q.Cols()) },
					func() variable { return Tanh(MatMulTB(p, Scale(p, 0.5))) },
					func() variable { return MulSumTo(p, q, 1, 1) },
					func() variable { return embed(RowRange(p, p.Rows()/2, p.Rows()), 0, p.Rows()) },
				}
				r := ops[int(code[i])%len(ops)]
				if _, ok := linalg.Broadcast(p.Value.Shape(), q.Value.Shape()); ok {
					v = append(v, Tanh(r()))
				}
			}
			return Sum(v[len(v)-1]), x
		}
		var tape Tape[float64]
		y, x := run(&tape)
		ga, gb := Grad(y, x[0]), Grad(y, x[1])
		g := Backward(nil, y, x...)
		if !slices.Equal(ga.Value.Data, g[0].Data) || !slices.Equal(gb.Value.Data, g[1].Data) {
			t.Fatalf("Backward returns %v, Grad returns %v and %v", g, ga.Value, gb.Value)
		}
		slope := 0.0
		for _, g := range slices.Concat(ga.Value.Data, gb.Value.Data) {
			slope += g
		}
		numeric, ok := convergedDifference(func(s float64) float64 {
			tape.Reset()
			for _, m := range []matrix{a, b} {
				linalg.AddConst(m, m, s)
				defer linalg.AddConst(m, m, -s)
			}
			y, _ := run(&tape)
			return y.Scalar()
		})
		if !ok {
			t.Skip()
		}
		if !(math.Abs(slope-numeric) <= 1e-4*max(1, math.Abs(slope))) {
			t.Fatalf("the sum of all partial derivatives is %v, but finite differences give %v", slope, numeric)
		}
	})
}

func TestDependsReportsWhetherAVariableReachesTheResult(t *testing.T) {
	var tape Tape[float64]
	used, idle := tape.Leaf(linalg.Column(2.0)), tape.Leaf(linalg.Column(3.0))
	unread := Exp(idle) // y does not depend on unread
	y := Add(Scale(used, 0), tape.Scalar(1))
	if !Depends(y, used) || Depends(y, idle) || Depends(y, unread) || !Depends(Add(y, unread), idle) {
		t.Error("Depends is wrong for a leaf or a result")
	}
}
