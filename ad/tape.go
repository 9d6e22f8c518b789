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
// Start with this file (the tape and its variables), then grad.go (the sweep), then
// any operation in elementwise.go, contract.go and matmul.go.
//
// A tape serves one goroutine. Its memory is an arena: Reset forgets the program and
// keeps the memory, so that a repeated program allocates nothing.
//
// The package imports linalg.
package ad

import (
	"fmt"
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
	live    bool        // depends on a leaf
	rule    Rule[T]     // how the adjoint reaches the operands; nil for leaves and constants
	in      [3]*Var[T]  // operands, as the rule knows them
	aux     T           // a constant of the operation
	segment *segment[T] // of Recomputed: its operands and how to come by the rest
	row     int         // likewise

	into linalg.Matrix[T] // where Backward leaves the gradient; empty: in a matrix of its own
	add  bool             // to what into holds

	index  int     // position on the tape
	marked int     // number of the last sweep that reaches one of its variables
	kept   int     // number of the last sweep that asked for this adjoint
	bar    *Var[T] // adjoint in the current sweep
	refs   int     // how many adjoints this variable is, during a Backward sweep
}

// A Rule passes the adjoint ybar of y on to the operands of y: for each operand that the
// sweep wants, it calls Receive with a value computed from ybar by operations of the
// tape. With Result and Record it is all that an operation of another package needs.
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

	vars   [][]Var[T] // slabs, so that a Var never moves
	n      int        // variables in use
	values arena[T]

	scratch []T

	segments  []*segment[T]
	nSegments int // in use

	sweep   int          // number of the current sweep
	plain   bool         // a Backward sweep runs: nothing is recorded, buffers are reused
	created []*Var[T]    // variables made by the rule that runs, in a Backward sweep
	free    []buffers[T] // variables whose buffers can be reused, by size
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

type buffers[T linalg.Float] struct {
	size int
	vars []*Var[T]
}

const slab = 64

// Reset forgets every variable and keeps the memory for the next program.
func (t *Tape[T]) Reset() {
	t.n, t.nSegments = 0, 0
	t.values.reset()
	for i := range t.free {
		t.free[i].vars = t.free[i].vars[:0]
	}
}

// Len returns the number of variables on the tape.
func (t *Tape[T]) Len() int { return t.n }

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
	v := t.variable()
	v.Value, v.live = m, true
	return v
}

// Const puts m on the tape as a constant. It shares m's elements.
func (t *Tape[T]) Const(m linalg.Matrix[T]) *Var[T] {
	v := t.variable()
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
// there is none. Variables made by Backward are not on record.
func (t *Tape[T]) FirstNonFinite() string {
	for i := range t.n {
		v := t.at(i)
		for j, x := range v.Value.Data {
			if x-x == 0 {
				continue
			}
			what := "a constant or parameter"
			if v.rule != nil {
				what = fmt.Sprintf("%T", v.rule) // such as ad.exp[float32]
				what = "the operation " + what[:strings.IndexByte(what, '[')]
			}
			return fmt.Sprintf("%s, %v, whose element (%d, %d) is %v", what, v.Value.Shape(), j/v.Cols(), j%v.Cols(), x)
		}
	}
	return ""
}

// Tape returns the tape that v is on.
func (v *Var[T]) Tape() *Tape[T] { return v.tape }

// Live reports whether v is a leaf or depends on one, so that a gradient with respect
// to it can be asked for.
func (v *Var[T]) Live() bool { return v.live }

// Operand returns operand i of the operation whose result y is.
func (y *Var[T]) Operand(i int) *Var[T] { return y.in[i] }

// Rows returns the number of rows of v.
func (v *Var[T]) Rows() int { return v.Value.Rows }

// Cols returns the number of columns of v.
func (v *Var[T]) Cols() int { return v.Value.Cols }

// Scalar returns the element of a 1×1 variable; it panics for another shape.
func (v *Var[T]) Scalar() T {
	if v.Value.Shape() != (linalg.Shape{Rows: 1, Cols: 1}) {
		panic(fmt.Sprintf("ad: Scalar of a %v variable", v.Value.Shape()))
	}
	return v.Value.Data[0]
}

// Stop returns a constant with the value of v: no gradient passes through it.
func Stop[T linalg.Float](v *Var[T]) *Var[T] { return v.tape.Const(v.Value) }

// variable appends an empty variable.
func (t *Tape[T]) variable() *Var[T] {
	if t.n == len(t.vars)*slab {
		t.vars = append(t.vars, make([]Var[T], slab))
	}
	v := t.at(t.n)
	*v = Var[T]{tape: t, index: t.n}
	t.n++
	return v
}

func (t *Tape[T]) at(i int) *Var[T] { return &t.vars[i/slab][i%slab] }

// Result returns a variable for the value of an operation, rows × cols with arbitrary
// elements, for the operation to fill and to Record.
func (t *Tape[T]) Result(rows, cols int) *Var[T] {
	t.checkInterrupt()
	if !t.plain {
		v := t.variable()
		v.Value = t.Matrix(rows, cols)
		return v
	}
	v := t.reuse(rows * cols)
	if v == nil {
		v = t.variable()
		v.Value = t.Matrix(rows, cols)
	}
	v.Value.Rows, v.Value.Cols = rows, cols
	t.created = append(t.created, v)
	return v
}

// Record makes y, which it returns, the result of an operation on a, b and c (nil where
// there are fewer), whose adjoint r passes on. An operation on constants is a constant,
// and so is everything in a sweep whose result will not be differentiated: neither
// keeps its operands.
func (t *Tape[T]) Record(y *Var[T], r Rule[T], a, b, c *Var[T]) *Var[T] {
	if !t.plain && (a.live || b != nil && b.live || c != nil && c.live) {
		y.live, y.rule = true, r
		y.in[0], y.in[1], y.in[2] = a, b, c
	}
	return y
}

// reuse takes a variable with a buffer of the given size off the free list.
func (t *Tape[T]) reuse(size int) *Var[T] {
	for i := range t.free {
		if f := &t.free[i]; f.size == size {
			if n := len(f.vars); n > 0 {
				v := f.vars[n-1]
				f.vars = f.vars[:n-1]
				return v
			}
			return nil
		}
	}
	return nil
}

// release puts a variable that a Backward sweep made and no longer needs on the free
// list, for its buffer.
func (t *Tape[T]) release(v *Var[T]) {
	size := len(v.Value.Data)
	for i := range t.free {
		if t.free[i].size == size {
			t.free[i].vars = append(t.free[i].vars, v)
			return
		}
	}
	t.free = append(t.free, buffers[T]{size, []*Var[T]{v}})
}

// arena hands out slices of large chunks and takes all of them back at once.
type arena[T linalg.Float] struct {
	chunks [][]T
	chunk  int // the one in use
	used   int // elements of it
}

const (
	firstChunk = 1 << 10 // elements; each further chunk is twice as large
	lastChunk  = 1 << 18 // up to this size
	lane       = 64 / 4  // elements in a cache line, so that no two buffers share one
)

func (a *arena[T]) reset() { a.chunk, a.used = 0, 0 }

func (a *arena[T]) alloc(n int) []T {
	size := (n + lane - 1) / lane * lane
	for ; a.chunk < len(a.chunks); a.chunk, a.used = a.chunk+1, 0 {
		if c := a.chunks[a.chunk]; a.used+size <= len(c) {
			s := c[a.used : a.used+n : a.used+n]
			a.used += size
			return s
		}
	}
	a.chunks = append(a.chunks, make([]T, max(size, min(firstChunk<<len(a.chunks), lastChunk))))
	a.used = size
	return a.chunks[a.chunk][:n:n]
}
