package ad

import "hvae/linalg"

// The product of matrices and its forms with one operand transposed: a family closed
// under differentiation.

// Affine returns the dense layer w·x + b for w [m×n], x [n×B] and b [m×1]: w̄ = ȳ·xᵀ,
// x̄ = wᵀ·ȳ, and b̄ sums ȳ over samples.
func Affine[T linalg.Float](w, x, b *Var[T]) *Var[T] {
	y := w.tape.Result(w.Rows(), x.Cols())
	linalg.Affine(y.Value, w.Value, x.Value, b.Value)
	return w.tape.Record(y, affine[T]{}, w, x, b)
}

type affine[T linalg.Float] struct{}

func (affine[T]) Pull(y, ybar *Var[T]) {
	matMul[T]{}.Pull(y, ybar)
	y.in[2].receiveFit(ybar)
}

// MatMul returns a·b [m×n] for a [m×k] and b [k×n]: ā = ȳ·bᵀ, b̄ = aᵀ·ȳ.
func MatMul[T linalg.Float](a, b *Var[T]) *Var[T] {
	y := a.tape.Result(a.Rows(), b.Cols())
	linalg.MatMul(y.Value, a.Value, b.Value)
	return a.tape.Record(y, matMul[T]{}, a, b, nil)
}

type matMul[T linalg.Float] struct{}

func (matMul[T]) Pull(y, ybar *Var[T]) {
	a, b := y.in[0], y.in[1]
	a.receiveMatMulTB(ybar, b)
	if y.Wants(1) {
		b.Receive(MatMulTA(a, ybar))
	}
}

// MatMulTA returns aᵀ·b [m×n] for a [k×m] and b [k×n]: ā = b·ȳᵀ, b̄ = a·ȳ.
func MatMulTA[T linalg.Float](a, b *Var[T]) *Var[T] {
	y := a.tape.Result(a.Cols(), b.Cols())
	linalg.MatMulTA(y.Value, a.Value, b.Value)
	return a.tape.Record(y, matMulTA[T]{}, a, b, nil)
}

type matMulTA[T linalg.Float] struct{}

func (matMulTA[T]) Pull(y, ybar *Var[T]) {
	a, b := y.in[0], y.in[1]
	a.receiveMatMulTB(b, ybar)
	if y.Wants(1) {
		b.Receive(MatMul(a, ybar))
	}
}

// MatMulTB returns a·bᵀ [m×n] for a [m×k] and b [n×k]: ā = ȳ·b, b̄ = ȳᵀ·a.
func MatMulTB[T linalg.Float](a, b *Var[T]) *Var[T] {
	y := a.tape.Result(a.Rows(), b.Rows())
	linalg.MatMulTB(y.Value, a.Value, b.Value, a.tape.Scratch(len(b.Value.Data)))
	return a.tape.Record(y, matMulTB[T]{}, a, b, nil)
}

type matMulTB[T linalg.Float] struct{}

func (matMulTB[T]) Pull(y, ybar *Var[T]) {
	a, b := y.in[0], y.in[1]
	if y.Wants(0) {
		a.Receive(MatMul(ybar, b))
	}
	if y.Wants(1) {
		b.Receive(MatMulTA(ybar, a))
	}
}
