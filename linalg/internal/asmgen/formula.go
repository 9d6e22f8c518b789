package main

import (
	"fmt"
	"strings"
)

// A formula computes vectors from vectors. Its methods append operations, whose operands are values. When the formula is
// complete, the method emit emits its operations and assigns vector registers to their results.
type formula struct {
	*assembler
	operations []*value
	used       []bool // used[r] reports whether register r holds a value
}

// A value is a vector: an operand of a kernel, a constant, or the result of an operation.
type value struct {
	operation string // name in the table vectorInstructions, "choose", "shift" or "comment"
	arguments []*value
	shift     int    // number of bits for "shift"
	comment   string // text for "comment"
	constant  *constant
	register  int // register that holds the value
	readers   int // number of arguments equal to this value in operations that have not been emitted
}

// newFormula returns an empty formula. With AVX2, one register is reserved for the mask.
func newFormula(w *assembler) *formula {
	f := &formula{assembler: w, used: make([]bool, w.count)}
	if w.isa == avx2 {
		f.used[maskRegister] = true
	}
	return f
}

// loaded returns a value for a vector in a register that the caller has loaded. The register is never reused if keep
// is set, and otherwise after the last operation that reads it.
func (f *formula) loaded(register int, keep bool) *value {
	v := &value{register: register}
	f.used[register] = true
	if keep {
		v.readers = 1
	}
	return v
}

func (f *formula) apply(v *value) *value {
	for _, a := range v.arguments {
		a.readers++
	}
	f.operations = append(f.operations, v)
	return v
}

func (f *formula) op(name string, arguments ...*value) *value {
	return f.apply(&value{operation: name, arguments: arguments})
}

func (f *formula) add(a, b *value) *value { return f.op("add", a, b) }
func (f *formula) sub(a, b *value) *value { return f.op("sub", a, b) }
func (f *formula) mul(a, b *value) *value { return f.op("mul", a, b) }
func (f *formula) div(a, b *value) *value { return f.op("div", a, b) }
func (f *formula) max(a, b *value) *value { return f.op("max", a, b) } // see vectorInstructions for NaN
func (f *formula) min(a, b *value) *value { return f.op("min", a, b) }
func (f *formula) and(a, b *value) *value { return f.op("and", a, b) }
func (f *formula) or(a, b *value) *value  { return f.op("or", a, b) }

// fma returns a·b + c, and fnma returns c − a·b, rounded once.
func (f *formula) fma(a, b, c *value) *value  { return f.op("fma", a, b, c) }
func (f *formula) fnma(a, b, c *value) *value { return f.op("fnma", a, b, c) }

// subInt and shift operate on the bits of the elements as integers. A negative n shifts to the right.
func (f *formula) subInt(a, b *value) *value { return f.op("subInt", a, b) }
func (f *formula) shift(a *value, n int) *value {
	return f.apply(&value{operation: "shift", arguments: []*value{a}, shift: n})
}

// choose returns a in the elements where x < y, and b in the other elements, such as those where x or y is NaN.
func (f *formula) choose(x, y, a, b *value) *value { return f.op("choose", x, y, a, b) }

// comment emits a comment.
func (f *formula) comment(format string, args ...any) {
	f.apply(&value{operation: "comment", comment: fmt.Sprintf(format, args...)})
}

// emit emits the operations. The outputs stay in their registers.
func (f *formula) emit(outputs ...*value) {
	for _, v := range outputs {
		v.readers++
	}
	for _, v := range f.operations {
		switch v.operation {
		case "comment":
			f.assembler.comment("%s", v.comment)
		case "fma", "fnma":
			f.emitMultiplyAdd(v)
		case "choose":
			f.emitChoose(v)
		case "shift":
			a := f.read(v.arguments[0])
			f.release(v.arguments[0])
			v.register = f.allocate()
			f.assembler.shift(a, v.shift, v.register)
		default:
			f.emitBinary(v)
		}
	}
}

// allocate returns a free register.
func (f *formula) allocate() int {
	for r, used := range f.used {
		if !used {
			f.used[r] = true
			return r
		}
	}
	panic(fmt.Sprintf("%s: no register left", f.name))
}

// read returns a register that holds v. It emits code that loads a constant into a free register.
func (f *formula) read(v *value) int {
	if v.constant != nil {
		v.register = f.allocate()
		operand := f.constantOperand(*v.constant)
		if f.architecture == arm64 {
			f.assembler.op("FMOVQ %s, F%d", operand, v.register)
		} else {
			f.assembler.op("VBROADCASTS%s %s, %s", map[int]string{4: "S", 8: "D"}[f.size], operand, f.v(v.register))
		}
	}
	return v.register
}

// release frees the registers of the given arguments of an operation that no other operation reads. A constant is
// loaded again for each operation.
func (f *formula) release(arguments ...*value) {
	for _, a := range arguments {
		if a.readers--; a.readers == 0 || a.constant != nil {
			f.used[a.register] = false
		}
	}
}

// overwrites reports whether the operation being emitted is the last to read v, so that it may overwrite its register.
func overwrites(v *value) bool { return v.readers == 1 || v.constant != nil }

// source returns the assembly operand for the last source of an instruction of amd64 and its suffix. With AVX-512, a
// constant can be in memory. If not, the operation must release the argument; the list left contains such arguments.
func (f *formula) source(v *value) (operand, suffix string, left []*value) {
	if v.constant != nil && f.isa == avx512 {
		return f.constantOperand(*v.constant), ".BCST", nil
	}
	return f.v(f.read(v)), "", []*value{v}
}

// emitBinary emits v = a ∘ b.
func (f *formula) emitBinary(v *value) {
	a, b := v.arguments[0], v.arguments[1]
	x := f.read(a)
	if f.architecture == arm64 {
		y := f.read(b)
		f.release(a, b)
		v.register = f.allocate()
		f.vector(v.operation, x, y, v.register)
		return
	}
	y, suffix, left := f.source(b)
	f.release(append(left, a)...)
	v.register = f.allocate()
	f.assembler.op("%s%s %s, %s, %s", f.typed(vectorInstructions[v.operation].amd64), suffix, y, f.v(x), f.v(v.register))
}

// emitMultiplyAdd emits v = c ± a·b. The instruction overwrites c or, on amd64, the factor a.
func (f *formula) emitMultiplyAdd(v *value) {
	a, b, c := v.arguments[0], v.arguments[1], v.arguments[2]
	if b.constant != nil || !overwrites(a) && overwrites(b) {
		a, b = b, a // prefer to overwrite a constant or a value that is not needed any more
	}
	name := vectorInstructions[v.operation].amd64
	if f.architecture == arm64 || overwrites(c) && c.constant == nil {
		v.register = f.overwrite(c)
		if f.architecture == arm64 {
			x, y := f.read(a), f.read(b)
			f.vector(v.operation, x, y, v.register)
			f.release(a, b)
			return
		}
		x := f.read(b)
		y, suffix, left := f.source(a)
		f.assembler.op("%s%s %s, %s, %s", f.typed(name), suffix, y, f.v(x), f.v(v.register))
		f.release(append(left, b)...)
		return
	}
	v.register = f.overwrite(a)
	x := f.read(b)
	y, suffix, left := f.source(c)
	f.assembler.op("%s%s %s, %s, %s", strings.Replace(f.typed(name), "231", "213", 1), suffix, y, f.v(x), f.v(v.register))
	f.release(append(left, b)...)
}

// overwrite returns a register that holds v and that the operation being emitted may overwrite: the register of v, if
// the operation is the last to read v, or else a copy. It releases v.
func (f *formula) overwrite(v *value) int {
	r := f.read(v)
	v.readers--
	if v.readers == 0 || v.constant != nil {
		return r
	}
	d := f.allocate()
	f.assembler.copy(r, d)
	return d
}

// emitChoose emits v = a where x < y, else b.
func (f *formula) emitChoose(v *value) {
	x, y, a, b := v.arguments[0], v.arguments[1], v.arguments[2], v.arguments[3]
	if f.isa == avx512 {
		const lessThan = 0x11 // the comparison is quiet, so NaN does not raise an exception
		s, suffix, left := f.source(y)
		f.assembler.op("%s%s $%d, %s, %s, K2", f.typed("VCMPPS"), suffix, lessThan, s, f.v(f.read(x)))
		f.release(append(left, x)...)
		r := f.read(b)
		s, suffix, left = f.source(a)
		f.release(append(left, b)...)
		v.register = f.allocate()
		f.assembler.op("%s%s %s, %s, K2, %s", f.typed("VBLENDMPS"), suffix, s, f.v(r), f.v(v.register))
		return
	}
	v.register = f.allocate()
	less := v.register // all bits are set in the elements where x < y
	if f.isa == avx2 {
		f.assembler.op("%s $17, %s, %s, %s", f.typed("VCMPPS"), f.v(f.read(y)), f.v(f.read(x)), f.v(less))
		f.release(x, y)
		f.assembler.op("%s %s, %s, %s, %s", f.typed("VBLENDVPS"), f.v(less), f.v(f.read(a)), f.v(f.read(b)), f.v(v.register))
	} else {
		f.vector("greater", f.read(y), f.read(x), less)
		f.release(x, y)
		f.vector("select", f.read(a), f.read(b), v.register)
	}
	f.release(a, b)
}
