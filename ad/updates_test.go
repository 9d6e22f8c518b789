package ad

import (
	"math"
	"slices"
	"testing"

	"hvae/linalg"
)

// layer is a program that computes tanh(W·x + W·(x ⊙ x)) from the arguments W and x. Its gradient
// with respect to W is the sum of two matrix products.
func layer(in []variable) variable {
	return Tanh(Add(MatMul(in[0], in[1]), MatMul(in[0], Square(in[1]))))
}

// The gradient with respect to a weight matrix is a sum of matrix products. Backward adds the
// products immediately. BackwardInto may store products in a queue and add several at once, even
// across calls to Recomputed. The gradient must include every product.
func TestQueuedProductsAreAllAdded(t *testing.T) {
	const n = 20 // number of columns; the queue has room for three products of this size
	weight, start := linalg.New[float64](4, 4), linalg.New[float64](4, n)
	for i := range start.Data {
		start.Data[i] = math.Sin(float64(i))
		if i < len(weight.Data) {
			weight.Data[i] = math.Cos(float64(i * i))
		}
	}
	var tape Tape[float64]
	fail := false
	gradient := func(layers int, recomputed, into bool) []float64 {
		tape.Reset()
		w, x := tape.Leaf(weight), tape.Leaf(start)
		x = addWithRule(func(s *Sweep[float64], y, ybar variable) {
			if fail {
				panic("a rule failed")
			}
			s.Accumulate(y.Operand(0), ybar)
		}, MatMul(w, x), tape.Fill(4, n, 0))
		for range layers {
			if recomputed {
				x = Recomputed(layer, w, x)
			} else {
				x = layer([]variable{w, x})
			}
		}
		if !into {
			return slices.Clone(Backward(Sum(x), w)[0].Data)
		}
		g := linalg.New[float64](4, 4)
		g.Fill(math.NaN())
		BackwardInto([]matrix{g}, Sum(x), []variable{w})
		return g.Data
	}
	for layers := 1; layers <= 8; layers++ {
		exact := gradient(layers, false, false)
		want := gradient(layers, false, true)
		for i, g := range want {
			if !(math.Abs(g-exact[i]) <= 1e-13*math.Abs(exact[i])) {
				t.Errorf("%d layers: BackwardInto: element %d of the gradient is %v, want %v", layers, i, g, exact[i])
			}
		}
		if !slices.Equal(gradient(layers, true, true), want) || !slices.Equal(gradient(layers, true, false), exact) {
			t.Errorf("%d layers: Recomputed changes the bits of the gradient", layers)
		}
		func() {
			defer func() { _ = recover() }()
			fail = true
			gradient(layers, true, true)
		}()
		if fail = false; !slices.Equal(gradient(layers, true, true), want) {
			t.Errorf("%d layers: the gradient is wrong after a differentiation rule has panicked", layers)
		}
	}
}

// BackwardInto may delay additions to the adjoint of a leaf. It must not delay additions to the adjoint of
// an operation's result, because the operation's differentiation rule needs the complete sum.
func TestGradientsWithRespectToResults(t *testing.T) {
	var tape Tape[float64]
	w := tape.Leaf(linalg.Column(3.0))
	u := Square(w)
	x := tape.Const(linalg.Column(5.0))
	F := Add(MatMul(u, x), Add(MatMul(u, x), MatMul(u, x)))
	for range 2 {
		into := []matrix{linalg.Column(0.0), linalg.Column(0.0)}
		BackwardInto(into, F, []variable{u, w})
		for _, g := range [][]matrix{into, Backward(F, u, w)} {
			if g[0].Data[0] != 15 || g[1].Data[0] != 90 {
				t.Errorf("for F = 3·5u, u = w² and w = 3, dF/du = %v and dF/dw = %v, want 15 and 90", g[0].Data, g[1].Data)
			}
		}
	}
}

// nested is a program that calls Recomputed to run the program layer.
func nested(in []variable) variable { return Recomputed(layer, in...) }

func TestRecomputedKeepsBits(t *testing.T) {
	var tape Tape[float64]
	w, x := tape.Leaf(linalg.Of(2, 2, []float64{0.3, -0.5, 0.7, 0.2})), tape.Leaf(linalg.Of(2, 2, []float64{0.4, -0.6, 1, 2}))
	gradient := func(run func(x variable) variable) []float64 {
		y := x
		for range 3 {
			y = run(y)
		}
		g := Backward(Sum(y), w, x)
		return slices.Concat(g[0].Data, g[1].Data)
	}
	want := gradient(func(x variable) variable { return layer([]variable{w, x}) })
	for name, run := range map[string]func(x variable) variable{
		"once":   func(x variable) variable { return Recomputed(layer, w, x) },
		"nested": func(x variable) variable { return Recomputed(nested, w, x) },
		"w is no argument": func(x variable) variable {
			return Recomputed(func(in []variable) variable { return layer([]variable{w, in[0]}) }, x)
		},
		"neither w nor x is an argument": func(x variable) variable {
			return Recomputed(func([]variable) variable { return nested([]variable{w, x}) }, tape.Scalar(0))
		},
	} {
		if got := gradient(run); !slices.Equal(got, want) {
			t.Errorf("%s: the gradient is %v, want %v", name, got, want)
		}
	}
}
