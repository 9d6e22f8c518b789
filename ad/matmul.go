package ad

import "hvae/linalg"

// Affine returns the output y = w·x + b [m×B] of a dense layer for w [m×n], x [n×B] and b [m×1].
// The adjoints are w̄ = ȳ·xᵀ, x̄ = wᵀ·ȳ and, for b, the sum of the columns of ȳ.
func Affine[T linalg.Float](w, x, b *Var[T]) *Var[T] {
	y := w.tape.Result(w.Rows(), x.Cols())
	linalg.Affine(y.Value, w.Value, x.Value, b.Value)
	return w.tape.Record(y, matMul[T]{}, w, x, b)
}

// MatMul returns y = a·b [m×n] for a [m×k] and b [k×n]. The adjoints are ā = ȳ·bᵀ and b̄ = aᵀ·ȳ.
func MatMul[T linalg.Float](a, b *Var[T]) *Var[T] {
	y := a.tape.Result(a.Rows(), b.Cols())
	linalg.MatMul(y.Value, a.Value, b.Value)
	return a.tape.Record(y, matMul[T]{}, a, b)
}

type matMul[T linalg.Float] struct{}

// Pull implements the differentiation rule of MatMul (y = a·b) and Affine (y = a·b + c). It adds ȳ·bᵀ to ā, aᵀ·ȳ to
// b̄ and, for Affine, the sum of the columns of ȳ to c̄.
func (matMul[T]) Pull(s *Sweep[T], y, ybar *Var[T]) {
	a, b := y.in[0], y.in[1]
	s.accumulateMatMulTB(a, ybar, b)
	if s.Wants(b) {
		s.Accumulate(b, mulTA(s.Result(b), a, ybar))
	}
	for _, c := range y.in[2:] {
		s.accumulateFit(c, ybar)
	}
}

// mulTA sets y = aᵀ·b [m×n] for a [k×m] and b [k×n], records y and returns it. The adjoints are ā = b·ȳᵀ and b̄ = a·ȳ.
func mulTA[T linalg.Float](y, a, b *Var[T]) *Var[T] {
	linalg.MatMulTA(y.Value, a.Value, b.Value)
	return a.tape.Record(y, matMulTA[T]{}, a, b)
}

type matMulTA[T linalg.Float] struct{}

func (matMulTA[T]) Pull(s *Sweep[T], y, ybar *Var[T]) {
	a, b := y.in[0], y.in[1]
	s.accumulateMatMulTB(a, b, ybar)
	if s.Wants(b) {
		s.Accumulate(b, MatMul(a, ybar))
	}
}

// mulTB sets y = a·bᵀ [m×n] for a [m×k] and b [n×k], records y and returns it. The adjoints are ā = ȳ·b and b̄ = ȳᵀ·a.
func mulTB[T linalg.Float](y, a, b *Var[T]) *Var[T] {
	linalg.MatMulTB(y.Value, a.Value, b.Value, a.tape.alloc(len(b.Value.Data)))
	return a.tape.Record(y, matMulTB[T]{}, a, b)
}

type matMulTB[T linalg.Float] struct{}

func (matMulTB[T]) Pull(s *Sweep[T], y, ybar *Var[T]) {
	a, b := y.in[0], y.in[1]
	if s.Wants(a) {
		s.Accumulate(a, MatMul(ybar, b))
	}
	if s.Wants(b) {
		s.Accumulate(b, mulTA(s.Result(b), ybar, a))
	}
}
