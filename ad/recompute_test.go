package ad

import (
	"slices"
	"testing"

	"hvae/linalg"
)

// layer is a program that computes tanh(W·x + W·(x ⊙ x)) from the arguments W and x. Its gradient
// with respect to W is the sum of two matrix products.
func layer(in []variable) variable {
	return Tanh(Add(MatMul(in[0], in[1]), MatMul(in[0], Square(in[1]))))
}

func TestGradientsWithRespectToResults(t *testing.T) {
	var tape Tape[float64]
	w := tape.Leaf(linalg.Column(3.0))
	u := Square(w)
	x := tape.Const(linalg.Column(5.0))
	F := Add(MatMul(u, x), Add(MatMul(u, x), MatMul(u, x)))
	for range 2 {
		if g := Backward(nil, F, u, w); g[0].Data[0] != 15 || g[1].Data[0] != 90 {
			t.Errorf("for F = 3·5u, u = w² and w = 3, dF/du = %v and dF/dw = %v, want 15 and 90", g[0].Data, g[1].Data)
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
		g := Backward(nil, Sum(y), w, x)
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
