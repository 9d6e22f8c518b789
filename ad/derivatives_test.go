package ad

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"hvae/linalg"
	"hvae/linalg/numeric"
)

type (
	matrix   = linalg.Matrix[float64]
	variable = *Var[float64]
)

// An operation is a function to test. Each element of shapes contains the operand shapes for one test case.
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

// operations returns every differentiable operation in the package, with its test cases.
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
	positive := func(o operation) operation {
		o.positive = true
		return o
	}
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
		{name: "BroadcastTo", f: func(x []variable) variable { return BroadcastTo(x[0], 3, 4) },
			shapes: [][]linalg.Shape{sh(1, 1), sh(3, 1), sh(1, 4), sh(3, 4)}},
		mulSum(false, false), mulSum(true, false), mulSum(false, true), mulSum(true, true),
		binary("Dot", Dot[float64], pairs),
		binary("MatMul", MatMul[float64], [][]linalg.Shape{sh(1, 1, 1, 1), sh(2, 3, 3, 4), sh(1, 5, 5, 1), sh(4, 1, 1, 3)}),
		binary("mulTA", func(a, b variable) variable { return mulTA(a.tape.Result(a.Cols(), b.Cols()), a, b) },
			[][]linalg.Shape{sh(1, 1, 1, 1), sh(3, 2, 3, 4), sh(5, 1, 5, 1), sh(1, 4, 1, 3)}),
		binary("mulTB", func(a, b variable) variable { return mulTB(a.tape.Result(a.Rows(), b.Rows()), a, b) },
			[][]linalg.Shape{sh(1, 1, 1, 1), sh(2, 3, 4, 3), sh(1, 5, 1, 5), sh(4, 1, 3, 1)}),
		{name: "Affine", f: func(x []variable) variable { return Affine(x[0], x[1], x[2]) },
			shapes: [][]linalg.Shape{sh(1, 1, 1, 1, 1, 1), sh(2, 3, 3, 4, 2, 1), sh(1, 5, 5, 1, 1, 1)}},
		unary("Reshape", func(a variable) variable { return Reshape(a, a.Cols(), a.Rows()) }),
		unary("RowRange", func(a variable) variable { return RowRange(a, a.Rows()/2, a.Rows()) }),
		binary("Stack", Stack[float64], [][]linalg.Shape{sh(1, 1, 1, 1), sh(2, 3, 4, 3), sh(3, 1, 1, 1)}),
	}
}

// A problem consists of an operation f and a point x. The tests differentiate the function
//
//	F(x) = ⟨w, f(x)⟩ + ½⟨w, f(x)²⟩
//
// with fixed random weights w. The second derivative of F is nonzero even if f is linear.
type problem struct {
	operation
	x         []matrix
	tape      Tape[float64]
	recompute bool // whether to compute f with Recomputed
}

// value computes F on the tape and returns F and the operands.
func (p *problem) value() (F variable, x []variable) {
	t := &p.tape
	t.Reset()
	for _, m := range p.x {
		x = append(x, t.Leaf(m))
	}
	var y variable
	if p.recompute {
		y = Recomputed(p.f, x...)
	} else {
		y = p.f(x)
	}
	w := t.Matrix(y.Rows(), y.Cols())
	rng := rand.New(rand.NewPCG(99, 1))
	for i := range w.Data {
		w.Data[i] = 0.5 + rng.Float64()
	}
	return Dot(t.Const(w), MulAdd(Scale(y, 0.5), y, y)), x
}

func (p *problem) at() []float64 {
	F, _ := p.value()
	return F.Value.Data
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
	dot := p.tape.Scalar(0)
	o := 0 // number of elements of the operands before xi
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

// along adds s·v to p.x, calls f, restores p.x and returns the result of f.
func along(p *problem, v []float64, s float64, f func() []float64) []float64 {
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

// relativeError returns ‖got − want‖/‖want‖, or ‖got − want‖·1000 if ‖want‖ < 10⁻³.
func relativeError(got, want []float64) float64 {
	size := numeric.SquaredDistance(want, make([]float64, len(want)))
	return math.Sqrt(numeric.SquaredDistance(got, want)) / max(math.Sqrt(size), 1e-3)
}

// check compares the derivatives of p.f at a random point with finite differences. It also checks that Grad, Backward,
// and Backward with Recomputed return bit-identical gradients.
func (p *problem) check(t *testing.T, rng *rand.Rand, shapes []linalg.Shape) {
	t.Helper()
	p.x = nil
	n := 0
	for _, s := range shapes {
		m := linalg.New[float64](s.Rows, s.Cols)
		for i := range m.Data {
			m.Data[i] = 0.7 * rng.NormFloat64()
			if p.positive {
				m.Data[i] = 0.6 + rng.Float64()
			}
		}
		p.x = append(p.x, m)
		n += len(m.Data)
	}
	v := make([]float64, n) // a random vector whose length is about 1
	for i := range v {
		v[i] = rng.NormFloat64() / math.Sqrt(float64(n))
	}
	g := p.gradient()
	differences := make([]float64, n)
	for i := range differences {
		e := make([]float64, n)
		e[i] = 1
		differences[i] = numeric.Derivative(func(s float64) []float64 { return along(p, e, s, p.at) }, 2e-3)[0]
	}
	if e := relativeError(g, differences); !(e <= 1e-7) {
		t.Errorf("%s, operands %v: relative error of the gradient is %.1e, want ≤ 1e-7", p.name, shapes, e)
	}
	hv := p.hessianVector(v)
	differences = numeric.Derivative(func(s float64) []float64 { return along(p, v, s, p.gradient) }, 2e-3)
	if e := relativeError(hv, differences); !(e <= 1e-7) {
		t.Errorf("%s, operands %v: relative error of the Hessian-vector product is %.1e, want ≤ 1e-7", p.name, shapes, e)
	}
	var recorded []float64
	F, x := p.value()
	for _, xi := range x {
		recorded = append(recorded, Grad(F, xi).Value.Data...)
	}
	p.recompute = true
	again := p.gradient()
	p.recompute = false
	if !slices.Equal(g, recorded) || !slices.Equal(g, again) {
		t.Errorf("%s of %v: Backward returns %v, Grad %v and Recomputed %v", p.name, shapes, g, recorded, again)
	}
}

func TestDerivativesOfEveryOperationAgainstFiniteDifferences(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	for _, op := range operations() {
		again := op // each operand already has an adjoint when the rule of op runs
		again.name += " + means"
		again.f = func(x []variable) variable {
			y := op.f(x)
			for _, v := range x {
				y = Add(y, Mean(v))
			}
			return y
		}
		for _, shapes := range op.shapes {
			(&problem{operation: op}).check(t, rng, shapes)
			(&problem{operation: again}).check(t, rng, shapes)
		}
	}
}

// apply applies op to [2×2] operands: the first is a, and all others are b. It first converts each operand to a matrix
// that op accepts, such as one with positive elements for Log. The result is [2×2].
func (op operation) apply(a, b variable) variable {
	x := []variable{a, b, b}[:len(op.shapes[0])]
	if op.name == "Affine" {
		x[2] = SumTo(b, 2, 1)
	}
	if op.positive {
		for i := range x {
			x[i] = AddConst(Square(x[i]), 0.5)
		}
	}
	y := op.f(x)
	if y.Rows() > 2 {
		return RowRange(y, 1, 3)
	}
	return BroadcastTo(y, 2, 2)
}

// Each program computes q(u, x) + u ⊙ x with u = tanh(p(v, v)) and v = tanh(x) for two operations p and q, so that
// several operations contribute to the adjoints of u and x, and all operands of p are the same variable. The
// derivatives must agree with finite differences.
func TestDerivativesOfPairsOfOperations(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 1))
	for _, p := range operations() {
		for _, q := range operations() {
			if p.name == "BroadcastTo" || q.name == "BroadcastTo" { // apply calls it
				continue
			}
			pair := operation{name: q.name + " after " + p.name, f: func(x []variable) variable {
				v := Tanh(x[0])
				u := Tanh(p.apply(v, v))
				return Add(q.apply(u, x[0]), Mul(u, x[0]))
			}}
			(&problem{operation: pair}).check(t, rng, sh(2, 2))
		}
	}
}

// views returns an operation that applies 12 random operations to a [4×3] matrix and to their results: nested views,
// stacks, paddings, sums and broadcasts. It returns all results as one column. Many of their adjoints share memory.
func views(seed uint64) operation {
	return operation{name: fmt.Sprintf("views with seed %d", seed), f: func(x []variable) variable {
		rng := rand.New(rand.NewPCG(seed, 5))
		all, column := []variable{x[0]}, Reshape(x[0], 12, 1)
		for range 12 {
			y, b := all[rng.IntN(len(all))], all[rng.IntN(len(all))]
			rows, cols := y.Rows(), y.Cols()
			same := y.Value.Shape() == b.Value.Shape()
			switch kind := rng.IntN(8); {
			case kind <= 1:
				lo := rng.IntN(rows)
				y = RowRange(y, lo, lo+1+rng.IntN(rows-lo))
			case kind == 2:
				y = Reshape(y, cols, rows)
			case kind == 3 && cols == b.Cols() && rows+b.Rows() < 12:
				y = Stack(y, b)
			case kind == 4:
				zeros := y.tape.Fill(1, cols, 0)
				y = Stack(Stack(zeros, y), zeros)
			case kind == 5 && same:
				y = Add(y, b)
			case kind == 6 && same:
				y = Sub(Scale(y, 2), b)
			case kind == 7:
				y = BroadcastTo(SumTo(y, rows, 1), rows, 2)
			}
			all, column = append(all, y), Stack(column, Reshape(y, len(y.Value.Data), 1))
		}
		return column
	}}
}

func TestDerivativesOfNestedViews(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 1))
	for seed := range uint64(100) {
		(&problem{operation: views(seed)}).check(t, rng, sh(4, 3))
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
		{"log", Log[float64],
			[]float64{math.Log(x0), 1 / x0, -1 / (x0 * x0), 2 / math.Pow(x0, 3), -6 / math.Pow(x0, 4), 24 / math.Pow(x0, 5)}},
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

// The documented absolute errors of the slopes of Sigmoid (the second derivative of Softplus) and Tanh are 2ε, where ε
// is the distance from 1 to the next number.
func TestSlopesHaveTheDocumentedErrors(t *testing.T) {
	testSlopes[float32](t, 0x1p-23)
	testSlopes[float64](t, 0x1p-52)
}

func testSlopes[T linalg.Float](t *testing.T, epsilon float64) {
	var tape Tape[T]
	m := linalg.New[T](1, 40001)
	for i := range m.Data {
		m.Data[i] = T(i-20000) / 400 // from −50 to 50
	}
	x := tape.Leaf(m)
	exact := func(a float64) float64 { // the slope of the sigmoid
		e := math.Exp(-math.Abs(a))
		return e / ((1 + e) * (1 + e))
	}
	tanhSlope := func(a float64) float64 { return 4 * exact(2*a) }
	for name, c := range map[string]struct {
		slope *Var[T]
		exact func(a float64) float64
	}{
		"Softplus": {Grad(Grad(Softplus(x), x), x), exact},
		"Sigmoid":  {Grad(Sigmoid(x), x), exact},
		"Tanh":     {Grad(Tanh(x), x), tanhSlope},
	} {
		worst := 0.0
		for i, a := range m.Data {
			worst = max(worst, math.Abs(float64(c.slope.Value.Data[i])-c.exact(float64(a))))
		}
		if !(worst <= 2*epsilon) {
			t.Errorf("%T: the largest error of the slope in %s is %.2gε, want at most 2ε", m.Data[0], name, worst/epsilon)
		}
	}
}
