package ad

import (
	"fmt"

	"hvae/linalg"
)

// Sums, broadcasts and views. The rule of each uses another of them.

// SumTo sums a over its rows, its columns or both: over each axis on which the result,
// rows × cols, has length 1. On the other axes the lengths must be equal. ā broadcasts ȳ.
func SumTo[T linalg.Float](a *Var[T], rows, cols int) *Var[T] {
	if a.Rows() == rows && a.Cols() == cols {
		return a
	}
	y := a.tape.Result(rows, cols)
	linalg.Sum(y.Value, a.Value)
	return a.tape.Record(y, sumTo[T]{}, ReadsNothing, a, nil, nil)
}

type sumTo[T linalg.Float] struct{}

func (sumTo[T]) Pull(s Sweep[T], y, ybar *Var[T]) {
	a := y.in[0]
	s.Accumulate(a, BroadcastTo(ybar, a.Rows(), a.Cols()))
}

// Sum returns the sum of a's elements [1×1].
func Sum[T linalg.Float](a *Var[T]) *Var[T] { return SumTo(a, 1, 1) }

// SumChannels sums an image layer a [(pixels·channels) × samples] over pixels and samples
// and returns one element for each channel [channels × 1]. ā broadcasts ȳ.
func SumChannels[T linalg.Float](a *Var[T], channels int) *Var[T] {
	pixels := Reshape(a, a.Rows()/channels, channels*a.Cols())
	return SumTo(Reshape(SumTo(pixels, 1, channels*a.Cols()), channels, a.Cols()), channels, 1)
}

// BroadcastTo repeats a, which has one row, one column or both, to rows × cols. ā sums ȳ.
func BroadcastTo[T linalg.Float](a *Var[T], rows, cols int) *Var[T] {
	if a.Rows() == rows && a.Cols() == cols {
		return a
	}
	y := a.tape.Result(rows, cols)
	linalg.Copy(y.Value, a.Value)
	return a.tape.Record(y, broadcastTo[T]{}, ReadsNothing, a, nil, nil)
}

type broadcastTo[T linalg.Float] struct{}

func (broadcastTo[T]) Pull(s Sweep[T], y, ybar *Var[T]) {
	a := y.in[0]
	s.Accumulate(a, SumTo(ybar, a.Rows(), a.Cols()))
}

// fit returns g, summed or broadcast to shape s: the adjoint of an operand that an operation
// has broadcast or summed.
func fit[T linalg.Float](g *Var[T], s linalg.Shape) *Var[T] {
	if g.shape() == s {
		return g
	}
	g = SumTo(g, min(g.Rows(), s.Rows), min(g.Cols(), s.Cols))
	return BroadcastTo(g, s.Rows, s.Cols)
}

// Reshape returns a view of a's elements, in row-major order, as a rows × cols matrix. It
// panics unless the numbers of elements are equal. ā is ȳ, reshaped.
func Reshape[T linalg.Float](a *Var[T], rows, cols int) *Var[T] {
	if rows < 0 || cols < 0 || rows*cols != len(a.Value.Data) {
		panic(fmt.Sprintf("ad: Reshape: %v and [%d×%d] have different sizes", a.shape(), rows, cols))
	}
	if a.Rows() == rows {
		return a
	}
	y := a.view(linalg.Of(rows, cols, a.Value.Data))
	return a.tape.Record(y, reshape[T]{}, ReadsNothing, a, nil, nil)
}

type reshape[T linalg.Float] struct{}

func (reshape[T]) Pull(s Sweep[T], y, ybar *Var[T]) {
	a := y.in[0]
	s.Accumulate(a, Reshape(ybar, a.Rows(), a.Cols()))
}

// RowRange returns a view of rows lo to hi-1 of a. It panics if a does not have these rows.
// ā is ȳ in these rows, and zero elsewhere.
func RowRange[T linalg.Float](a *Var[T], lo, hi int) *Var[T] {
	if lo == 0 && hi == a.Rows() {
		return a
	}
	y := a.view(a.Value.RowRange(lo, hi))
	y.row = lo
	return a.tape.Record(y, rowRange[T]{}, ReadsNothing, a, nil, nil)
}

type rowRange[T linalg.Float] struct{}

func (rowRange[T]) Pull(s Sweep[T], y, ybar *Var[T]) { s.accumulateRows(y.in[0], ybar, y.row) }

// Stack returns the rows of a followed by the rows of b. It panics unless they have the
// same number of columns. ā and b̄ are the corresponding rows of ȳ.
func Stack[T linalg.Float](a, b *Var[T]) *Var[T] {
	if a.Cols() != b.Cols() {
		panic(fmt.Sprintf("ad: Stack: %v and %v have different numbers of columns", a.shape(), b.shape()))
	}
	rows := a.Rows() + b.Rows()
	y := a.tape.Result(rows, a.Cols())
	linalg.Copy(y.Value.RowRange(0, a.Rows()), a.Value)
	linalg.Copy(y.Value.RowRange(a.Rows(), rows), b.Value)
	return a.tape.Record(y, stack[T]{}, ReadsNothing, a, b, nil)
}

type stack[T linalg.Float] struct{}

func (stack[T]) Pull(s Sweep[T], y, ybar *Var[T]) {
	a, b := y.in[0], y.in[1]
	if s.Wants(a) {
		s.Accumulate(a, RowRange(ybar, 0, a.Rows()))
	}
	if s.Wants(b) {
		s.Accumulate(b, RowRange(ybar, a.Rows(), y.Rows()))
	}
}
