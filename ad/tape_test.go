package ad

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"hvae/linalg"
)

// A rule is a function that implements the interface Rule.
type rule func(s *Sweep[float64], y, ybar variable)

func (r rule) Pull(s *Sweep[float64], y, ybar variable) { r(s, y, ybar) }

// addWithRule returns a + b and records the sum with rule r, which may be deliberately wrong.
func addWithRule(r rule, a, b variable) variable {
	y := like(a)
	linalg.Add(y.Value, a.Value, b.Value)
	return a.tape.Record(y, r, a, b)
}

// sumAndProduct is a program for Recomputed that computes a ⊙ (a + b) from the arguments a and b.
func sumAndProduct(in []variable) variable { return Mul(in[0], Add(in[0], in[1])) }

func TestConstantsAreNotDifferentiated(t *testing.T) {
	var tape Tape[float64]
	x := tape.Leaf(linalg.Column(2.0))
	c := tape.Const(x.Value)
	if g := Grad(Mul(c, x), x).Scalar(); g != 2 { // the derivative is c, not 2x
		t.Errorf("d(c·x)/dx = %v at c = x = 2, want 2", g)
	}
	if y := Exp(Tanh(c)); y.live || y.rule != nil || len(y.in) > 0 {
		t.Error("an operation on constants was recorded")
	}
}

func TestGradientOfAnUnrelatedVariableIsZero(t *testing.T) {
	var tape Tape[float64]
	x, z := tape.Leaf(linalg.New[float64](2, 3)), tape.Leaf(linalg.New[float64](4, 1))
	y := Sum(Exp(x))
	unread := Square(z)
	later := tape.Leaf(linalg.New[float64](4, 1)) // on the tape after y
	for _, v := range []variable{z, unread, later} {
		if g := Grad(y, v); !slices.Equal(g.Value.Data, make([]float64, 4)) || Depends(y, v) {
			t.Errorf("Grad returns %v and Depends %v, want zeros and false", g.Value.Data, Depends(y, v))
		}
	}
	if !Depends(Add(Scale(Sum(x), 0), tape.Scalar(1)), x) {
		t.Error("Depends returns false for 0·x + 1, which is computed from x")
	}
}

func TestBackwardOverwritesItsDestinations(t *testing.T) {
	var tape Tape[float64]
	x := tape.Leaf(linalg.Of(2, 2, []float64{1, 2, 3, 4}))
	y, z := tape.Leaf(linalg.Column(5.0, 6)), tape.Leaf(linalg.Column(5.0, 6))
	u := MatMul(x, y)
	F := Add(Sum(Square(u)), Add(Sum(MulAdd(x, y, x)), Sum(MatMul(x, y))))
	xs := []variable{x, z, y, x, u}
	var dst, want []matrix
	for _, v := range xs {
		m := linalg.New[float64](v.Rows(), v.Cols())
		m.Fill(math.NaN())
		dst, want = append(dst, m), append(want, Grad(F, v).Value.Clone())
	}
	Backward(dst, F, xs...)
	for i, g := range dst {
		if !slices.Equal(g.Data, want[i].Data) {
			t.Errorf("gradient %d is %v, want %v", i, g.Data, want[i].Data)
		}
	}
}

func TestContributionsAreNotOverwritten(t *testing.T) {
	// A differentiation rule may pass any variable to Accumulate, such as an operand or a view of the adjoint, even
	// several times. Later additions to the same adjoint must not change the variable that was passed.
	var tape Tape[float64]
	a, b := linalg.New[float64](2, 3), linalg.New[float64](2, 3)
	for i := range a.Data {
		a.Data[i], b.Data[i] = float64(i+1), float64(10*i)
	}
	x, z := tape.Leaf(a), tape.Leaf(b)
	u, v := Scale(x, 1), Scale(z, 1)
	squares := Add(Square(u), Square(v)) // recorded earlier, so its differentiation rules run after the rule below
	F := Add(squares, addWithRule(func(s *Sweep[float64], y, ybar variable) {
		view, triple := Reshape(Reshape(ybar, 1, 6), 2, 3), Scale(ybar, 3)
		for _, g := range []variable{v, view, triple, y} {
			s.Accumulate(u, g)
		}
		for _, g := range []variable{y, triple, view, u} {
			s.Accumulate(v, g)
		}
	}, u, v))
	values := slices.Concat(u.Value.Data, v.Value.Data)
	for sweep, g := range map[string][]matrix{
		"Grad":     {Grad(F, x).Value, Grad(F, z).Value},
		"Backward": Backward(nil, F, x, z),
	} {
		for i := range a.Data {
			a, b := a.Data[i], b.Data[i]
			wantA, wantB := 2*a+b+1+3+(a+b), 2*b+(a+b)+3+1+a // the squares contribute 2a and 2b
			if p, q := g[0].Data[i], g[1].Data[i]; p != wantA || q != wantB {
				t.Errorf("%s: elements %d of the gradients are %v and %v, want %v and %v", sweep, i, p, q, wantA, wantB)
			}
		}
	}
	if !slices.Equal(slices.Concat(u.Value.Data, v.Value.Data), values) {
		t.Error("the value of an operand has changed")
	}
}

// The rule of Add may reuse the matrix of ȳ as the adjoint of the first operand, but not if the caller requested ȳ:
// later contributions to the adjoint of the operand would change ȳ.
func TestAdjointsOfRequestedIntermediateResults(t *testing.T) {
	var tape Tape[float64]
	x := tape.Leaf(linalg.Column(3.0))
	v := Scale(x, 2)
	square := Square(v) // adds to the adjoint of v after Add
	u := Add(v, x)
	F := Add(Square(u), square)
	want := map[variable]float64{u: 18, v: 18 + 12, x: 18 + 2*30} // F = u² + v², u = v + x, v = 2x
	for _, xs := range [][]variable{{u, v, x}, {u, x}, {v, x}, {v, u}, {u}, {v}, {x}} {
		for i, g := range Backward(nil, F, xs...) {
			if g.Data[0] != want[xs[i]] {
				t.Errorf("with respect to %d variables, gradient %d is %v, want %v", len(xs), i, g.Data[0], want[xs[i]])
			}
		}
	}
}

// The gradient of a sum over an empty matrix, such as α of a flow with K = 0 steps, must be empty.
func TestEmptyMatrices(t *testing.T) {
	var tape Tape[float64]
	a := tape.Leaf(linalg.New[float64](0, 3))
	if y := Reshape(a, 3, 0); y.Rows() != 3 || y.Cols() != 0 {
		t.Errorf("Reshape of a [0×3] matrix returns %v, want [3×0]", y.Value.Shape())
	}
	if g := Grad(Sum(SumTo(a, 1, 3)), a); g.Rows() != 0 || g.Cols() != 3 {
		t.Errorf("the gradient is [%d×%d], want [0×3]", g.Rows(), g.Cols())
	}
}

func TestValuesOfReductionsAndViews(t *testing.T) {
	// A wrong factor in Mean or Dot, or a wrong order of rows, changes values and derivatives alike, so tests of
	// derivatives do not detect it.
	var tape Tape[float64]
	x, y := tape.Const(linalg.Of(2, 3, []float64{1, 2, 3, 4, 5, 9})), tape.Const(linalg.Of(2, 1, []float64{10, 100}))
	for name, c := range map[string]struct {
		got  variable
		want []float64
	}{
		"Mean(x)":            {Mean(x), []float64{4}},
		"Dot(x, y)":          {Dot(x, y), []float64{60 + 1800}},
		"Stack(x, row of x)": {Stack(x, RowRange(x, 1, 2)), []float64{1, 2, 3, 4, 5, 9, 4, 5, 9}},
		"Reshape(x, 3, 2)":   {RowRange(Reshape(x, 3, 2), 1, 3), []float64{3, 4, 5, 9}},
	} {
		if !slices.Equal(c.got.Value.Data, c.want) {
			t.Errorf("%s is %v, want %v", name, c.got.Value.Data, c.want)
		}
	}
}

func TestSweepsComputeOnlyTheAdjointsNeeded(t *testing.T) {
	// When Grad differentiates y = Σ tanh(W·z) with respect to z, it must not compute the adjoint of W.
	var tape Tape[float64]
	w, z := tape.Leaf(linalg.New[float64](6, 5)), tape.Leaf(linalg.New[float64](5, 2))
	y := Sum(Tanh(MatMul(w, z)))
	before := tape.n
	Grad(y, z)
	for _, v := range tape.vars[before:tape.n] {
		if s := v.Value.Shape(); s == w.Value.Shape() {
			t.Errorf("the gradient with respect to z records a %v matrix, the shape of the adjoint of W", s)
		}
	}
	// The gradient with respect to the result of an operation must not need the adjoints of the operands.
	u := Exp(z)
	y = Sum(Square(u))
	before = tape.n
	Grad(y, u)
	if made := tape.n - before; made > 4 {
		t.Errorf("the gradient of Σu² with respect to u = exp(z) records %d variables, want at most 4", made)
	}
}

func TestRepeatedProgramReusesTheMemoryOfTheTape(t *testing.T) {
	a, b := linalg.Of(2, 2, []float64{0.3, -0.5, 0.7, 0.2}), linalg.Column(0.4, -0.6)
	var tape Tape[float64]
	var got []matrix
	x := make([]variable, 2)
	step := func() {
		tape.Reset()
		x[0], x[1] = tape.Leaf(a), tape.Leaf(b)
		h := MulAdd(x[0], x[1], Recomputed(sumAndProduct, x...))
		g := Grad(Sum(Softplus(MatMul(h, h))), h) // an inner gradient, as in a leapfrog step
		got = Backward(got, Sum(Add(x[0], Square(MulAdd(g, x[1], h)))), x...)
	}
	step()
	want := slices.Clone(got[0].Data)
	step()
	if n := testing.AllocsPerRun(3, step); n != 2 {
		t.Errorf("a repeated program allocates memory %v times, want 2 (the operands and the rule of Recomputed)", n)
	}
	if !slices.Equal(got[0].Data, want) {
		t.Errorf("a repeated program returns the gradient %v, want %v as before", got[0].Data, want)
	}
}

func TestMemoryOfBackwardDoesNotGrowWithTheProgram(t *testing.T) {
	var tape Tape[float64]
	x := tape.Leaf(linalg.New[float64](4, 4))
	y := x
	for range 300 {
		y = Add(Reshape(Mul(y, y), 4, 4), Sub(Stack(RowRange(y, 0, 2), RowRange(y, 2, 4)), Tanh(y)))
		y = Add(Square(y), y) // the operands of Add share an adjoint
		y = Recomputed(sumAndProduct, y, y)
		y = addWithRule(func(s *Sweep[float64], y, ybar variable) {
			tape.Matrix(64, 64) // memory that Backward must reuse after the rule has returned
			s.Accumulate(y.in[0], ybar)
		}, y, tape.Const(x.Value))
	}
	n, chunks := tape.n, len(tape.chunks)
	Backward(nil, y, x)
	if got := len(tape.chunks); got > chunks+1 {
		t.Errorf("Backward over %d variables keeps %d chunks that rules have allocated, want at most 1", n, got-chunks)
	}
	adjoints := len(slices.Concat(tape.pool[:]...))
	if adjoints == 0 || adjoints > 10 || tape.n > n || len(tape.vars) > n+20 {
		t.Errorf("Backward keeps %d adjoints and %d new variables, want 1 to 10 and 0", adjoints, tape.n-n)
	}
}

// Three programs use the same tape in turn, and the third reuses the Var structs of the first. A constant must not be
// live (see Live), even if its struct was a leaf, and a leaf must not depend on operands, even if it was a result.
func TestLaterProgramsDoNotDependOnEarlierOnes(t *testing.T) {
	var tape Tape[float64]
	Exp(tape.Leaf(linalg.Column(1.0)))
	tape.Reset()
	tape.Reset()
	x, y := tape.Leaf(linalg.Column(2.0)), tape.Leaf(linalg.Column(5.0)) // y reuses the Var of the exponential
	if g := Backward(nil, Mul(x, y), x)[0].Data[0]; g != 5 {
		t.Errorf("d(xy)/dx = %v at y = 5, want 5", g)
	}
	tape.Reset()
	tape.Reset()
	c := tape.Const(linalg.Column(2.0))
	if e := Exp(c); c.Live() || e.Live() {
		t.Errorf("a constant is live: %v; its exponential is live: %v", c.Live(), e.Live())
	}
}

func TestFirstNonFiniteNamesOperationAndElement(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		program         func(x variable) variable
		source, element string
	}{
		{func(x variable) variable { return AddConst(x, nan) }, "the operation ad.add, [2×3]", "(0, 0) is NaN"},
		{Log[float64], "the operation ad.log, [2×3]", "(1, 0) is -Inf"},
		{func(x variable) variable { // also inside of Recomputed
			x.tape.RecordAll = true
			return Recomputed(func(in []variable) variable { return Log(in[0]) }, x)
		}, "the operation ad.log, [2×3]", "(1, 0) is -Inf"},
		{func(x variable) variable { return x.tape.Const(linalg.Column(0, inf)) }, "a constant, [2×1]", "(1, 0) is +Inf"},
		{func(x variable) variable { return x.tape.Leaf(linalg.Column(nan)) }, "a leaf, [1×1]", "(0, 0) is NaN"},
		{Exp[float64], "", ""}, // all elements are finite
	} {
		var tape Tape[float64]
		first := c.program(tape.Leaf(linalg.Of(2, 3, []float64{1, 2, 3, 0, 5, 6})))
		want := c.source + ", whose element " + c.element + ", counted from 0"
		Exp(first)
		if c.source == "" {
			first, want = nil, ""
		}
		if v, got := tape.FirstNonFinite(); got != want || v != first {
			t.Errorf("FirstNonFinite returns %q, want %q", got, want)
		}
	}
}

func TestATapeWorksAfterARuleHasPanicked(t *testing.T) {
	var tape Tape[float64]
	fail := false
	run := func(sweep func(F, x variable) []float64) []float64 {
		x := tape.Leaf(linalg.Of(2, 2, []float64{0.3, -0.5, 0.7, 0.2}))
		y := addWithRule(func(s *Sweep[float64], y, ybar variable) {
			s.Accumulate(y.in[0], Scale(ybar, 2))
			if fail {
				tape.Const(y.Value)
				panic("a rule failed")
			}
		}, MatMul(x, x), Exp(x))
		return slices.Clone(sweep(Add(Recomputed(sumAndProduct, y, x), Square(x)), x))
	}
	backward := func(F, x variable) []float64 { return Backward(nil, F, x)[0].Data }
	grad := func(F, x variable) []float64 { return Grad(Sum(MatMul(x, x)), x).Value.Data }
	want := run(backward)
	for name, sweep := range map[string]func(F, x variable) []float64{
		"Backward": backward,
		"Grad":     func(F, x variable) []float64 { return Grad(F.in[0].in[0], x).Value.Data }, // of y
	} {
		for _, reset := range []bool{true, false} {
			n := 0
			fail = true
			p := recovered(func() {
				run(func(F, x variable) []float64 {
					n = tape.n
					return sweep(F, x)
				})
			})
			fail = false
			if p != "a rule failed" || name == "Backward" && tape.n != n {
				t.Errorf("%s panics with %v and leaves %d variables on the tape, want the panic of the rule and %d variables",
					name, p, tape.n, n)
			}
			if reset {
				tape.Reset()
			}
			run(grad)
			if got := run(backward); !slices.Equal(got, want) {
				t.Errorf("after a panic in %s (tape reset: %v), the gradient is %v, want %v", name, reset, got, want)
			}
		}
	}
}

func recovered(f func()) (value any) {
	defer func() { value = recover() }()
	f()
	return nil
}

func TestMisuseOfTheTapePanics(t *testing.T) {
	var tape, other Tape[float64]
	stale := tape.Leaf(linalg.New[float64](2, 3))
	tape.Reset()
	other.Reset() // so that both tapes have been reset equally often
	x, y, c := tape.Leaf(linalg.New[float64](2, 3)), other.Leaf(linalg.New[float64](2, 3)), other.Fill(2, 3, 0)
	squares, tall := Square(x), tape.Fill(3, 2, 0)
	check := func(want string, f func()) {
		t.Helper()
		if msg := fmt.Sprint(recovered(f)); !strings.Contains(msg, want) {
			t.Errorf("panic %q does not contain %q", msg, want)
		}
	}
	const old, foreign = "[2×3] variable used after its tape was reset", "[2×3] variable used on another tape"
	const nested = "a differentiation rule must not call Grad"
	grad, backward := func(F, x variable) { Grad(F, x) }, func(F, x variable) { Backward(nil, F, x) }
	sweeps := []func(F, x variable){grad, backward}
	for _, sweep := range sweeps {
		inRule := func(f func(s *Sweep[float64])) func() {
			return func() { sweep(addWithRule(func(s *Sweep[float64], _, _ variable) { f(s) }, x, x), x) }
		}
		check(old, func() { sweep(stale, x) })
		check(old, func() { sweep(x, stale) })
		check(old, inRule(func(s *Sweep[float64]) { s.Accumulate(x, stale) }))
		check(foreign, func() { sweep(Sum(x), y) })
		check(foreign, inRule(func(s *Sweep[float64]) { s.Accumulate(x, c) }))
		check("a [1×1] matrix cannot be added to the adjoint of a [2×3] variable",
			inRule(func(s *Sweep[float64]) { s.Accumulate(x, tape.Scalar(1)) }))
		check("cannot differentiate with respect to a [1×1] constant", func() { sweep(x, tape.Scalar(1)) })
		for _, inner := range sweeps {
			check(nested, inRule(func(*Sweep[float64]) { inner(squares, x) }))
		}
	}
	for name, op := range map[string]func(a, b variable) variable{
		"Add: operands": Add[float64], "Sub: operands": Sub[float64], "Mul: operands": Mul[float64],
		"Div: operands": Div[float64], "MulSum: cannot sum the product of": Dot[float64],
	} {
		check(name+" [2×3] and [3×2]", func() { op(x, tall) })
	}
	for _, c := range []struct {
		want string
		f    func()
	}{
		{old, func() { Add(x, stale) }},
		{old, func() { Exp(stale) }},
		{old, func() { stale.Scalar() }},
		{foreign + "; to use its value", func() { MulAdd(x, x, y) }},
		{foreign, func() { Add(x, c) }},
		{foreign, func() { Add(c, x) }},
		{"the gradient of a [2×3] variable does not fit into [3×3]", func() {
			Backward([]matrix{linalg.New[float64](3, 3)}, Sum(x), x)
		}},
		{nested, func() {
			backward(Recomputed(func([]variable) variable {
				Backward(nil, squares, x)
				return Square(x)
			}, x), x)
		}},
		{nested, func() {
			backward(Recomputed(func([]variable) variable {
				return addWithRule(func(*Sweep[float64], variable, variable) { Grad(squares, x) }, x, x)
			}, x), x)
		}},
		{"Grad cannot differentiate the result of Recomputed", func() { Grad(Recomputed(sumAndProduct, x, x), x) }},
		{"the variable must be [1×1], not [2×3]", func() { x.Scalar() }},
		{"Reshape: a [2×3] matrix cannot be reshaped to [4×2]", func() { Reshape(x, 4, 2) }},
		{"cannot be reshaped to [-2×-3]", func() { Reshape(x, -2, -3) }},
		{"[2×3] and [2×1] have different numbers of columns", func() { Stack(x, SumTo(x, 2, 1)) }},
		{"[2×3], [2×1], [4×3] do not broadcast to", func() { MulAdd(x, SumTo(x, 2, 1), tape.Fill(4, 3, 0)) }},
		{"Affine: [2×3] · [2×3] + [0×0]", func() { MatMul(x, x) }},
		{"Affine: [2×3] · [2×3] + [2×3]", func() { Affine(x, x, x) }},
		{"cannot sum [2×3] to [3×1]", func() { SumTo(x, 3, 1) }},
		{"[2×3] does not broadcast to [2×6]", func() { BroadcastTo(x, 2, 6) }},
		{"RowRange(1, 3) is out of range for a [2×3] matrix", func() { RowRange(x, 1, 3) }},
		{"a matrix [2×3] with 5 elements", func() { tape.Const(matrix{Rows: 2, Cols: 3, Data: make([]float64, 5)}) }},
	} {
		check(c.want, c.f)
	}
}
