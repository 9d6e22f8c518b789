package main

import (
	"fmt"
	"go/format"
	"math"
	"slices"
	"strings"
)

// A kernel computes an elementwise function: for each vector of the operands, body
// leaves registers out to store.
type kernel struct {
	name    string   // of its Go declaration
	doc     string   // what it computes
	outputs []string // pointers to results, first
	inputs  []string
	scalars []string // float32 arguments, last
	body    func(w *lane)
}

// A lane is a writer inside a kernel: in[i] is the register of input i, scalar[i] of
// scalar i; the body says in out[i] which register holds output i. The pointer of an
// output can be read too, as input "y" say, if it is listed among the inputs.
type lane struct {
	*writer
	in, scalar, out []int
	next            int // the next register that is free
	constants       *[]uint32
}

// kernels lists the kernels in the order of the file.
var kernels = []kernel{
	{"vectorAdd", "y = a + b", []string{"y"}, []string{"a", "b"}, nil, func(w *lane) { w.binary("VADDPS") }},
	{"vectorSub", "y = a − b", []string{"y"}, []string{"a", "b"}, nil, func(w *lane) { w.binary("VSUBPS") }},
	{"vectorMul", "y = a·b", []string{"y"}, []string{"a", "b"}, nil, func(w *lane) { w.binary("VMULPS") }},
	{"vectorDiv", "y = a/b", []string{"y"}, []string{"a", "b"}, nil, func(w *lane) { w.binary("VDIVPS") }},
	{"vectorMulAdd", "y = a·b + c", []string{"y"}, []string{"a", "b", "c"}, nil, func(w *lane) {
		w.op("VFMADD231PS %s, %s, %s", w.v(w.in[0]), w.v(w.in[1]), w.v(w.in[2]))
		w.out[0] = w.in[2]
	}},
	{"vectorAddScaled", "y = a + s·b", []string{"y"}, []string{"a", "b"}, []string{"s"}, func(w *lane) {
		w.op("VFMADD231PS %s, %s, %s", w.v(w.scalar[0]), w.v(w.in[1]), w.v(w.in[0]))
		w.out[0] = w.in[0]
	}},
	{"vectorScale", "y = s·a", []string{"y"}, []string{"a"}, []string{"s"}, func(w *lane) { w.withScalar("VMULPS") }},
	{"vectorAddConst", "y = a + s", []string{"y"}, []string{"a"}, []string{"s"}, func(w *lane) { w.withScalar("VADDPS") }},
	{"vectorSqrt", "y = √a", []string{"y"}, []string{"a"}, nil, func(w *lane) {
		w.op("VSQRTPS %s, %s", w.v(w.in[0]), w.v(w.in[0]))
		w.out[0] = w.in[0]
	}},
	{"vectorExp", "y = eᵃ", []string{"y"}, []string{"a"}, nil, func(w *lane) { w.out[0] = w.exp(w.in[0], true) }},
	{"vectorLog", "y = log a", []string{"y"}, []string{"a"}, nil, func(w *lane) { w.out[0] = w.log(w.in[0]) }},
	{"vectorTanh", "y = tanh a", []string{"y"}, []string{"a"}, nil, func(w *lane) { w.out[0] = w.tanh(w.in[0]) }},
	{"vectorSigmoid", "y = 1/(1 + e⁻ᵃ)", []string{"y"}, []string{"a"}, nil, func(w *lane) {
		w.out[0] = w.sigmoid(w.in[0], w.expOfMinusAbs(w.in[0]))
	}},
	{"vectorSoftplus", "y = log(1 + eᵃ)", []string{"y"}, []string{"a"}, nil, func(w *lane) {
		w.out[0] = w.softplus(w.in[0], w.expOfMinusAbs(w.in[0]))
	}},
	{"vectorSoftplusSigmoid", "y = log(1 + eᵃ), s = 1/(1 + e⁻ᵃ)", []string{"y", "s"}, []string{"a"}, nil, func(w *lane) {
		e := w.expOfMinusAbs(w.in[0])
		w.out[1] = w.sigmoid(w.in[0], e)
		w.out[0] = w.softplus(w.in[0], e)
	}},
	{"vectorSigmoidSlope", "y = s − s²", []string{"y"}, []string{"s"}, nil, func(w *lane) { // s − s²
		y := w.register()
		w.op("VMOVAPS %s, %s", w.v(w.in[0]), w.v(y))
		w.op("VFNMADD231PS %s, %s, %s", w.v(w.in[0]), w.v(w.in[0]), w.v(y))
		w.out[0] = y
	}},
	{"vectorAdamax", "p, m and u to those after a step of Adamax with gradient grad", []string{"p", "m", "u"}, []string{"p", "m", "u", "grad"}, []string{"beta1", "rest1", "beta2", "rate", "epsilon"}, (*lane).adamax},
}

// registers are those of the operands, in order.
var registers = []string{"DI", "SI", "R8", "R9", "R10"}

// lanes returns the file of the elementwise kernels.
func lanes() string {
	var w writer
	var constants []uint32
	w.header("Elementwise kernels; see lanes_amd64.go.")
	for _, k := range kernels {
		args := k.pointers()
		frame := 8*len(args) + 8 + 4*len(k.scalars)
		for _, a := range []isa{avx512, avx2} {
			w.isa = a
			w.local(k.name, fmt.Sprint(frame))
			for i, arg := range args {
				w.op("MOVQ %s+%d(FP), %s", arg, 8*i, registers[i])
			}
			w.op("MOVQ n+%d(FP), CX", 8*len(args))
			l := lane{writer: &w, constants: &constants}
			for i, s := range k.scalars {
				r := l.register()
				w.op("VBROADCASTSS %s+%d(FP), %s", s, 8*len(args)+8+4*i, w.v(r))
				l.scalar = append(l.scalar, r)
			}
			w.op("XORQ AX, AX")
			w.label("loop")
			w.op("CMPQ CX, $%d", w.lanes)
			w.op("JLT tail")
			l.vector(k, args)
			w.op("ADDQ $%d, AX", w.lanes)
			w.op("SUBQ $%d, CX", w.lanes)
			w.op("JMP loop")
			w.label("tail")
			w.op("TESTQ CX, CX")
			w.op("JZ done")
			w.setMask()
			w.masked = true
			l.vector(k, args)
			w.masked = false
			w.label("done")
			w.op("VZEROUPPER")
			w.op("RET")
		}
		fmt.Fprintf(&w, "\n// func %s(%s)\nTEXT ·%s(SB), NOSPLIT, $0-%d\n", k.name, k.parameters(), k.name, frame)
		w.dispatch(k.name)
	}
	w.maskData()
	for _, c := range constants {
		fmt.Fprintf(&w, "\nDATA %s/4, $0x%08x // %v\nGLOBL %s, NOPTR|RODATA, $4\n", constant(c, 0), c, math.Float32frombits(c), strings.TrimSuffix(constant(c, -1), "+"))
	}
	return w.String()
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

// parameters returns the parameters of the Go declaration.
func (k kernel) parameters() string {
	p := strings.Join(k.pointers(), ", ") + " *float32, n int"
	if k.scalars != nil {
		p += ", " + strings.Join(k.scalars, ", ") + " float32"
	}
	return p
}

// declarations returns the Go declarations of the kernels, or where there are none, what
// stands for them.
func declarations(constraint string, stubs bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "// Code generated by linalg/internal/asmgen; DO NOT EDIT.\n\n//go:build %s\n\npackage linalg\n", constraint)
	for _, k := range kernels {
		fmt.Fprintf(&b, "\n// %s sets %s, for n elements.\n", k.name, k.doc)
		if stubs {
			fmt.Fprintf(&b, "func %s(%s) { panic(\"linalg: no vectors\") }\n", k.name, k.parameters())
			continue
		}
		fmt.Fprintf(&b, "//\n//go:noescape\nfunc %s(%s)\n", k.name, k.parameters())
	}
	text, err := format.Source([]byte(b.String()))
	if err != nil {
		panic(err)
	}
	return string(text)
}

// vector writes one pass of a kernel over a vector.
func (w *lane) vector(k kernel, args []string) {
	w.in, w.next = nil, len(w.scalar)
	w.out = make([]int, len(k.outputs))
	mem := func(arg string) string { return fmt.Sprintf("(%s)(AX*4)", registers[slices.Index(args, arg)]) }
	for _, in := range k.inputs {
		r := w.register()
		w.load(mem(in), r)
		w.in = append(w.in, r)
	}
	k.body(w)
	for i, out := range k.outputs {
		w.store(w.out[i], mem(out))
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

// with writes name c, a, d for a constant c.
func (w *lane) with(name string, c float64, a, d int) {
	w.withBits(name, math.Float32bits(float32(c)), a, d)
}

func (w *lane) withBits(name string, bits uint32, a, d int) {
	if w.lanes == 16 {
		w.op("%s.BCST %s, %s, %s", name, w.constant(bits), w.v(a), w.v(d))
		return
	}
	w.op("VBROADCASTSS %s, %s", w.constant(bits), w.v(scratch2))
	w.op("%s %s, %s, %s", name, w.v(scratch2), w.v(a), w.v(d))
}

// set fills register d with a constant.
func (w *lane) set(c float64, d int) { w.setBits(math.Float32bits(float32(c)), d) }

func (w *lane) setBits(bits uint32, d int) {
	w.op("VBROADCASTSS %s, %s", w.constant(bits), w.v(d))
}

func (w *lane) binary(name string) {
	w.op("%s %s, %s, %s", name, w.v(w.in[1]), w.v(w.in[0]), w.v(w.in[0]))
	w.out[0] = w.in[0]
}

func (w *lane) withScalar(name string) {
	w.op("%s %s, %s, %s", name, w.v(w.scalar[0]), w.v(w.in[0]), w.v(w.in[0]))
	w.out[0] = w.in[0]
}

// bitwise returns the name of a bitwise operation on words.
func (w *lane) bitwise(name string) string {
	if w.lanes == 16 {
		return name + "D"
	}
	return name
}

// Predicates of VCMPPS, quiet.
const (
	lessThan       = 0x11
	notGreaterOrEq = 0x19
	equal          = 0x00
	greaterOrEq    = 0x1d
)

// choose sets d to a in the lanes where x, compared with the constant, is as the
// predicate says.
func (w *lane) choose(predicate, x int, c float64, a, d int) {
	bits := math.Float32bits(float32(c))
	if w.lanes == 16 {
		w.op("VCMPPS.BCST $%d, %s, %s, K2", predicate, w.constant(bits), w.v(x))
		w.op("VMOVAPS %s, K2, %s", w.v(a), w.v(d))
		return
	}
	w.op("VBROADCASTSS %s, %s", w.constant(bits), w.v(scratch2))
	w.op("VCMPPS $%d, %s, %s, %s", predicate, w.v(scratch2), w.v(x), w.v(scratch2))
	w.op("VBLENDVPS %s, %s, %s, %s", w.v(scratch2), w.v(a), w.v(d), w.v(d))
}

// chooseNegative sets d to a in the lanes where the sign of x is set.
func (w *lane) chooseNegative(x, a, d int) {
	if w.lanes == 16 {
		w.op("VPMOVD2M %s, K2", w.v(x))
		w.op("VMOVAPS %s, K2, %s", w.v(a), w.v(d))
		return
	}
	w.op("VBLENDVPS %s, %s, %s, %s", w.v(x), w.v(a), w.v(d), w.v(d))
}

// adamax is a step of the optimiser (hvae's Adamax).
func (w *lane) adamax() {
	p, m, u, g := w.in[0], w.in[1], w.in[2], w.in[3]
	beta1, rest1, beta2, rate, epsilon := w.scalar[0], w.scalar[1], w.scalar[2], w.scalar[3], w.scalar[4]
	w.op("VMULPS %s, %s, %s", w.v(beta1), w.v(m), w.v(m))
	w.op("VFMADD231PS %s, %s, %s", w.v(rest1), w.v(g), w.v(m))
	w.op("VMULPS %s, %s, %s", w.v(beta2), w.v(u), w.v(u))
	w.withBits(w.bitwise("VPAND"), 0x7fffffff, g, g)
	w.op("VMAXPS %s, %s, %s", w.v(g), w.v(u), w.v(u))
	w.op("VADDPS %s, %s, %s", w.v(epsilon), w.v(u), w.v(g))
	w.op("VDIVPS %s, %s, %s", w.v(g), w.v(m), w.v(g))
	w.op("VFMADD231PS %s, %s, %s", w.v(rate), w.v(g), w.v(p))
	copy(w.out, []int{p, m, u})
}
