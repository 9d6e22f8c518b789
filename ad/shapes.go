package ad

import (
	"fmt"

	"hvae/linalg"
)

// Sums, repetitions and views: each one's rule is another one of them.

// SumTo sums a along each axis on which the result, rows × cols, has length 1; on the
// others a's length must be the same. ā repeats ȳ.
func SumTo[T linalg.Float](a *Var[T], rows, cols int) *Var[T] {
	if a.Rows() == rows && a.Cols() == cols {
		return a
	}
	y := a.tape.Result(rows, cols)
	linalg.Sum(y.Value, a.Value)
	return a.tape.Record(y, sumTo[T]{}, a, nil, nil)
}

type sumTo[T linalg.Float] struct{}

func (sumTo[T]) Pull(y, ybar *Var[T]) {
	a := y.in[0]
	a.Receive(BroadcastTo(ybar, a.Rows(), a.Cols()))
}

// Sum returns the sum of a's elements, 1×1.
func Sum[T linalg.Float](a *Var[T]) *Var[T] { return SumTo(a, 1, 1) }

// SumChannels sums an image layer a [(pixels·channels) × samples] to a column with an
// element for each channel [channels × 1]. ā repeats ȳ for each pixel and sample.
func SumChannels[T linalg.Float](a *Var[T], channels int) *Var[T] {
	pixels := Reshape(a, a.Rows()/channels, channels*a.Cols())
	return SumTo(Reshape(SumTo(pixels, 1, channels*a.Cols()), channels, a.Cols()), channels, 1)
}

// Mean returns the mean of a's elements, 1×1.
func Mean[T linalg.Float](a *Var[T]) *Var[T] {
	return Scale(Sum(a), 1/T(a.Rows()*a.Cols()))
}

// BroadcastTo repeats a, which has one row, one column or both, to rows × cols.
// ā sums ȳ.
func BroadcastTo[T linalg.Float](a *Var[T], rows, cols int) *Var[T] {
	if a.Rows() == rows && a.Cols() == cols {
		return a
	}
	y := a.tape.Result(rows, cols)
	linalg.Copy(y.Value, a.Value)
	return a.tape.Record(y, broadcastTo[T]{}, a, nil, nil)
}

type broadcastTo[T linalg.Float] struct{}

func (broadcastTo[T]) Pull(y, ybar *Var[T]) {
	a := y.in[0]
	a.Receive(SumTo(ybar, a.Rows(), a.Cols()))
}

// MulSumTo returns SumTo(a ⊙ b, rows, cols) without forming the product. It and Mul
// are each other's adjoints: ā = ȳ ⊙ b, b̄ = ȳ ⊙ a, fitted to the operands.
func MulSumTo[T linalg.Float](a, b *Var[T], rows, cols int) *Var[T] {
	y := a.tape.Result(rows, cols)
	linalg.MulSum(y.Value, a.Value, b.Value)
	return a.tape.Record(y, mulSumTo[T]{}, a, b, nil)
}

type mulSumTo[T linalg.Float] struct{}

func (mulSumTo[T]) Pull(y, ybar *Var[T]) { passProduct(y, ybar) }

// Dot returns ⟨a, b⟩ = Σ aᵢⱼ bᵢⱼ, 1×1, repeating operands as Mul does.
func Dot[T linalg.Float](a, b *Var[T]) *Var[T] { return MulSumTo(a, b, 1, 1) }

// Reshape views a's elements, in row-major order, as rows × cols, without a copy. It panics
// unless there are as many. ā is ȳ, reshaped.
func Reshape[T linalg.Float](a *Var[T], rows, cols int) *Var[T] {
	if rows < 0 || cols < 0 || rows*cols != len(a.Value.Data) {
		panic(fmt.Sprintf("ad: Reshape: %v has not the size of [%d×%d]", a.shape(), rows, cols))
	}
	if a.Rows() == rows {
		return a
	}
	y := a.view(linalg.Of(rows, cols, a.Value.Data))
	return a.tape.Record(y, reshape[T]{}, a, nil, nil)
}

type reshape[T linalg.Float] struct{}

func (reshape[T]) Pull(y, ybar *Var[T]) {
	a := y.in[0]
	a.Receive(Reshape(ybar, a.Rows(), a.Cols()))
}

// RowRange views rows lo to hi-1 of a, without a copy. It panics if a has not these rows.
// ā is ȳ between rows of zeros.
func RowRange[T linalg.Float](a *Var[T], lo, hi int) *Var[T] {
	if lo == 0 && hi == a.Rows() {
		return a
	}
	y := a.view(a.Value.RowRange(lo, hi))
	y.row = lo
	return a.tape.Record(y, rowRange[T]{}, a, nil, nil)
}

type rowRange[T linalg.Float] struct{}

func (rowRange[T]) Pull(y, ybar *Var[T]) { y.in[0].receiveRows(ybar, y.row) }

// Embed returns a matrix of the given number of rows, zero but for a, which begins at
// row lo. It panics if a does not fit. ā is those rows of ȳ.
func Embed[T linalg.Float](a *Var[T], lo, rows int) *Var[T] {
	if lo < 0 || lo+a.Rows() > rows {
		panic(fmt.Sprintf("ad: Embed: %v does not fit into %d rows from row %d", a.shape(), rows, lo))
	}
	y := a.tape.Result(rows, a.Cols())
	y.Value.Fill(0)
	linalg.Copy(y.Value.RowRange(lo, lo+a.Rows()), a.Value)
	y.row = lo
	return a.tape.Record(y, embed[T]{}, a, nil, nil)
}

type embed[T linalg.Float] struct{}

func (embed[T]) Pull(y, ybar *Var[T]) {
	a := y.in[0]
	a.Receive(RowRange(ybar, y.row, y.row+a.Rows()))
}

// Stack returns the rows of a above those of b, which must have as many columns. ā and b̄
// are their rows of ȳ.
func Stack[T linalg.Float](a, b *Var[T]) *Var[T] {
	if a.Cols() != b.Cols() {
		panic(fmt.Sprintf("ad: Stack: %v and %v have not the same columns", a.shape(), b.shape()))
	}
	rows := a.Rows() + b.Rows()
	y := a.tape.Result(rows, a.Cols())
	linalg.Copy(y.Value.RowRange(0, a.Rows()), a.Value)
	linalg.Copy(y.Value.RowRange(a.Rows(), rows), b.Value)
	return a.tape.Record(y, stack[T]{}, a, b, nil)
}

type stack[T linalg.Float] struct{}

func (stack[T]) Pull(y, ybar *Var[T]) {
	a, b := y.in[0], y.in[1]
	if y.Wants(0) {
		a.Receive(RowRange(ybar, 0, a.Rows()))
	}
	if y.Wants(1) {
		b.Receive(RowRange(ybar, a.Rows(), y.Rows()))
	}
}
