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
		"w is no argument": func(x variable) variable {
			return Recomputed(func(in []variable) variable { return layer([]variable{w, in[0]}) }, x)
		},
		"neither w nor x is an argument": func(x variable) variable {
			return Recomputed(func([]variable) variable { return nested([]variable{w, x}) }, tape.Scalar(0))
		},
		"the caller changes the arguments": func(x variable) variable {
			in := []variable{w, x}
			defer clear(in)
			return Recomputed(layer, in...)
		},
	} {
		if got := gradient(run); !slices.Equal(got, want) {
			t.Errorf("%s: the gradient is %v, want %v", name, got, want)
		}
	}
}

// Backward reruns the program that was passed to Recomputed. Both runs must receive the same arguments, even if the
// program also uses variables that are not among its arguments.
func TestEachRunOfAProgramGetsTheSameArguments(t *testing.T) {
	var tape Tape[float64]
	x, w := tape.Leaf(linalg.Column(2.0)), tape.Leaf(linalg.Column(10.0))
	sum := func(in []variable) variable { // w·Σ in²
		s := tape.Scalar(0)
		for _, v := range in {
			s = Add(s, Square(v))
		}
		return Mul(w, s)
	}
	args := []variable{x, nil}
	y := Recomputed(sum, args[:1]...)
	if args[1] != nil {
		t.Error("Recomputed writes beyond the end of the caller's slice")
	}
	if g := Backward(nil, y, x, w); g[0].Data[0] != 40 || g[1].Data[0] != 4 {
		t.Errorf("for y = w·x², x = 2 and w = 10, dy/dx = %v and dy/dw = %v, want 40 and 4", g[0].Data[0], g[1].Data[0])
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
