package ad

import (
	"fmt"

	"hvae/linalg"
)

// Elementwise operations. The binary ones repeat an operand that has one row or one
// column; the operand's adjoint then sums over the repetitions.

// Add returns a + b: ā = ȳ, b̄ = ȳ.
func Add[T linalg.Float](a, b *Var[T]) *Var[T] {
	y := broadcast("Add", a, b)
	linalg.Add(y.Value, a.Value, b.Value)
	return a.tape.Record(y, add[T]{}, a, b, nil)
}

type add[T linalg.Float] struct{}

func (add[T]) Pull(y, ybar *Var[T]) {
	y.in[0].receiveFit(ybar)
	y.in[1].receiveFit(ybar)
}

// Sub returns a − b: ā = ȳ, b̄ = −ȳ.
func Sub[T linalg.Float](a, b *Var[T]) *Var[T] {
	y := broadcast("Sub", a, b)
	linalg.Sub(y.Value, a.Value, b.Value)
	return a.tape.Record(y, sub[T]{}, a, b, nil)
}

type sub[T linalg.Float] struct{}

func (sub[T]) Pull(y, ybar *Var[T]) {
	y.in[0].receiveFit(ybar)
	if y.Wants(1) {
		b := y.in[1]
		b.Receive(Neg(fit(ybar, b.shape())))
	}
}

// Mul returns a ⊙ b: ā = ȳ ⊙ b, b̄ = ȳ ⊙ a.
func Mul[T linalg.Float](a, b *Var[T]) *Var[T] {
	y := broadcast("Mul", a, b)
	linalg.Mul(y.Value, a.Value, b.Value)
	return a.tape.Record(y, mul[T]{}, a, b, nil)
}

type mul[T linalg.Float] struct{}

func (mul[T]) Pull(y, ybar *Var[T]) { passProduct(y, ybar) }

// MulAdd returns a ⊙ b + c: ā = ȳ ⊙ b, b̄ = ȳ ⊙ a, c̄ = ȳ.
func MulAdd[T linalg.Float](a, b, c *Var[T]) *Var[T] {
	ab, ok := linalg.Broadcast(a.shape(), b.shape())
	s, fits := linalg.Broadcast(ab, c.shape())
	if !ok || !fits {
		panic(fmt.Sprintf("ad: MulAdd: shapes %v, %v and %v do not fit", a.shape(), b.shape(), c.shape()))
	}
	y := a.tape.Result(s.Rows, s.Cols)
	linalg.MulAdd(y.Value, a.Value, b.Value, c.Value)
	return a.tape.Record(y, mulAdd[T]{}, a, b, c)
}

type mulAdd[T linalg.Float] struct{}

func (mulAdd[T]) Pull(y, ybar *Var[T]) {
	passProduct(y, ybar)
	y.in[2].receiveFit(ybar)
}

// passProduct passes on the adjoint of a product of operands 0 and 1.
func passProduct[T linalg.Float](y, ybar *Var[T]) {
	a, b := y.in[0], y.in[1]
	a.receiveProduct(ybar, b)
	b.receiveProduct(ybar, a)
}

// Div returns a / b: ā = ȳ / b, b̄ = −(ȳ / b) ⊙ y.
func Div[T linalg.Float](a, b *Var[T]) *Var[T] {
	y := broadcast("Div", a, b)
	linalg.Div(y.Value, a.Value, b.Value)
	return a.tape.Record(y, div[T]{}, a, b, nil)
}

type div[T linalg.Float] struct{}

func (div[T]) Pull(y, ybar *Var[T]) {
	a, b := y.in[0], y.in[1]
	g := Div(ybar, b)
	a.receiveFit(g)
	if y.Wants(1) {
		b.receiveProduct(Neg(g), y)
	}
}

// Scale returns s·a for a constant s: ā = s·ȳ.
func Scale[T linalg.Float](a *Var[T], s T) *Var[T] {
	y := like(a)
	linalg.Scale(y.Value, s, a.Value)
	y.aux = s
	return a.tape.Record(y, scale[T]{}, a, nil, nil)
}

type scale[T linalg.Float] struct{}

func (scale[T]) Pull(y, ybar *Var[T]) { y.in[0].Receive(Scale(ybar, y.aux)) }

// Neg returns −a: ā = −ȳ.
func Neg[T linalg.Float](a *Var[T]) *Var[T] { return Scale(a, -1) }

// AddConst returns a + s for a constant s: ā = ȳ.
func AddConst[T linalg.Float](a *Var[T], s T) *Var[T] {
	y := like(a)
	linalg.AddConst(y.Value, a.Value, s)
	return a.tape.Record(y, addConst[T]{}, a, nil, nil)
}

type addConst[T linalg.Float] struct{}

func (addConst[T]) Pull(y, ybar *Var[T]) { y.in[0].Receive(ybar) }

// Exp returns y = eᵃ: ā = ȳ ⊙ y.
func Exp[T linalg.Float](a *Var[T]) *Var[T] {
	y := like(a)
	linalg.Exp(y.Value, a.Value)
	return a.tape.Record(y, exp[T]{}, a, nil, nil)
}

type exp[T linalg.Float] struct{}

func (exp[T]) Pull(y, ybar *Var[T]) { y.in[0].receiveProduct(ybar, y) }

// Log returns the natural logarithm of a: ā = ȳ / a.
func Log[T linalg.Float](a *Var[T]) *Var[T] {
	y := like(a)
	linalg.Log(y.Value, a.Value)
	return a.tape.Record(y, log[T]{}, a, nil, nil)
}

type log[T linalg.Float] struct{}

func (log[T]) Pull(y, ybar *Var[T]) { y.in[0].Receive(Div(ybar, y.in[0])) }

// Square returns a ⊙ a: ā = 2ȳ ⊙ a.
func Square[T linalg.Float](a *Var[T]) *Var[T] {
	y := like(a)
	linalg.Square(y.Value, a.Value)
	return a.tape.Record(y, square[T]{}, a, nil, nil)
}

type square[T linalg.Float] struct{}

func (square[T]) Pull(y, ybar *Var[T]) { y.in[0].receiveProduct(Scale(ybar, 2), y.in[0]) }

// Tanh returns y = tanh a: ā = ȳ ⊙ (1 − y²).
func Tanh[T linalg.Float](a *Var[T]) *Var[T] {
	y := like(a)
	linalg.Tanh(y.Value, a.Value)
	return a.tape.Record(y, tanh[T]{}, a, nil, nil)
}

type tanh[T linalg.Float] struct{}

func (tanh[T]) Pull(y, ybar *Var[T]) {
	y.in[0].receiveProduct(ybar, AddConst(Neg(Square(y)), 1))
}

// Softplus returns log(1 + eᵃ): ā = ȳ ⊙ sigmoid(a). The sigmoid comes with the same
// exponential; if a gradient may be asked for, it is on the tape from the start, in
// place of a second operand.
func Softplus[T linalg.Float](a *Var[T]) *Var[T] { return softplusInto(like(a), a) }

// Activate returns Softplus(a), whose value takes the place of a's: a layer's result that
// nothing else reads. It panics if a's elements are not its own (a leaf, a constant, a view
// or a variable with views) or a's own rule needs them (as that of Exp); any later use of
// a's value panics, too.
func Activate[T linalg.Float](a *Var[T]) *Var[T] {
	a.tape.mustHave(a)
	switch a.rule.(type) {
	case div[T], exp[T], tanh[T], sigmoid[T]:
		panic(fmt.Sprintf("ad: Activate of the result of %T, whose rule needs its value", a.rule))
	}
	if a.memory != own {
		panic(fmt.Sprintf("ad: Activate of a %v leaf, constant or view, whose elements are not its own", a.shape()))
	}
	y := a.tape.variable(a.tape, own)
	y.Value = a.Value
	softplusInto(y, a)
	a.program = activated
	return y
}

func softplusInto[T linalg.Float](y, a *Var[T]) *Var[T] {
	if !a.live {
		linalg.Softplus(y.Value, a.Value)
		return y
	}
	slope := like(a)
	linalg.SoftplusSigmoid(y.Value, slope.Value, a.Value)
	a.tape.Record(slope, sigmoid[T]{}, a, nil, nil)
	return a.tape.Record(y, softplus[T]{}, a, slope, nil)
}

type softplus[T linalg.Float] struct{}

func (softplus[T]) Pull(y, ybar *Var[T]) { y.in[0].receiveProduct(ybar, y.in[1]) }

// Sigmoid returns y = 1/(1 + e⁻ᵃ): ā = ȳ ⊙ (y − y²).
func Sigmoid[T linalg.Float](a *Var[T]) *Var[T] {
	y := like(a)
	linalg.Sigmoid(y.Value, a.Value)
	return a.tape.Record(y, sigmoid[T]{}, a, nil, nil)
}

type sigmoid[T linalg.Float] struct{}

func (sigmoid[T]) Pull(y, ybar *Var[T]) { y.in[0].Receive(sigmoidGradient(ybar, y)) }

// sigmoidGradient returns g ⊙ (s − s²): ḡ = ȳ ⊙ (s − s²), s̄ = ȳ ⊙ g ⊙ (1 − 2s).
func sigmoidGradient[T linalg.Float](g, s *Var[T]) *Var[T] {
	y := like(s)
	linalg.SigmoidGradient(y.Value, g.Value, s.Value)
	return s.tape.Record(y, slope[T]{}, g, s, nil)
}

type slope[T linalg.Float] struct{}

func (slope[T]) Pull(y, ybar *Var[T]) {
	g, s := y.in[0], y.in[1]
	if y.Wants(0) {
		g.Receive(sigmoidGradient(ybar, s))
	}
	if y.Wants(1) {
		s.receiveProduct(Mul(ybar, g), AddConst(Scale(s, -2), 1))
	}
}

// broadcast returns a variable for the result of a binary operation.
func broadcast[T linalg.Float](name string, a, b *Var[T]) *Var[T] {
	s, ok := linalg.Broadcast(a.shape(), b.shape())
	if !ok {
		panic(fmt.Sprintf("ad: %s: shapes %v and %v do not fit", name, a.shape(), b.shape()))
	}
	return a.tape.Result(s.Rows, s.Cols)
}

// like returns a variable of a's shape.
func like[T linalg.Float](a *Var[T]) *Var[T] { return a.tape.Result(a.Rows(), a.Cols()) }
