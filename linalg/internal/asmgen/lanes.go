package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// A kernel computes an elementwise function: for each vector of the operands, body
// leaves registers out to store.
type kernel struct {
	name    string   // of its number in Go
	doc     string   // what it computes
	outputs []string // fields of laneArgs that it writes
	inputs  []string // and reads
	scalars []string // those that are numbers
	body    func(w *lane)
}

// A lane is a writer inside a kernel: in[i] is the register of input i, scalar[i] of
// scalar i; the body says in out[i] which register holds output i.
type lane struct {
	*writer
	operations
	in, scalar, out []int
	next            int // the next register that is free
	constants       *[]uint32
}

// operations on the lanes of registers: x86Lane's and neonLane's. Each takes the
// destination d first.
type operations interface {
	vec(op string, d, a, b int)                     // d = a ∘ b; fma and fms are d ± a·b; max and min are NaN if b is
	vecConst(op string, d, a int, c float64)        // d = a ∘ c, for a constant
	vecBits(op string, d, a int, bits uint32)       // the same for a constant's bits
	horner(c, x, d int)                             // d = d·x + c
	hornerConst(c float64, x, d int)                // the same for a constant
	unary(op string, d, a int)                      // d = f(a); round is to the nearest whole number, to even from between
	shift(op string, d, a, n int)                   // d = a shifted by n bits, to the right with the sign
	set(c float64, d int)                           // d = c
	setBits(bits uint32, d int)                     // the same for its bits
	choose(p predicate, x int, c float64, a, d int) // d = a where x, compared with c, is as p says
	chooseNegative(x, a, d int)                     // d = a where the sign of x is set
}

// A predicate compares numbers.
type predicate int

const (
	lessThan predicate = iota
	equal
	greaterOrEq
	notGreaterOrEq // not a number is, too
)

var s, y, a, ab, abc = []string{"s"}, []string{"y"}, []string{"a"}, []string{"a", "b"}, []string{"a", "b", "c"}

// kernels lists the kernels in the order of their numbers.
var kernels = []kernel{
	{"laneAdd", "y = a + b", y, ab, nil, func(w *lane) { w.binary("add") }},
	{"laneSub", "y = a − b", y, ab, nil, func(w *lane) { w.binary("sub") }},
	{"laneMul", "y = a·b", y, ab, nil, func(w *lane) { w.binary("mul") }},
	{"laneDiv", "y = a/b", y, ab, nil, func(w *lane) { w.binary("div") }},
	{"laneMulAdd", "y = a·b + c", y, abc, nil, func(w *lane) {
		w.vec("fma", w.in[2], w.in[0], w.in[1])
		w.out[0] = w.in[2]
	}},
	{"laneScale", "y = s·a", y, a, s, func(w *lane) { w.withScalar("mul") }},
	{"laneAddConst", "y = a + s", y, a, s, func(w *lane) { w.withScalar("add") }},
	{"laneExp", "y = eᵃ", y, a, nil, func(w *lane) { w.out[0] = w.exp(w.in[0], true) }},
	{"laneLog", "y = log a", y, a, nil, func(w *lane) { w.out[0] = w.log(w.in[0]) }},
	{"laneTanh", "y = tanh a", y, a, nil, func(w *lane) { w.out[0] = w.tanh(w.in[0]) }},
	{"laneSigmoid", "y = 1/(1 + e⁻ᵃ)", y, a, nil, func(w *lane) {
		w.out[0] = w.sigmoid(w.in[0], w.expOfMinusAbs(w.in[0]))
	}},
	{"laneSoftplus", "y = log(1 + eᵃ)", y, a, nil, func(w *lane) {
		w.out[0] = w.softplus(w.in[0], w.expOfMinusAbs(w.in[0]))
	}},
	{"laneSoftplusSigmoid", "y = log(1 + eᵃ), b = 1/(1 + e⁻ᵃ)", []string{"y", "b"}, a, nil, func(w *lane) {
		e := w.expOfMinusAbs(w.in[0])
		w.out[1] = w.sigmoid(w.in[0], e)
		w.out[0] = w.softplus(w.in[0], e)
	}},
	{"laneSigmoidGradient", "y = a ⊙ (b − b²)", y, ab, nil, func(w *lane) {
		y := w.register()
		w.unary("move", y, w.in[1])
		w.vec("fms", y, w.in[1], w.in[1])
		w.vec("mul", y, y, w.in[0])
		w.out[0] = y
	}},
	{"laneAdamax", "a step of Adamax: parameters y, gradient a, averages b and c", []string{"y", "b", "c"}, []string{"y", "b", "c", "a"}, []string{"beta1", "rest1", "beta2", "rate", "epsilon"}, (*lane).adamax},
}

// registers are those of the operands, in order.
var registers = []string{"R8", "R9", "R10", "R11"}

// numbers returns the Go file of the numbers of the kernels.
func numbers() string {
	var b strings.Builder
	list := func(doc, last string, names, docs []string) {
		fmt.Fprintf(&b, "// %s\nconst (\n", doc)
		for i, name := range names {
			iota := ""
			if i == 0 {
				iota = " = iota"
			}
			fmt.Fprintf(&b, "%s%s // %s\n", name, iota, docs[i])
		}
		fmt.Fprintf(&b, "%s // how many there are\n)\n\n", last)
	}
	var names, docs []string
	for _, k := range kernels {
		names, docs = append(names, k.name), append(docs, k.doc)
	}
	list("Numbers of the elementwise kernels.", "laneKernels", names, docs)
	names, docs = nil, nil
	for _, k := range append(rowKernels, dotKernels...) {
		names, docs = append(names, k.name), append(docs, k.doc)
	}
	list("Numbers of the kernels on rows of float64.", "rowKernels", names, docs)
	return goFile("kernel", "", b.String())
}

// lanes returns the file of the elementwise kernels.
func lanes() string {
	var w writer
	w.header("Elementwise kernels; see lanes.go and laneArgs. In each of them:",
		"",
		"	R8-R11      the operands",
		"	AX, CX      elements done, elements left after this vector",
		"	K1, Y15     the lanes that are elements, in the last vector",
		"	Y14         a constant, for AVX2")
	var constants []uint32
	t := &table{door: "lane", args: "laneArgs", perLevel: "laneKernels", kernels: make([]string, len(kernels))}
	for _, w.isa = range []isa{avx2, avx512} { // in the order of levels
		for _, k := range kernels {
			w.lane(k, &constants)
			t.add(k.name + w.name)
		}
	}
	w.maskData()
	for _, c := range constants {
		fmt.Fprintf(&w, "\nDATA %s/4, $0x%08x // %v\nGLOBL %s, NOPTR|RODATA, $4\n", constant(c, 0), c, math.Float32frombits(c), strings.TrimSuffix(constant(c, -1), "+"))
	}
	w.writeTable(t)
	return w.String()
}

// lane writes a kernel: a loop over vectors of which the last may be part of one. Loads and
// stores of that one are apart, for masked stores are slow to read again; what lies between
// is the same code.
func (w *writer) lane(k kernel, constants *[]uint32) {
	fmt.Fprintf(w, "\n// %s\n", k.doc)
	w.local(k.name + w.name)
	args := k.pointers()
	for i, arg := range args {
		w.op("MOVQ laneArgs_%s(DI), %s", arg, registers[i])
	}
	w.op("MOVQ laneArgs_n(DI), CX")
	l := &lane{writer: w, constants: constants}
	l.operations = x86Lane{l}
	for _, s := range k.scalars {
		r := l.register()
		w.op("VBROADCASTSS laneArgs_%s(DI), %s", s, w.v(r))
		l.scalar = append(l.scalar, r)
	}
	w.op("XORQ AX, AX")
	w.op("SUBQ $%d, CX", w.lanes)
	w.op("JLT part")
	w.label("loop")
	l.loads(k, args)
	w.label("compute")
	l.out = make([]int, len(k.outputs))
	k.body(l)
	w.op("TESTQ CX, CX")
	w.op("JLT storePart")
	l.stores(k, args)
	w.op("ADDQ $%d, AX", w.lanes)
	w.op("SUBQ $%d, CX", w.lanes)
	w.op("JGE loop")

	w.remark("What is left is part of a vector.")
	w.label("part")
	w.op("ADDQ $%d, CX", w.lanes)
	w.op("JZ done")
	w.setMask()
	w.masked = true
	l.loads(k, args)
	w.op("MOVQ $-1, CX")
	w.op("JMP compute")
	w.label("storePart")
	l.stores(k, args)
	w.masked = false
	w.label("done")
	w.op("VZEROUPPER")
	w.op("RET")
}

// pointers returns the operands, each once.
func (k kernel) pointers() []string {
	args := slices.Clone(k.outputs)
	for _, in := range k.inputs {
		if !slices.Contains(args, in) {
			args = append(args, in)
		}
	}
	return args
}

// mem returns where the vector of an operand is.
func mem(arg string, args []string) string {
	return fmt.Sprintf("(%s)(AX*4)", registers[slices.Index(args, arg)])
}

// loads fills the registers of the inputs.
func (w *lane) loads(k kernel, args []string) {
	w.in, w.next = nil, len(w.scalar)
	for _, in := range k.inputs {
		r := w.register()
		w.load(mem(in, args), r)
		w.in = append(w.in, r)
	}
}

// stores writes the outputs.
func (w *lane) stores(k kernel, args []string) {
	for i, out := range k.outputs {
		w.store(w.out[i], mem(out, args))
	}
}

// register returns a register that is free until the end of the vector. AVX2 keeps one
// for constants and one for the mask.
func (w *lane) register() int {
	w.next++
	if w.lanes == 8 && w.next > mask2-1 {
		panic("no register left")
	}
	return w.next - 1
}

// release gives back all registers from r on.
func (w *lane) release(r int) { w.next = r }

// scratch2 is the register of AVX2 for constants.
const scratch2 = 14

// constant names a word of constant data.
func constant(bits uint32, offset int) string {
	if offset < 0 {
		return fmt.Sprintf("k%08x<>(SB)", bits)
	}
	return fmt.Sprintf("k%08x<>+%d(SB)", bits, offset)
}

func (w *lane) constant(bits uint32) string {
	if !slices.Contains(*w.constants, bits) {
		*w.constants = append(*w.constants, bits)
	}
	return constant(bits, 0)
}

func (w *lane) binary(name string) {
	w.vec(name, w.in[0], w.in[0], w.in[1])
	w.out[0] = w.in[0]
}

func (w *lane) withScalar(name string) {
	w.vec(name, w.in[0], w.in[0], w.scalar[0])
	w.out[0] = w.in[0]
}

// adamax is a step of the optimiser (hvae's Adamax).
func (w *lane) adamax() {
	p, m, u, g := w.in[0], w.in[1], w.in[2], w.in[3]
	beta1, rest1, beta2, rate, epsilon := w.scalar[0], w.scalar[1], w.scalar[2], w.scalar[3], w.scalar[4]
	w.vec("mul", m, m, beta1)
	w.vec("fma", m, rest1, g)
	w.vec("mul", u, u, beta2)
	w.vecBits("and", g, g, 0x7fffffff)
	w.vec("max", u, u, g)
	w.vec("add", g, u, epsilon)
	w.vec("div", g, m, g)
	w.vec("fma", p, rate, g)
	copy(w.out, []int{p, m, u})
}
