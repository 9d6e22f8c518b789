package ad

import "hvae/linalg"

// The product of matrices and its forms with one operand transposed: a family closed
// under differentiation.

// MatMul returns a·b: ā = ȳ·bᵀ, b̄ = aᵀ·ȳ.
func MatMul[T linalg.Float](a, b *Var[T]) *Var[T] {
	y := a.tape.result(a.Rows(), b.Cols())
	linalg.MatMul(y.Value, a.Value, b.Value)
	return a.tape.record(y, matMul[T]{}, a, b, nil)
}

type matMul[T linalg.Float] struct{}

func (matMul[T]) pull(y, ybar *Var[T]) {
	a, b := y.in[0], y.in[1]
	if y.wants(0) {
		a.receive(MatMulTB(ybar, b))
	}
	if y.wants(1) {
		b.receive(MatMulTA(a, ybar))
	}
}

// MatMulTA returns aᵀ·b: ā = b·ȳᵀ, b̄ = a·ȳ.
func MatMulTA[T linalg.Float](a, b *Var[T]) *Var[T] {
	y := a.tape.result(a.Cols(), b.Cols())
	linalg.MatMulTA(y.Value, a.Value, b.Value)
	return a.tape.record(y, matMulTA[T]{}, a, b, nil)
}

type matMulTA[T linalg.Float] struct{}

func (matMulTA[T]) pull(y, ybar *Var[T]) {
	a, b := y.in[0], y.in[1]
	if y.wants(0) {
		a.receive(MatMulTB(b, ybar))
	}
	if y.wants(1) {
		b.receive(MatMul(a, ybar))
	}
}

// MatMulTB returns a·bᵀ: ā = ȳ·b, b̄ = ȳᵀ·a.
func MatMulTB[T linalg.Float](a, b *Var[T]) *Var[T] {
	y := a.tape.result(a.Rows(), b.Rows())
	linalg.MatMulTB(y.Value, a.Value, b.Value)
	return a.tape.record(y, matMulTB[T]{}, a, b, nil)
}

type matMulTB[T linalg.Float] struct{}

func (matMulTB[T]) pull(y, ybar *Var[T]) {
	a, b := y.in[0], y.in[1]
	if y.wants(0) {
		a.receive(MatMul(ybar, b))
	}
	if y.wants(1) {
		b.receive(MatMulTA(ybar, a))
	}
}
