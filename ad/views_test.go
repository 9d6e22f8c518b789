package ad

import (
	"math/rand/v2"
	"slices"
	"testing"

	"hvae/linalg"
)

// A linear is a variable whose elements are linear combinations of the elements of a leaf. The coefficients are
// integers. Sums of integers are exact, so the gradients from the tape and from the coefficients must be equal.
type linear struct {
	v    variable
	coef [][]float64 // for each element, in row-major order, the coefficients of the leaf's elements
}

// values returns the elements that l.v must have if the leaf has the elements x. It uses the coefficients of l.
func (l linear) values(x []float64) []float64 {
	y := make([]float64, len(l.coef))
	for e, c := range l.coef {
		for i := range c {
			y[e] += c[i] * x[i]
		}
	}
	return y
}

// combine returns the coefficients p·a + q·b.
func combine(p float64, a [][]float64, q float64, b [][]float64) (c [][]float64) {
	for e := range a {
		row := make([]float64, len(a[e]))
		for i := range row {
			row[i] = p*a[e][i] + q*b[e][i]
		}
		c = append(c, row)
	}
	return c
}

// views applies random operations to a [4×3] leaf: nested views, stacks, paddings, sums and broadcasts. It returns the
// leaf and the results of all operations. In Grad, the adjoints of many of these variables share memory.
func views(rng *rand.Rand, leaf variable) []linear {
	n := len(leaf.Value.Data)
	zero := make([]float64, n)
	all := []linear{{v: leaf}}
	for i := range n {
		c := slices.Clone(zero)
		c[i] = 1
		all[0].coef = append(all[0].coef, c)
	}
	for range 12 {
		p, q := all[rng.IntN(len(all))], all[rng.IntN(len(all))]
		a, b := p.v, q.v
		rows, cols := a.Rows(), a.Cols()
		switch rng.IntN(8) {
		case 0, 1:
			lo := rng.IntN(rows)
			hi := lo + 1 + rng.IntN(rows-lo)
			all = append(all, linear{RowRange(a, lo, hi), p.coef[lo*cols : hi*cols]})
		case 2:
			all = append(all, linear{Reshape(a, cols, rows), p.coef})
		case 3:
			if cols == b.Cols() && rows+b.Rows() < 12 {
				all = append(all, linear{Stack(a, b), slices.Concat(p.coef, q.coef)})
			}
		case 4:
			pad := slices.Repeat([][]float64{zero}, cols)
			zeros := a.tape.Fill(1, cols, 0)
			all = append(all, linear{Stack(Stack(zeros, a), zeros), slices.Concat(pad, p.coef, pad)})
		case 5:
			if a.Value.Shape() == b.Value.Shape() {
				all = append(all, linear{Add(a, b), combine(1, p.coef, 1, q.coef)})
			}
		case 6:
			if a.Value.Shape() == b.Value.Shape() {
				all = append(all, linear{Sub(Scale(a, 2), b), combine(2, p.coef, -1, q.coef)})
			}
		case 7:
			column := linear{v: BroadcastTo(SumTo(a, rows, 1), rows, 2)}
			for r := range rows {
				sum := slices.Clone(zero)
				for _, c := range p.coef[r*cols : (r+1)*cols] {
					for i := range sum {
						sum[i] += c[i]
					}
				}
				column.coef = append(column.coef, sum, sum)
			}
			all = append(all, column)
		}
	}
	return all
}

func TestGradientsOfNestedViews(t *testing.T) {
	// For a leaf x, the function views returns several variables. Their elements form a vector y = A·x. For weights w,
	// a direction s and F = Σ w ⊙ y², Grad and Backward must return ∇F = 2Aᵀ(w ⊙ y) and ∇⟨∇F, s⟩ = 2Aᵀ(w ⊙ A·s).
	var tape Tape[float64]
	for seed := range uint64(300) {
		x, s := linalg.New[float64](4, 3), linalg.New[float64](4, 3)
		rng := rand.New(rand.NewPCG(seed, 5))
		for i := range x.Data {
			x.Data[i], s.Data[i] = float64(rng.IntN(9)-4), float64(rng.IntN(9)-4)
		}
		tape.Reset()
		leaf := tape.Leaf(x)
		F := tape.Scalar(0)
		want, wantSecond := make([]float64, 12), make([]float64, 12)
		for _, y := range views(rng, leaf) {
			w := tape.Matrix(y.v.Rows(), y.v.Cols())
			value, moved := y.values(x.Data), y.values(s.Data)
			if !slices.Equal(y.v.Value.Data, value) {
				t.Fatalf("seed %d: a variable returned by views is %v, want %v", seed, y.v.Value.Data, value)
			}
			for e := range w.Data {
				w.Data[e] = float64(rng.IntN(3))
				for i, c := range y.coef[e] {
					want[i] += 2 * w.Data[e] * value[e] * c
					wantSecond[i] += 2 * w.Data[e] * moved[e] * c
				}
			}
			F = Add(F, Dot(tape.Const(w), Square(y.v)))
		}
		g := Grad(F, leaf)
		slope := Dot(g, tape.Const(s))
		check := func(name string, got, want []float64) {
			if !slices.Equal(got, want) {
				t.Errorf("seed %d: %s is %v, want %v", seed, name, got, want)
			}
		}
		check("the result of Grad", g.Value.Data, want)
		check("the second derivative from Grad", Grad(slope, leaf).Value.Data, wantSecond)
		for _, c := range []struct {
			name string
			y    variable
			want []float64
		}{{"the result of Backward", F, want}, {"the second derivative from Backward", slope, wantSecond}} {
			check(c.name, Backward(nil, c.y, leaf)[0].Data, c.want)
		}
		check("the value of the leaf", leaf.Value.Data, x.Data)
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
