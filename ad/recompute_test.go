package ad

import (
	"slices"
	"testing"

	"hvae/linalg"
)

// layer is a program that computes h + ∇ₓΣh² for h = tanh(W·x + W·(x ⊙ x)) from the arguments W and x.
func layer(in []variable) variable {
	h := Tanh(Add(MatMul(in[0], in[1]), MatMul(in[0], Square(in[1]))))
	return Add(h, Grad(Square(h), in[1]))
}

// nested is a function that calls another function, layer, through Recomputed.
func nested(in []variable) variable { return Recomputed(layer, in...) }

func TestRecomputedKeepsBits(t *testing.T) {
	var tape Tape[float64]
	w := tape.Leaf(linalg.Of(2, 2, []float64{0.3, -0.5, 0.7, 0.2}))
	x := tape.Leaf(linalg.Of(2, 2, []float64{0.4, -0.6, 1, 2}))
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
		"w is no argument": func(x variable) variable { // every run must get one argument
			return Recomputed(func(in []variable) variable { return layer([]variable{w, in[len(in)-1]}) }, x)
		},
		"neither w nor x is an argument": func(x variable) variable {
			return Recomputed(func([]variable) variable { return nested([]variable{w, x}) }, tape.Scalar(0))
		},
		"the caller changes the argument": func(x variable) variable {
			in := []variable{x}
			defer clear(in)
			return Recomputed(func(in []variable) variable { return layer([]variable{w, in[0]}) }, in...)
		},
	} {
		if got := gradient(run); !slices.Equal(got, want) {
			t.Errorf("%s: the gradient is %v, want %v", name, got, want)
		}
	}
}

func TestAProgramMayReturnItsArgumentOrAConstant(t *testing.T) {
	var tape Tape[float64]
	x := tape.Leaf(linalg.Column(3.0))
	same := Recomputed(func(in []variable) variable { return in[0] }, x)
	seven := Recomputed(func(in []variable) variable { return tape.Scalar(7) }, x)
	if g := Backward(nil, Add(Square(same), Mul(seven, x)), x)[0].Data[0]; g != 13 {
		t.Errorf("the derivative of x² + 7x at x = 3 is %v, want 13", g)
	}
}
