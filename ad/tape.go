// Package ad implements reverse-mode automatic differentiation of matrix programs.
//
// An operation computes its result immediately and is recorded on the tape of its first operand. Grad and Backward
// differentiate the sum F of a variable's elements. The adjoint of a variable y is ȳ = ∂F/∂y. The differentiation rule
// of an operation is its vector-Jacobian product: it computes the adjoints of the operands from the adjoint of the
// result. Rules consist of operations on the same tape, so the computation of a gradient is also a recorded program and
// can be differentiated again, to any order. The leapfrog integrator needs second derivatives, because its steps
// contain the gradient of the potential energy U, and training differentiates the steps.
//
// Read tape.go first, then the operations in shapes.go, elementwise.go and matmul.go, then grad.go (Grad and
// Backward), memory.go (reuse of memory) and recompute.go (gradient checkpointing).
//
// Only one goroutine at a time may use a tape. Reset discards the tape's program and keeps its memory, so a repeated
// program allocates memory only in its first two runs.
//
// An operation takes as long as the linalg function that computes its value, plus tens of nanoseconds for recording.
// Its differentiation rule takes about the same time for each operand whose adjoint is needed. All operands must be
// on the same tape. An operation panics if the shapes of its operands do not fit, and the message contains the
// shapes. It also panics if an operand is on another tape or was created before the last Reset.
package ad

import (
	"fmt"
	"slices"
	"strings"

	"hvae/linalg"
)

// A Var is a variable on a tape: a leaf, a constant or the result of an operation. It is valid until the tape is reset.
type Var[T linalg.Float] struct {
	// Value must not be changed until the tape is reset.
	Value linalg.Matrix[T]

	tape   *Tape[T]
	resets int  // value of tape.resets when the variable was created
	index  int  // position on the tape
	live   bool // whether the variable is a leaf or depends on one

	rule Rule[T]   // nil for leaves and constants
	in   []*Var[T] // operands; undefined if rule is nil
}

// A Rule computes the vector-Jacobian product of an operation with result y. Pull reads the operands, y and the adjoint
// ybar of y. For each operand v for which s.Wants(v) is true, Pull uses operations on the tape of y to compute a
// contribution to the adjoint of v, and passes it to s.Accumulate. If an operand occurs twice, Pull makes two
// contributions. Pull must not retain the variables that it creates, because Backward removes them. It must not call
// Grad or Backward on the tape of y.
type Rule[T linalg.Float] interface {
	Pull(s *Sweep[T], y, ybar *Var[T])
}

// A Tape records operations in the order in which they run. The zero value is an empty tape, ready to use.
type Tape[T linalg.Float] struct {
	// RecordAll makes the tape record operations on constants as well, and it makes Recomputed keep its intermediate
	// variables. FirstNonFinite can then report the name of any operation.
	RecordAll bool

	vars   []*Var[T]
	chunks [][]T // memory for the values of variables; never freed
	top[T]
	resets   int       // number of calls to Reset
	previous []*Var[T] // variables that the last Reset has discarded

	grad, backward Sweep[T] // state of Grad and Backward
	inRule         bool     // whether a differentiation rule is running
	pool           pool[T]  // memory for the adjoints of Backward
}

// Reset discards all variables of the tape and keeps their memory for reuse. Operations on a discarded variable
// panic. After a second Reset, they may return wrong results instead.
func (t *Tape[T]) Reset() {
	t.resets++
	t.vars, t.previous = t.previous, t.vars // discarded variables keep the old value of resets
	t.top = top[T]{}
}

// Matrix returns a rows × cols matrix with unspecified values. The caller fills it, for example with random noise. The
// matrix is valid until the tape is reset, or, if a differentiation rule calls Matrix, until the rule returns.
func (t *Tape[T]) Matrix(rows, cols int) linalg.Matrix[T] {
	return linalg.Matrix[T]{Rows: rows, Cols: cols, Data: t.alloc(rows * cols)}
}

// Leaf puts m on the tape as an independent variable and returns the variable. The variable and m share their elements.
func (t *Tape[T]) Leaf(m linalg.Matrix[T]) *Var[T] {
	v := t.Const(m)
	v.live = true
	return v
}

// Const puts m on the tape as a constant and returns the constant, which shares its elements with m.
func (t *Tape[T]) Const(m linalg.Matrix[T]) *Var[T] {
	if len(m.Data) != m.Rows*m.Cols {
		panic(fmt.Sprintf("ad: a matrix %v with %d elements; use linalg.New or linalg.Of", m.Shape(), len(m.Data)))
	}
	v := t.variable()
	v.Value = m
	return v
}

// Scalar puts the constant s on the tape as a 1×1 matrix and returns it.
func (t *Tape[T]) Scalar(s T) *Var[T] { return t.Fill(1, 1, s) }

// Fill puts a constant matrix [rows×cols] on the tape and returns it. All elements are s.
func (t *Tape[T]) Fill(rows, cols int, s T) *Var[T] {
	v := t.Result(rows, cols)
	v.Value.Fill(s)
	return v
}

// FirstNonFinite returns the first variable on the tape that contains a NaN or an infinity, and a description of its
// operation, its shape and its first non-finite element. If all elements are finite, v is nil.
func (t *Tape[T]) FirstNonFinite() (v *Var[T], description string) {
	for _, v := range t.vars[:t.n] {
		j := slices.IndexFunc(v.Value.Data, func(x T) bool { return x-x != 0 })
		if j < 0 {
			continue
		}
		source := "a constant"
		if v.rule != nil {
			name, _, _ := strings.Cut(fmt.Sprintf("%T", v.rule), "[") // such as ad.exp[float32]
			source = "the operation " + strings.TrimPrefix(name, "*")
		} else if v.live {
			source = "a leaf"
		}
		return v, fmt.Sprintf("%s, %v, whose element (%d, %d) is %v, counted from 0",
			source, v.shape(), j/v.Cols(), j%v.Cols(), v.Value.Data[j])
	}
	return nil, ""
}

// Tape returns the tape of v.
func (v *Var[T]) Tape() *Tape[T] { return v.tape }

// Live reports whether v is a leaf or depends on a leaf. Grad and Backward compute gradients only for live variables.
func (v *Var[T]) Live() bool { return v.live }

// Operands returns the operands of the recorded operation that computed y. The caller must not change the slice. It
// is empty if y is a leaf or a constant.
func (y *Var[T]) Operands() []*Var[T] {
	if y.rule == nil {
		return nil
	}
	return y.in
}

// shape returns the same value as v.Value.Shape(). Calling v.Value.Shape would slow down training steps with small
// matrices by 5 %.
func (v *Var[T]) shape() linalg.Shape { return linalg.Shape{Rows: v.Value.Rows, Cols: v.Value.Cols} }

// Rows returns the number of rows of v.
func (v *Var[T]) Rows() int { return v.Value.Rows }

// Cols returns the number of columns of v.
func (v *Var[T]) Cols() int { return v.Value.Cols }

// Scalar returns the only element of v. It panics if v is not a 1×1 matrix or is no longer valid.
func (v *Var[T]) Scalar() T {
	v.tape.mustHave(v)
	if v.shape() != (linalg.Shape{Rows: 1, Cols: 1}) {
		panic(fmt.Sprintf("ad: Scalar: the variable must be [1×1], not %v", v.shape()))
	}
	return v.Value.Data[0]
}

// set sets v.Value to a rows × cols matrix with elements data. It writes nothing if v.Value would not change, for
// example when the tape records the same program again. This shortens a training step with small matrices by 7 to 10 %.
func (v *Var[T]) set(rows, cols int, data []T) {
	if m := &v.Value; m.Rows != rows || m.Cols != cols || len(data) == 0 || &m.Data[0] != &data[0] {
		m.Rows, m.Cols, m.Data = rows, cols, data
	}
}

// Result returns a rows × cols variable with unspecified values. An operation sets the values and then calls Record.
func (t *Tape[T]) Result(rows, cols int) *Var[T] {
	v := t.variable()
	v.set(rows, cols, t.alloc(rows*cols))
	return v
}

// Record records y as the result of an operation with differentiation rule r and returns y. An operand may be nil. If
// all operands are constants, Record does not record the operation (except with RecordAll), and y is a constant. Record
// panics if an operand is no longer valid or is on another tape.
func (t *Tape[T]) Record(y *Var[T], r Rule[T], operands ...*Var[T]) *Var[T] {
	live := t.RecordAll
	for _, v := range operands {
		if v != nil {
			t.mustHave(v)
			live = live || v.live
		}
	}
	if !live {
		return y
	}
	y.live, y.rule = true, r
	if !slices.Equal(y.in, operands) { // a repeated program has the same operands; see set
		y.in = append(y.in[:0], operands...)
	}
	return y
}

// mustHave panics unless v is a variable of t that was created after the last Reset.
func (t *Tape[T]) mustHave(v *Var[T]) {
	if v.tape != t || v.resets != t.resets {
		t.refuse(v) // a separate function, so that the compiler inlines mustHave
	}
}

func (t *Tape[T]) refuse(v *Var[T]) {
	if v.tape != t {
		panic(fmt.Sprintf("ad: %v variable used on another tape; to use its value as a constant, "+
			"put it on the tape of the other operands (Tape.Const)", v.shape()))
	}
	panic(fmt.Sprintf("ad: %v variable used after its tape was reset", v.shape()))
}
