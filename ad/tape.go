// Package ad is reverse-mode automatic differentiation of matrix programs on a tape.
//
// Operations compute as they are called and record themselves on the tape of their
// operands. Each operation is one paragraph in the ops files: its value, then the
// rule that carries an adjoint from its result to its operands (a vector-Jacobian
// product). Rules are written in operations of the same tape, so a gradient is itself
// a recorded program and can be differentiated again, to any order. That is what the
// leapfrog of the paper needs: its steps contain ∇U, and training differentiates
// through them.
//
// Start with this file (the tape and its variables), then any operation in elementwise.go,
// shapes.go and matmul.go, then grad.go (the sweep, and gradients that are recorded) and
// backward.go (gradients that are not). memory.go and recompute.go are about memory.
//
// A tape serves one goroutine. Its memory is an arena: Reset forgets the program and
// keeps the memory, so that a repeated program allocates nothing.
//
// An operation takes the time of the one in linalg that it is named after, and tens of
// nanoseconds to be recorded; its adjoint costs one such operation for each operand that
// is on a path to a gradient. It panics, naming the shapes, if its operands' shapes do not
// fit; and if an operand is from before its tape's Reset, or depends on a leaf of another
// tape. Its result is on the tape of its first operand; the others may be constants of other
// tapes.
//
// The package imports linalg.
package ad

import (
	"fmt"
	"iter"
	"strings"
	"sync/atomic"

	"hvae/linalg"
)

// A Var is a matrix on a tape: a leaf, a constant or the result of an operation. It is
// valid until the tape's Reset.
type Var[T linalg.Float] struct {
	// Value is the variable's matrix. It must not be changed while the tape is in use.
	Value linalg.Matrix[T]

	tape    *Tape[T]
	program int // which of the tape's programs it belongs to; activated if Activate took it
	index   int // position on the tape
	memory  memory
	live    bool // depends on a leaf

	rule Rule[T]    // how the adjoint reaches the operands; nil for leaves and constants
	in   [3]*Var[T] // operands, as the rule knows them; anything without a rule
	aux  T          // a constant of the operation
	row  int        // likewise
}

// memory says whose elements a variable's Value has.
type memory uint8

const (
	foreign memory = iota // a leaf's or a constant's, or those of the variable that this one views
	own                   // the tape's, and no other variable's
	viewed                // the tape's, and views of this variable share them
	pooled                // those of a Backward sweep, which uses them again and keeps no record
)

// activated is the program of a variable whose value Activate has overwritten.
const activated = -1

// A Rule passes the adjoint ybar of y on to the operands of y: for each operand that the
// sweep wants, it calls Receive with a value computed from ybar, y and y's operands by
// operations of the tape. With Result and Record it is all that an operation of another
// package needs. What a rule computes while Backward runs is gone when Pull returns, but
// for the adjoints; a rule must not keep it, nor begin a sweep of its tape.
type Rule[T linalg.Float] interface {
	Pull(y, ybar *Var[T])
}

// A Tape records operations in the order they run. The zero value is ready to use.
type Tape[T linalg.Float] struct {
	// Interrupt, if it is not nil, lets another goroutine end a long program: once it is
	// true, the next operation or step of a sweep panics with Interrupted, on this tape as
	// on those that Recomputed runs programs of this tape on. Who runs the program recovers;
	// after Reset, and with Interrupt false again, the tape is as good as new.
	Interrupt *atomic.Bool

	record[T]            // where new variables go
	program   int        // number of the one on the tape
	last      []*slab[T] // of the program before
	scratch   []T

	recomputed  []*recomputed[T]
	nRecomputed int // in use

	sweep    sweep[T]    // the one that runs, or ran last
	backward backward[T] // what Backward needs besides
}

// A record is the variables of a program in their order, and the memory of their values.
type record[T linalg.Float] struct {
	slabs  []*slab[T]
	n      int // variables in use
	values arena[T]
}

// A slab is some variables that never move.
type slab[T linalg.Float] [64]Var[T]

func (r *record[T]) reset() {
	r.n = 0
	r.values.reset()
}

func (r *record[T]) at(i int) *Var[T] {
	const n = uint(len(slab[T]{}))
	return &r.slabs[uint(i)/n][uint(i)%n]
}

// Interrupted is what a program on a tape panics with if it is ended by Tape.Interrupt.
type Interrupted struct{}

// Error says that the program was interrupted.
func (Interrupted) Error() string { return "ad: interrupted" }

// checkInterrupt panics if the program is to end.
func (t *Tape[T]) checkInterrupt() {
	if t.Interrupt != nil && t.Interrupt.Load() {
		panic(Interrupted{})
	}
}

// Reset forgets every variable and keeps the memory for the next program. An operation on
// a variable from before panics, at least until the Reset after this one.
func (t *Tape[T]) Reset() {
	t.program++
	t.slabs, t.last = t.last, t.slabs // so that the variables from before stay recognisable
	t.record.reset()
	t.nRecomputed = 0
	t.backward.places = t.backward.places[:0]
}

// Len returns the number of variables on the tape.
func (t *Tape[T]) Len() int { return t.n }

// All returns an iterator over the variables on the tape, in the order of the program. It
// does not include the adjoints of Backward, which are not recorded.
func (t *Tape[T]) All() iter.Seq[*Var[T]] {
	return func(yield func(*Var[T]) bool) {
		for i := 0; i < t.n && yield(t.at(i)); i++ {
		}
	}
}

// Matrix returns a rows × cols matrix from the tape's arena, with arbitrary elements,
// valid until Reset: a place for noise or constants that change with every step.
func (t *Tape[T]) Matrix(rows, cols int) linalg.Matrix[T] {
	return linalg.Matrix[T]{Rows: rows, Cols: cols, Data: t.values.alloc(rows * cols)}
}

// Scratch returns n elements, arbitrary ones, that an operation may use until it returns.
func (t *Tape[T]) Scratch(n int) []T {
	if len(t.scratch) < n {
		t.scratch = make([]T, n)
	}
	return t.scratch[:n]
}

// Leaf puts m on the tape as a variable to differentiate by. It shares m's elements.
func (t *Tape[T]) Leaf(m linalg.Matrix[T]) *Var[T] {
	v := t.Const(m)
	v.live = true
	return v
}

// Const puts m on the tape as a constant. It shares m's elements.
func (t *Tape[T]) Const(m linalg.Matrix[T]) *Var[T] {
	v := t.variable(t, foreign)
	v.Value = m
	return v
}

// Scalar puts the constant s on the tape as a 1×1 matrix.
func (t *Tape[T]) Scalar(s T) *Var[T] { return t.Fill(1, 1, s) }

// Fill puts a constant rows × cols matrix on the tape, every element of it s.
func (t *Tape[T]) Fill(rows, cols int, s T) *Var[T] {
	v := t.Result(rows, cols)
	v.Value.Fill(s)
	return v
}

// FirstNonFinite describes the first variable on the tape with an element that is NaN or
// infinite: the operation whose result it is, its shape and the element. It is empty if
// there is none.
func (t *Tape[T]) FirstNonFinite() string {
	for v := range t.All() {
		for j, x := range v.Value.Data {
			if x-x == 0 {
				continue
			}
			what := "a constant or parameter"
			if v.rule != nil {
				name, _, _ := strings.Cut(fmt.Sprintf("%T", v.rule), "[") // such as ad.exp[float32]
				what = "the operation " + strings.TrimPrefix(name, "*")
			}
			return fmt.Sprintf("%s, %v, whose element (%d, %d) is %v", what, v.shape(), j/v.Cols(), j%v.Cols(), x)
		}
	}
	return ""
}

// Tape returns the tape that v is on.
func (v *Var[T]) Tape() *Tape[T] { return v.tape }

// Live reports whether v is a leaf or depends on one, so that a gradient with respect
// to it can be asked for.
func (v *Var[T]) Live() bool { return v.live }

// Operand returns operand i of the operation on record whose result y is.
func (y *Var[T]) Operand(i int) *Var[T] { return y.in[i] }

// shape returns the shape of v's matrix.
func (v *Var[T]) shape() linalg.Shape { return linalg.Shape{Rows: v.Value.Rows, Cols: v.Value.Cols} }

// Rows returns the number of rows of v.
func (v *Var[T]) Rows() int { return v.Value.Rows }

// Cols returns the number of columns of v.
func (v *Var[T]) Cols() int { return v.Value.Cols }

// Scalar returns the element of v, and panics unless v is 1×1 and on its tape still.
func (v *Var[T]) Scalar() T {
	v.tape.mustHave(v)
	if v.shape() != (linalg.Shape{Rows: 1, Cols: 1}) {
		panic(fmt.Sprintf("ad: Scalar of a %v variable", v.shape()))
	}
	return v.Value.Data[0]
}

// variable appends a constant, for the caller to set its Value. It writes what may be another
// from program to program.
func (r *record[T]) variable(t *Tape[T], whose memory) *Var[T] {
	if r.n == len(r.slabs)*len(slab[T]{}) {
		s := new(slab[T])
		for i := range s {
			s[i].tape, s[i].index = t, r.n+i
		}
		r.slabs = append(r.slabs, s)
	}
	v := r.at(r.n)
	r.n++
	v.program, v.memory, v.live, v.rule = t.program, whose, false, nil
	return v
}

// set makes data the elements of v [rows×cols]. A program that is repeated finds them there
// and stores nothing, so that the copies of Value in the calls that follow need not wait.
func (v *Var[T]) set(rows, cols int, data []T) {
	if m := &v.Value; m.Rows != rows || m.Cols != cols || len(data) == 0 || &m.Data[0] != &data[0] {
		m.Rows, m.Cols, m.Data = rows, cols, data
	}
}

// view returns a constant, m, that shares elements of v.
func (v *Var[T]) view(m linalg.Matrix[T]) *Var[T] {
	if v.memory == own {
		v.memory = viewed
	}
	return v.tape.Const(m)
}

// Result returns a variable for the value of an operation, rows × cols with arbitrary
// elements, for the operation to fill and to Record.
func (t *Tape[T]) Result(rows, cols int) *Var[T] {
	t.checkInterrupt()
	if b := t.sweep.backward; b != nil {
		return b.result(rows, cols)
	}
	v := t.variable(t, own)
	v.set(rows, cols, t.values.alloc(rows*cols))
	return v
}

// Record makes y, which it returns, the result of an operation on a, b and c (b or c nil
// where there are fewer), whose adjoint r passes on. An operation on constants is a
// constant and does not keep its operands; so is one of a rule while Backward runs. It
// panics if an operand is not valid on t.
func (t *Tape[T]) Record(y *Var[T], r Rule[T], a, b, c *Var[T]) *Var[T] {
	t.mustHave(a)
	live := a.live
	if b != nil {
		t.mustHave(b)
		live = live || b.live
	}
	if c != nil {
		t.mustHave(c)
		live = live || c.live
	}
	if live && y.memory != pooled {
		y.live, y.rule = true, r
		y.in[0], y.in[1], y.in[2] = a, b, c
	}
	return y
}

// mustHave panics unless v is a variable of the program on the tape, with its value; or a
// constant of another tape, through which no gradient would pass.
func (t *Tape[T]) mustHave(v *Var[T]) {
	if v.tape != t || v.program != t.program {
		t.refuse(v)
	}
}

func (t *Tape[T]) refuse(v *Var[T]) {
	switch {
	case v.program == activated:
		panic(fmt.Sprintf("ad: use of a %v variable whose value Activate has overwritten", v.shape()))
	case v.program != v.tape.program:
		panic(fmt.Sprintf("ad: use of a %v variable from before its tape's Reset", v.shape()))
	case v.live:
		panic(fmt.Sprintf("ad: use of a %v variable of another tape, to which no gradient would pass: "+
			"the result is on the tape of the first operand, so make that one, if it is a constant, on the tape of the others", v.shape()))
	}
}
