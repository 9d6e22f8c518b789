package ad

import (
	"fmt"

	"hvae/linalg"
)

// SumTo returns y [rows×cols], the sum of a along each axis where y has length 1. On any other axis, a and y must have
// the same length. The adjoint ā is ȳ broadcast to the shape of a.
func SumTo[T linalg.Float](a *Var[T], rows, cols int) *Var[T] {
	if a.Rows() == rows && a.Cols() == cols {
		return a
	}
	y := a.tape.Result(rows, cols)
	linalg.Sum(y.Value, a.Value)
	return a.tape.Record(y, add[T]{}, a)
}

// Sum returns the sum of the elements of a as a 1×1 matrix.
func Sum[T linalg.Float](a *Var[T]) *Var[T] { return SumTo(a, 1, 1) }

// BroadcastTo returns a rows × cols matrix y that repeats a along each axis where a has length 1. The adjoint ā is the
// sum of ȳ along these axes.
func BroadcastTo[T linalg.Float](a *Var[T], rows, cols int) *Var[T] {
	if a.Rows() == rows && a.Cols() == cols {
		return a
	}
	y := a.tape.Result(rows, cols)
	linalg.Copy(y.Value, a.Value)
	return a.tape.Record(y, add[T]{}, a)
}

// Repeat returns L adjacent copies of each column of a [n×B], as a matrix [n×(B·L)].
func Repeat[T linalg.Float](a *Var[T], L int) *Var[T] {
	elements := a.Rows() * a.Cols()
	return Reshape(BroadcastTo(Reshape(a, elements, 1), elements, L), a.Rows(), a.Cols()*L)
}

// fit returns g, summed or broadcast to shape s along the axes where the shape of g differs from s. Differentiation
// rules use fit when the operation has broadcast or summed an operand of shape s.
func fit[T linalg.Float](g *Var[T], s linalg.Shape) *Var[T] {
	if g.shape() == s {
		return g
	}
	rows, cols := g.Rows(), g.Cols()
	if s.Rows == 1 {
		rows = 1
	}
	if s.Cols == 1 {
		cols = 1
	}
	return BroadcastTo(SumTo(g, rows, cols), s.Rows, s.Cols)
}

// Reshape returns a rows × cols matrix y, a view of the elements of a in row-major order. It panics if the number of
// elements is not rows·cols. The adjoint ā is ȳ reshaped to the shape of a.
func Reshape[T linalg.Float](a *Var[T], rows, cols int) *Var[T] {
	if min(rows, cols) < 0 || rows*cols != len(a.Value.Data) {
		panic(fmt.Sprintf("ad: Reshape: a %v matrix cannot be reshaped to [%d×%d]", a.shape(), rows, cols))
	}
	if a.shape() == (linalg.Shape{Rows: rows, Cols: cols}) {
		return a
	}
	y := a.tape.Const(linalg.Of(rows, cols, a.Value.Data))
	return a.tape.Record(y, reshape[T]{}, a)
}

type reshape[T linalg.Float] struct{}

func (reshape[T]) Pull(s *Sweep[T], y, ybar *Var[T]) {
	a := y.in[0]
	s.Accumulate(a, Reshape(ybar, a.Rows(), a.Cols()))
}

// RowRange returns a matrix y that is a view of rows lo to hi−1 of a. It panics if a does not contain these rows. The
// adjoint ā contains ȳ in rows lo to hi−1 and zeros in all other rows.
func RowRange[T linalg.Float](a *Var[T], lo, hi int) *Var[T] {
	if lo == 0 && hi == a.Rows() {
		return a
	}
	y := a.tape.Const(a.Value.RowRange(lo, hi))
	return a.tape.Record(y, rowRange[T]{lo}, a)
}

type rowRange[T linalg.Float] struct{ lo int }

func (r rowRange[T]) Pull(s *Sweep[T], y, ybar *Var[T]) {
	a := y.in[0]
	hi := r.lo + y.Rows()
	if n := s.node(a); s.adds(n) {
		rows := n.bar.Value.RowRange(r.lo, hi)
		linalg.Add(rows, rows, ybar.Value)
		return
	}
	above, below := a.tape.Fill(r.lo, a.Cols(), 0), a.tape.Fill(a.Rows()-hi, a.Cols(), 0)
	s.Accumulate(a, Stack(Stack(above, ybar), below))
}

// Stack returns a matrix y that consists of the rows of a followed by the rows of b. It panics if a and b have
// different numbers of columns. The adjoint ā consists of the first rows of ȳ, and b̄ consists of the remaining rows.
func Stack[T linalg.Float](a, b *Var[T]) *Var[T] {
	if a.Cols() != b.Cols() {
		panic(fmt.Sprintf("ad: Stack: %v and %v have different numbers of columns", a.shape(), b.shape()))
	}
	rows := a.Rows() + b.Rows()
	y := a.tape.Result(rows, a.Cols())
	linalg.Copy(y.Value.RowRange(0, a.Rows()), a.Value)
	linalg.Copy(y.Value.RowRange(a.Rows(), rows), b.Value)
	return a.tape.Record(y, stack[T]{}, a, b)
}

type stack[T linalg.Float] struct{}

func (stack[T]) Pull(s *Sweep[T], y, ybar *Var[T]) {
	a, b := y.in[0], y.in[1]
	if s.Wants(a) {
		s.Accumulate(a, RowRange(ybar, 0, a.Rows()))
	}
	if s.Wants(b) {
		s.Accumulate(b, RowRange(ybar, a.Rows(), y.Rows()))
	}
}
