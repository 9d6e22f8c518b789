// Package ad implements reverse-mode automatic differentiation of matrix programs.
//
// An operation computes its result when it is called and records itself on the tape of its
// operands. Its rule, a vector-Jacobian product, computes the adjoints of the operands from
// the adjoint of the result. Rules use operations of the same tape, so a gradient is itself
// a recorded program and can be differentiated again, to any order. The leapfrog integrator
// of the paper needs this: its steps contain ∇U, and training differentiates through them.
//
// Each file refers only to files before it: memory.go and tape.go; the operations in
// shapes.go, elementwise.go and matmul.go; pool.go (memory that is reused), grad.go
// (gradients that are recorded), backward.go (gradients that are not) and recompute.go.
//
// A tape serves one goroutine. Reset discards its program and keeps its memory, so a
// repeated program does not allocate.
//
// An operation takes the time of the function of the same name in linalg, plus tens of
// nanoseconds to record it; its rule takes about that time for each operand that depends on
// a requested variable. An operation panics and names the shapes if its operands' shapes do
// not fit. It also panics if an operand was created before its tape's last Reset, or depends
// on a leaf of another tape. Its result is on the tape of the first operand; the other
// operands may be constants of other tapes.
//
// ȳ denotes the adjoint of y: the derivative of the differentiated sum with respect to y.
// The package imports linalg.
package ad

import (
	"fmt"
	"iter"
	"strings"
	"sync/atomic"

	"hvae/linalg"
)

// A Var is a variable on a tape: a leaf, a constant or the result of an operation. It is
// valid until the tape's Reset.
type Var[T linalg.Float] struct {
	// Value must not be changed while the tape is in use.
	Value linalg.Matrix[T]

	tape    *Tape[T]
	program int // number of the tape's program when v was created; or overwritten
	index   int // position on the tape
	storage storage
	live    bool  // depends on a leaf
	refs    int32 // reference count; zero if recorded

	rule Rule[T]    // nil for leaves and constants
	in   [3]*Var[T] // operands; undefined if rule is nil
	aux  T          // the factor of Scale
	row  int        // the first row of RowRange
}

// storage describes who owns and who reads the elements of a variable's Value.
type storage uint8

const (
	borrowed  storage = iota // the caller or another variable owns them
	exclusive                // the variable owns them, and nothing else reads them
	shared                   // the variable owns them; views or recorded rules read them
	pooled                   // a pool owns them
)

// overwritten is the program of a variable whose value SoftplusInPlace has overwritten.
const overwritten = -1

// A Rule is the vector-Jacobian product of an operation. From y, its operands and its
// adjoint ybar, Pull computes a contribution to the adjoint of each operand, with operations
// of the tape, and passes it to s.Accumulate. It must not keep variables that it creates,
// because Backward reuses them, and must not call Grad or Backward on its tape.
type Rule[T linalg.Float] interface {
	Pull(s Sweep[T], y, ybar *Var[T])
}

// A Sweep adds up adjoints while Grad or Backward calls rules.
type Sweep[T linalg.Float] interface {
	// Wants reports whether the adjoint of v, an operand or nil, is needed.
	Wants(v *Var[T]) bool
	// Accumulate adds g to the adjoint of v, if it is needed, and never changes g. It
	// panics if the shapes differ.
	Accumulate(v, g *Var[T])
	// Destination returns the matrix in which BackwardInto adds up the gradient of the leaf
	// v. A rule may add its contribution to the matrix, or set the matrix if add is false,
	// instead of calling Accumulate. If ok is false, there is no such matrix.
	Destination(v *Var[T]) (sum linalg.Matrix[T], add, ok bool)

	// Like Accumulate, without storing the contribution if possible:
	accumulateFit(v, g *Var[T])          // g, summed or broadcast to v's shape
	accumulateRows(v, g *Var[T], lo int) // g, to the rows from lo on
	accumulateProduct(v, a, b *Var[T])   // a ⊙ b, summed or broadcast to v's shape
	accumulateMatMulTB(v, a, b *Var[T])  // a·bᵀ
}

// Reads is the set of values that a rule reads. SoftplusInPlace does not overwrite them.
type Reads uint8

const (
	ReadsNothing  Reads = 0
	ReadsResult   Reads = 1 // the result of the operation
	ReadsOperands Reads = 2 // the operands
)

// A Tape records operations in the order in which they run. The zero value is ready to use.
type Tape[T linalg.Float] struct {
	// Interrupt, if not nil, lets another goroutine stop a program: when it is true, the next
	// operation or step of a sweep panics with Interrupted, also in Recomputed. To use the
	// tape again, set it to false and call Reset.
	Interrupt *atomic.Bool

	record[T]
	program  int        // number of the current program
	previous []*slab[T] // variables of the program before
	scratch  []T

	// unrecorded, if not nil, supplies results of operations that are not recorded.
	unrecorded interface{ result(rows, cols int) *Var[T] }

	sweep           Sweep[T]  // state of Grad and Backward
	recomputed      []Rule[T] // rules of Recomputed
	recomputedInUse int
}

// A record is a list of variables with the memory of their values.
type record[T linalg.Float] struct {
	slabs  []*slab[T]
	n      int // number of variables
	values arena[T]
}

// A slab is a block of variables, which never move.
type slab[T linalg.Float] [64]Var[T]

func (r *record[T]) reset() {
	r.n = 0
	r.values.reset()
}

func (r *record[T]) at(i int) *Var[T] {
	const n = uint(len(slab[T]{}))
	return &r.slabs[uint(i)/n][uint(i)%n]
}

// Interrupted is the panic value of a program that Tape.Interrupt has stopped.
type Interrupted struct{}

func (Interrupted) Error() string { return "ad: interrupted" }

func (t *Tape[T]) checkInterrupt() {
	if t.Interrupt != nil && t.Interrupt.Load() {
		panic(Interrupted{})
	}
}

// Reset discards all variables and keeps their memory. Operations on discarded variables
// panic, at least until the next Reset.
func (t *Tape[T]) Reset() {
	t.program++
	t.slabs, t.previous = t.previous, t.slabs // discarded variables keep the old program's number
	t.record.reset()
	t.recomputedInUse = 0
}

// Len returns the number of variables on the tape.
func (t *Tape[T]) Len() int { return t.n }

// All returns an iterator over the variables on the tape, in program order.
func (t *Tape[T]) All() iter.Seq[*Var[T]] {
	return func(yield func(*Var[T]) bool) {
		for i := 0; i < t.n && yield(t.at(i)); i++ {
		}
	}
}

// Matrix returns a rows × cols matrix with arbitrary elements, such as for noise that
// changes with every step. It is valid until Reset.
func (t *Tape[T]) Matrix(rows, cols int) linalg.Matrix[T] {
	return linalg.Matrix[T]{Rows: rows, Cols: cols, Data: t.values.alloc(rows * cols)}
}

// Scratch returns n arbitrary elements for use until the calling operation returns.
func (t *Tape[T]) Scratch(n int) []T {
	if len(t.scratch) < n {
		t.scratch = make([]T, n)
	}
	return t.scratch[:n]
}

// Leaf puts m on the tape as an independent variable, which shares m's elements.
func (t *Tape[T]) Leaf(m linalg.Matrix[T]) *Var[T] {
	v := t.Const(m)
	v.live = true
	return v
}

// Const puts m on the tape as a constant, which shares m's elements.
func (t *Tape[T]) Const(m linalg.Matrix[T]) *Var[T] {
	v := t.variable(t, borrowed)
	v.Value = m
	return v
}

// Scalar puts the constant s on the tape as a 1×1 matrix.
func (t *Tape[T]) Scalar(s T) *Var[T] { return t.Fill(1, 1, s) }

// Fill puts a constant rows × cols matrix on the tape with every element equal to s.
func (t *Tape[T]) Fill(rows, cols int, s T) *Var[T] {
	v := t.Result(rows, cols)
	v.Value.Fill(s)
	return v
}

// FirstNonFinite describes the first variable on the tape with a NaN or infinite element:
// its operation, its shape and the element. It returns "" if all elements are finite.
func (t *Tape[T]) FirstNonFinite() string {
	for v := range t.All() {
		for j, x := range v.Value.Data {
			if x-x == 0 {
				continue
			}
			source := "a constant or parameter"
			if v.rule != nil {
				name, _, _ := strings.Cut(fmt.Sprintf("%T", v.rule), "[") // such as ad.exp[float32]
				source = "the operation " + strings.TrimPrefix(name, "*")
			}
			return fmt.Sprintf("%s, %v, whose element (%d, %d) is %v", source, v.shape(), j/v.Cols(), j%v.Cols(), x)
		}
	}
	return ""
}

// Tape returns the tape that v is on.
func (v *Var[T]) Tape() *Tape[T] { return v.tape }

// Live reports whether v is a leaf or depends on one. Gradients with respect to other
// variables do not exist.
func (v *Var[T]) Live() bool { return v.live }

// Operand returns operand i of the recorded operation with result y.
func (y *Var[T]) Operand(i int) *Var[T] { return y.in[i] }

func (v *Var[T]) shape() linalg.Shape { return linalg.Shape{Rows: v.Value.Rows, Cols: v.Value.Cols} }

// Rows returns the number of rows of v.
func (v *Var[T]) Rows() int { return v.Value.Rows }

// Cols returns the number of columns of v.
func (v *Var[T]) Cols() int { return v.Value.Cols }

// Scalar returns the element of v. It panics unless v is 1×1 and on its tape.
func (v *Var[T]) Scalar() T {
	v.tape.mustHave(v)
	if v.shape() != (linalg.Shape{Rows: 1, Cols: 1}) {
		panic(fmt.Sprintf("ad: Scalar of a %v variable", v.shape()))
	}
	return v.Value.Data[0]
}

// variable appends a constant of tape t, whose Value the caller sets. It resets only the
// fields that vary between programs.
func (r *record[T]) variable(t *Tape[T], s storage) *Var[T] {
	if r.n == len(r.slabs)*len(slab[T]{}) {
		s := new(slab[T])
		for i := range s {
			s[i].tape, s[i].index = t, r.n+i
		}
		r.slabs = append(r.slabs, s)
	}
	v := r.at(r.n)
	r.n++
	v.program, v.storage, v.live, v.rule = t.program, s, false, nil
	return v
}

// set makes Value a rows × cols matrix with the elements data. A repeated program usually
// writes nothing here, so that later reads of Value need not wait for the writes.
func (v *Var[T]) set(rows, cols int, data []T) {
	if m := &v.Value; m.Rows != rows || m.Cols != cols || len(data) == 0 || &m.Data[0] != &data[0] {
		m.Rows, m.Cols, m.Data = rows, cols, data
	}
}

// view returns a constant with the value m, whose elements are elements of v.
func (v *Var[T]) view(m linalg.Matrix[T]) *Var[T] {
	v.share()
	return v.tape.Const(m)
}

// share notes that something else reads v's elements.
func (v *Var[T]) share() {
	if v.storage == exclusive {
		v.storage = shared
	}
}

// Result returns a rows × cols variable with arbitrary elements, for an operation to
// compute and then to Record.
func (t *Tape[T]) Result(rows, cols int) *Var[T] {
	t.checkInterrupt()
	if t.unrecorded != nil {
		return t.unrecorded.result(rows, cols)
	}
	v := t.variable(t, exclusive)
	v.set(rows, cols, t.values.alloc(rows*cols))
	return v
}

// Record makes y the result of an operation on a, b and c, where b and c may be nil, and
// returns y. The operation has rule r, which reads the given values. If all operands are
// constants, or Backward is running, y becomes a constant without operands. Record panics if
// an operand is not valid on t.
func (t *Tape[T]) Record(y *Var[T], r Rule[T], reads Reads, a, b, c *Var[T]) *Var[T] {
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
	if !live || t.unrecorded != nil {
		return y
	}
	y.live, y.rule = true, r
	y.in[0], y.in[1], y.in[2] = a, b, c
	if reads&ReadsResult != 0 {
		y.share()
	}
	if reads&ReadsOperands != 0 {
		a.share()
		if b != nil {
			b.share()
		}
		if c != nil {
			c.share()
		}
	}
	return y
}

// mustHave panics unless v has a value and is a variable of t's program, or a constant of
// another tape.
func (t *Tape[T]) mustHave(v *Var[T]) {
	if v.tape != t || v.program != t.program {
		t.refuse(v)
	}
}

func (t *Tape[T]) refuse(v *Var[T]) {
	switch {
	case v.program == overwritten:
		panic(fmt.Sprintf("ad: use of a %v variable whose value SoftplusInPlace has overwritten", v.shape()))
	case v.program != v.tape.program:
		panic(fmt.Sprintf("ad: use of a %v variable from before its tape's Reset", v.shape()))
	case v.live:
		panic(fmt.Sprintf("ad: use of a %v variable of another tape, through which no gradient can pass: "+
			"the result is on the tape of the first operand, so if that operand is a constant, put it on the tape of the others", v.shape()))
	}
}
