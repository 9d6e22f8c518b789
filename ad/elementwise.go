package ad

import "hvae/linalg"

// This file contains elementwise operations. They broadcast operands with one row or one column. The adjoint of a
// broadcast operand is the sum of the adjoints of its copies. The formulas below omit this sum.

// Add returns y = a + b. The adjoints are ā = ȳ and b̄ = ȳ.
func Add[T linalg.Float](a, b *Var[T]) *Var[T] {
	return binary(a, b, linalg.Add[T], add[T]{})
}

type add[T linalg.Float] struct{}

// Pull implements the differentiation rule of Add, AddConst, SumTo and BroadcastTo. It sums or broadcasts ȳ to the
// shape of each operand and adds the result to the adjoint of the operand.
func (add[T]) Pull(s *Sweep[T], y, ybar *Var[T]) {
	for _, b := range y.in[1:] {
		s.accumulateFit(b, ybar)
	}
	s.handOver(y.in[0], y)
}

// Sub returns y = a − b. The adjoints are ā = ȳ and b̄ = −ȳ.
func Sub[T linalg.Float](a, b *Var[T]) *Var[T] {
	return binary(a, b, linalg.Sub[T], sub[T]{})
}

type sub[T linalg.Float] struct{}

func (sub[T]) Pull(s *Sweep[T], y, ybar *Var[T]) {
	if b := y.in[1]; s.Wants(b) {
		s.Accumulate(b, Neg(fit(ybar, b.shape())))
	}
	s.handOver(y.in[0], y)
}

// Mul returns y = a ⊙ b. The adjoints are ā = ȳ ⊙ b and b̄ = ȳ ⊙ a.
func Mul[T linalg.Float](a, b *Var[T]) *Var[T] {
	return binary(a, b, linalg.Mul[T], mul[T]{})
}

type mul[T linalg.Float] struct{}

// Pull implements the differentiation rule of Mul, MulSumTo and MulAdd (y = a ⊙ b + c). It adds ȳ ⊙ b to ā, ȳ ⊙ a to b̄
// and, for MulAdd, ȳ to c̄. It first sums or broadcasts each term to the shape of the corresponding operand.
func (mul[T]) Pull(s *Sweep[T], y, ybar *Var[T]) {
	s.accumulateProduct(y.in[0], ybar, y.in[1])
	s.accumulateProduct(y.in[1], ybar, y.in[0])
	for _, c := range y.in[2:] {
		s.handOver(c, y)
	}
}

// MulSumTo returns y = SumTo(a ⊙ b, rows, cols) without storing a ⊙ b. The adjoints are ā = ȳ ⊙ b and b̄ = ȳ ⊙ a,
// each summed or broadcast to the shape of its operand.
func MulSumTo[T linalg.Float](a, b *Var[T], rows, cols int) *Var[T] {
	return mulSum(a.tape.Result(rows, cols), a, b)
}

// mulSum sets y = SumTo(a ⊙ b, y.Rows(), y.Cols()), records y and returns it.
func mulSum[T linalg.Float](y, a, b *Var[T]) *Var[T] {
	linalg.MulSum(y.Value, a.Value, b.Value)
	return a.tape.Record(y, mul[T]{}, a, b)
}

// Dot returns the inner product ⟨a, b⟩ = Σ aᵢⱼ bᵢⱼ as a 1×1 matrix. It broadcasts a and b as Mul does.
func Dot[T linalg.Float](a, b *Var[T]) *Var[T] { return MulSumTo(a, b, 1, 1) }

// MulAdd returns y = a ⊙ b + c. The adjoints are ā = ȳ ⊙ b, b̄ = ȳ ⊙ a and c̄ = ȳ.
func MulAdd[T linalg.Float](a, b, c *Var[T]) *Var[T] {
	ab, _ := linalg.Broadcast(a.shape(), b.shape())
	s, _ := linalg.Broadcast(ab, c.shape())
	y := a.tape.Result(s.Rows, s.Cols)
	linalg.MulAdd(y.Value, a.Value, b.Value, c.Value)
	return a.tape.Record(y, mul[T]{}, a, b, c)
}

// Div returns y = a / b. The adjoints are ā = ȳ / b and b̄ = −(ȳ / b) ⊙ y.
func Div[T linalg.Float](a, b *Var[T]) *Var[T] {
	return binary(a, b, linalg.Div[T], div[T]{})
}

type div[T linalg.Float] struct{}

func (div[T]) Pull(s *Sweep[T], y, ybar *Var[T]) {
	a, b := y.in[0], y.in[1]
	g := Div(ybar, b)
	s.accumulateFit(a, g)
	if s.Wants(b) {
		s.accumulateProduct(b, Neg(g), y)
	}
}

// Scale returns y = c·a for a constant c. The adjoint is ā = c·ȳ.
func Scale[T linalg.Float](a *Var[T], c T) *Var[T] {
	y := like(a)
	linalg.Scale(y.Value, c, a.Value)
	factor := a.tape.alloc(1)
	factor[0] = c
	return a.tape.Record(y, scale[T]{&factor[0]}, a)
}

// A scale holds a pointer to the constant c in the tape's memory. If a scale held c itself, its conversion to a Rule
// would allocate heap memory, and the steps of the Gaussian experiment would take 2 to 7 % longer.
type scale[T linalg.Float] struct{ c *T }

func (r scale[T]) Pull(s *Sweep[T], y, ybar *Var[T]) { s.Accumulate(y.in[0], Scale(ybar, *r.c)) }

// Neg returns y = −a. The adjoint is ā = −ȳ.
func Neg[T linalg.Float](a *Var[T]) *Var[T] { return Scale(a, -1) }

// Mean returns the mean of the elements of a as a 1×1 matrix.
func Mean[T linalg.Float](a *Var[T]) *Var[T] { return Scale(Sum(a), 1/T(a.Rows()*a.Cols())) }

// AddConst returns y = a + c for a constant c. The adjoint is ā = ȳ.
func AddConst[T linalg.Float](a *Var[T], c T) *Var[T] {
	y := like(a)
	linalg.AddConst(y.Value, a.Value, c)
	return a.tape.Record(y, add[T]{}, a)
}

// Exp returns y = eᵃ. The adjoint is ā = ȳ ⊙ y.
func Exp[T linalg.Float](a *Var[T]) *Var[T] {
	return unary(a, linalg.Exp[T], exp[T]{})
}

type exp[T linalg.Float] struct{}

func (exp[T]) Pull(s *Sweep[T], y, ybar *Var[T]) { s.accumulateProduct(y.in[0], ybar, y) }

// Log returns the natural logarithm y = log a. The adjoint is ā = ȳ / a.
func Log[T linalg.Float](a *Var[T]) *Var[T] {
	return unary(a, linalg.Log[T], log[T]{})
}

type log[T linalg.Float] struct{}

func (log[T]) Pull(s *Sweep[T], y, ybar *Var[T]) { s.Accumulate(y.in[0], Div(ybar, y.in[0])) }

// Square returns y = a ⊙ a. The adjoint is ā = 2ȳ ⊙ a.
func Square[T linalg.Float](a *Var[T]) *Var[T] { return Mul(a, a) }

// Tanh returns y = tanh a. The adjoint is ā = ȳ ⊙ (1 − y²). The absolute error of this slope is a few roundings of 1:
// at most 2⁻²² in float32 and 2⁻⁵¹ in float64. So the slope becomes 0 for |a| > 9 (19 in float64).
func Tanh[T linalg.Float](a *Var[T]) *Var[T] {
	return unary(a, linalg.Tanh[T], tanh[T]{})
}

type tanh[T linalg.Float] struct{}

func (tanh[T]) Pull(s *Sweep[T], y, ybar *Var[T]) {
	s.accumulateProduct(y.in[0], ybar, AddConst(Neg(Square(y)), 1))
}

// Softplus returns y = log(1 + eᵃ), or 0 in float32 if a < −44. The adjoint is ā = ȳ ⊙ sigmoid(a). Softplus also
// computes sigmoid(a), which needs no second exponential, and records it as an operand of y. The second derivative is
// the slope of the sigmoid; see Sigmoid for its error.
func Softplus[T linalg.Float](a *Var[T]) *Var[T] {
	y, slope := like(a), like(a)
	linalg.SoftplusSigmoid(y.Value, slope.Value, a.Value)
	a.tape.Record(slope, sigmoid[T]{}, a)
	return a.tape.Record(y, softplus[T]{}, a, slope)
}

type softplus[T linalg.Float] struct{}

func (softplus[T]) Pull(s *Sweep[T], y, ybar *Var[T]) { s.accumulateProduct(y.in[0], ybar, y.in[1]) }

// Sigmoid returns y = 1/(1 + e⁻ᵃ), or 0 in float32 if a < −44. The adjoint is ā = ȳ ⊙ (y − y²). The absolute error of
// this slope is a few roundings of 1: at most 2⁻²² in float32 and 2⁻⁵¹ in float64. So the slope becomes 0 for a > 17
// (37 in float64). A slope from e⁻ᵃ would be accurate, but training steps of HVAEs would take at least 3 % longer.
func Sigmoid[T linalg.Float](a *Var[T]) *Var[T] {
	return unary(a, linalg.Sigmoid[T], sigmoid[T]{})
}

type sigmoid[T linalg.Float] struct{}

func (sigmoid[T]) Pull(s *Sweep[T], y, ybar *Var[T]) {
	a := y.in[0]
	s.Accumulate(a, sigmoidGradient(s.Result(a), ybar, y))
}

// sigmoidGradient sets y = g ⊙ (σ − σ²), records y and returns it. If σ = Sigmoid(x) and g is the adjoint of σ, then y
// is the adjoint of x. The rule of y computes ḡ = ȳ ⊙ (σ − σ²) and the contribution ȳ ⊙ g ⊙ (1 − 2σ) to σ̄.
func sigmoidGradient[T linalg.Float](y, g, sigma *Var[T]) *Var[T] {
	linalg.SigmoidGradient(y.Value, g.Value, sigma.Value)
	return sigma.tape.Record(y, slope[T]{}, g, sigma)
}

type slope[T linalg.Float] struct{}

func (slope[T]) Pull(s *Sweep[T], y, ybar *Var[T]) {
	g, sigma := y.in[0], y.in[1]
	if s.Wants(g) {
		s.Accumulate(g, sigmoidGradient(s.Result(g), ybar, sigma))
	}
	if s.Wants(sigma) {
		s.accumulateProduct(sigma, Mul(ybar, g), AddConst(Scale(sigma, -2), 1))
	}
}

func unary[T linalg.Float](a *Var[T], f func(y, a linalg.Matrix[T]), r Rule[T]) *Var[T] {
	y := like(a)
	f(y.Value, a.Value)
	return a.tape.Record(y, r, a)
}

// binary computes y = f(a, b) and records y. If a and b cannot be broadcast together, f panics.
func binary[T linalg.Float](a, b *Var[T], f func(y, a, b linalg.Matrix[T]), r Rule[T]) *Var[T] {
	s, _ := linalg.Broadcast(a.shape(), b.shape())
	y := a.tape.Result(s.Rows, s.Cols)
	f(y.Value, a.Value, b.Value)
	return a.tape.Record(y, r, a, b)
}

// like returns a variable with a's shape and unspecified values.
func like[T linalg.Float](a *Var[T]) *Var[T] { return a.tape.Result(a.Rows(), a.Cols()) }
