package main

import (
	"fmt"
	"strings"
)

// A formula is a sequence of operations on vectors. Its methods append operations, whose operands and results are
// values. The method emit assigns vector registers to the results of all operations and emits the code.
type formula struct {
	*assembler
	operations []*value
	used       []bool // used[r] reports whether register r holds a value
}

// A value is a vector: an operand of a kernel, a constant, or the result of an operation.
type value struct {
	operation string // name in the table vectorInstructions, "choose" or "shift"
	arguments []*value
	shift     int // number of bits for "shift"
	constant  *constant
	register  int // register that holds the value, or −1
	readers   int // number of uses of the value in operations that have not been emitted
}

// newFormula returns an empty formula. With AVX2, one register is reserved for the mask.
func newFormula(w *assembler) *formula {
	f := &formula{assembler: w, used: make([]bool, w.count)}
	if w.isa == avx2 {
		f.used[maskRegister] = true
	}
	return f
}

// loaded returns a value for a vector that the caller has loaded into a register. The argument readers is 1 if the
// register must still hold the vector after the whole formula has been computed, and 0 otherwise.
func (f *formula) loaded(register, readers int) *value {
	f.used[register] = true
	return &value{register: register, readers: readers}
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
func (f *formula) max(a, b *value) *value { return f.op("max", a, b) } // vectorInstructions describes NaN
func (f *formula) min(a, b *value) *value { return f.op("min", a, b) }
func (f *formula) and(a, b *value) *value { return f.op("and", a, b) }
func (f *formula) or(a, b *value) *value  { return f.op("or", a, b) }

// fma returns a·b + c, and fnma returns c − a·b, each rounded once.
func (f *formula) fma(a, b, c *value) *value  { return f.op("fma", a, b, c) }
func (f *formula) fnma(a, b, c *value) *value { return f.op("fnma", a, b, c) }

// addInt, subInt and shift operate on the bits of the elements as integers. The method shift moves the bits n places to
// the left or, if n is negative, −n places to the right.
func (f *formula) addInt(a, b *value) *value { return f.op("addInt", a, b) }
func (f *formula) subInt(a, b *value) *value { return f.op("subInt", a, b) }
func (f *formula) shift(a *value, n int) *value {
	return f.apply(&value{operation: "shift", arguments: []*value{a}, shift: n})
}

// choose returns the elements of a where x < y, and the elements of b elsewhere, including where x or y is NaN.
func (f *formula) choose(x, y, a, b *value) *value { return f.op("choose", x, y, a, b) }

// emit emits the code of all operations. It keeps each output in its register until the end.
func (f *formula) emit(outputs ...*value) {
	for _, v := range outputs {
		v.readers++
	}
	for _, v := range f.operations {
		a := v.arguments
		switch v.operation {
		case "fma", "fnma":
			f.emitMultiplyAdd(v, a[0], a[1], a[2])
		case "choose":
			f.emitChoose(v, a[0], a[1], a[2], a[3])
		case "shift":
			x := f.read(a[0])
			v.register = f.allocate()
			f.assembler.shift(x, v.shift, v.register)
		default:
			x := f.read(a[0])
			v.register = f.allocate()
			f.instruction(v.operation, "", x, a[1], v.register)
		}
		f.release(a)
	}
}

func (f *formula) allocate() int {
	for r, used := range f.used {
		if !used {
			f.used[r] = true
			return r
		}
	}
	panic(fmt.Sprintf("%s: no register left", f.name))
}

// read returns a register that holds v. If v is a constant, read emits code that loads it into a free register.
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

// release frees the registers of arguments that no later operation reads. It also frees the registers of constants,
// because each operation reloads its constants.
func (f *formula) release(arguments []*value) {
	for _, a := range arguments {
		a.readers--
		if a.register >= 0 && (a.readers == 0 || a.constant != nil) {
			f.used[a.register] = false
			a.register = -1
		}
	}
}

// instruction emits the instruction d = x ∘ y with the given name in the table vectorInstructions. On amd64, the
// mnemonic of a multiply-add in this table ends with the operand order 231. If the order must be another, such as 213,
// the caller passes it as form. With AVX-512, if y is a constant, the instruction reads it from memory.
func (f *formula) instruction(name, form string, x int, y *value, d int) {
	if f.architecture == arm64 {
		f.vector(name, x, f.read(y), d)
		return
	}
	mnemonic := strings.Replace(f.typed(vectorInstructions[name].amd64), "231", form, 1)
	if y.constant != nil && f.isa == avx512 {
		f.assembler.op("%s.BCST %s, %s, %s", mnemonic, f.constantOperand(*y.constant), f.v(x), f.v(d))
		return
	}
	f.assembler.op("%s %s, %s, %s", mnemonic, f.v(f.read(y)), f.v(x), f.v(d))
}

// overwrites reports whether the operation being emitted may overwrite the register of v. It may do so if it is the
// last operation that reads v, or if v is a constant, because each operation reloads its constants.
func overwrites(v *value) bool { return v.readers == 1 || v.constant != nil }

// overwrite returns a register that holds v and that the operation being emitted may overwrite. If overwrites(v) is
// true, this is v's own register; otherwise, it is another register, with a copy of v.
func (f *formula) overwrite(v *value) int {
	r := f.read(v)
	if overwrites(v) {
		v.register = -1
		return r
	}
	d := f.allocate()
	f.copy(r, d)
	return d
}

// emitMultiplyAdd emits v = c ± a·b. On arm64, the instruction overwrites c, or a copy of c if c is needed later. On
// amd64, it overwrites c or, if c is a constant or is needed later, a or b.
func (f *formula) emitMultiplyAdd(v, a, b, c *value) {
	if b.constant != nil || !overwrites(a) && overwrites(b) {
		a, b = b, a // prefer to overwrite a constant or a value that is not needed any more
	}
	if f.architecture == arm64 || overwrites(c) && c.constant == nil {
		v.register = f.overwrite(c)
		f.instruction(v.operation, "231", f.read(b), a, v.register)
		return
	}
	v.register = f.overwrite(a)
	f.instruction(v.operation, "213", f.read(b), c, v.register)
}

// emitChoose emits v = a in the elements where x < y, and v = b in all others.
func (f *formula) emitChoose(v, x, y, a, b *value) {
	for _, argument := range v.arguments {
		f.read(argument)
	}
	v.register = f.allocate()
	const lessThan = 0x11 // the comparison is quiet, so NaN does not raise an exception
	compare := fmt.Sprintf("%s $%d, %s, %s", f.typed("VCMPPS"), lessThan, f.v(y.register), f.v(x.register))
	chosen, d := f.v(a.register)+", "+f.v(b.register), f.v(v.register)
	switch f.isa {
	case avx512:
		f.assembler.op("%s, K2; %s %s, K2, %s", compare, f.typed("VBLENDMPS"), chosen, d)
	case avx2:
		f.assembler.op("%s, %s; %s %[2]s, %[4]s, %[2]s", compare, d, f.typed("VBLENDVPS"), chosen)
	default:
		f.vector("greater", y.register, x.register, v.register)
		f.vector("select", a.register, b.register, v.register)
	}
}
