package main

import (
	"fmt"
	"math"
	"strings"
)

// arm64Operations implements the interface operations for NEON. The emitted code loads constants from a table, whose
// address is in R7, into vector register neonConst. Vector register neonTemp holds intermediate results.
type arm64Operations struct{ *body }

const neonConst, neonTemp = 30, 31

// arm64Words contains the codes and names of instructions that Go's assembler lacks. arm64Instructions
// contains supported instructions, as formats for fmt.Sprintf.
var (
	arm64Words = map[operation]struct {
		code uint32
		name string
	}{
		add: {0x4e20d400, "fadd"}, mul: {0x6e20dc00, "fmul"}, div: {0x6e20fc00, "fdiv"},
		toInt: {0x4e21a800, "fcvtns"}, round: {0x4e218800, "frintn"},
	}
	arm64Instructions = map[operation]string{
		fma: "VFMLA %s.S4, %s.S4, %s.S4", fms: "VFMLS %s.S4, %s.S4, %s.S4",
		addInt: "VADD %s.S4, %s.S4, %s.S4", and: "VAND %s.B16, %s.B16, %s.B16", or: "VORR %s.B16, %s.B16, %s.B16",
	}
)

func (w arm64Operations) binary(op operation, d, a, b int) {
	if i, ok := arm64Words[op]; ok {
		w.registers3(i.code, i.name, "4s", d, a, b)
		return
	}
	if op == maximum { // the instruction fmax would return NaN if a is NaN
		w.greater(a, b)
		if d == a {
			w.op("VBIF V%d.B16, V%d.B16, V%d.B16", neonTemp, b, d)
			return
		}
		if d != b {
			w.unary(move, d, b)
		}
		w.op("VBIT V%d.B16, V%d.B16, V%d.B16", neonTemp, a, d)
		return
	}
	w.op(arm64Instructions[op], w.v(b), w.v(a), w.v(d))
}

func (w arm64Operations) binaryBits(op operation, d, a int, bits uint32) {
	w.setBits(bits, neonConst)
	w.binary(op, d, a, neonConst)
}

func (w arm64Operations) horner(c float64, x, d int) {
	w.set(c, neonTemp)
	w.binary(fma, neonTemp, d, x)
	w.unary(move, d, neonTemp)
}

func (w arm64Operations) unary(op operation, d, a int) {
	if op == move {
		w.op("VMOV %s.B16, %s.B16", w.v(a), w.v(d))
		return
	}
	i := arm64Words[op]
	w.word(i.code|uint32(a)<<5|uint32(d), "%s v%d.4s, v%d.4s", i.name, d, a)
}

func (w arm64Operations) shiftLeft(d, a, n int) { w.op("VSHL $%d, %s.S4, %s.S4", n, w.v(a), w.v(d)) }

func (w arm64Operations) setBits(bits uint32, d int) {
	w.op("FMOVQ %d(R7), F%d", 16*w.constant(bits), d)
}

// greater emits code that sets all bits of neonTemp in the lanes where a > b, and clears the bits of the other lanes.
func (w arm64Operations) greater(a, b int) { w.registers3(0x6ea0e400, "fcmgt", "4s", neonTemp, a, b) }

func (w arm64Operations) chooseLess(x int, c float64, a, d int) {
	w.set(c, neonConst)
	w.greater(neonConst, x)
	w.op("VBIT V%d.B16, V%d.B16, V%d.B16", neonTemp, a, d)
}

func (w arm64Operations) chooseNegative(x, a, d int) {
	const n = 31 // copies the sign bit to all bits
	w.word(0x4f000400|uint32(64-n)<<16|uint32(x)<<5|neonTemp, "sshr v%d.4s, v%d.4s, #%d", neonTemp, x, n)
	w.op("VBIT V%d.B16, V%d.B16, V%d.B16", neonTemp, a, d)
}

// arm64Elementwise returns the assembly file with the elementwise kernels.
func arm64Elementwise() string {
	w := newFile(neon, "elementwise", `These kernels compute elementwise functions; see elementwise.go and elementwiseArgs. They use these registers:

	R0        address of the arguments
	R1-R4     addresses of the operands
	R5, R6    number of bytes done, number of elements left after this vector
	R7        address of the table of constants
	V30, V31  a constant, an intermediate result`)
	for _, k := range elementwiseKernels {
		w.arm64ElementwiseKernel(k)
	}
	w.WriteByte('\n')
	for i, bits := range w.constants {
		fmt.Fprintf(w, "DATA constants<>+%d(SB)/8, $0x%08[2]x%08[2]x // %v\n", 16*i, bits, math.Float32frombits(bits))
		fmt.Fprintf(w, "DATA constants<>+%d(SB)/8, $0x%08[2]x%08[2]x\n", 16*i+8, bits)
	}
	fmt.Fprintf(w, "GLOBL constants<>(SB), NOPTR|RODATA, $%d\n", 16*len(w.constants))
	return w.finish()
}

// arm64ElementwiseKernel emits a kernel with a loop over vectors and a loop over the last elements. Both loops use the
// same arithmetic code, but each has its own loads and stores.
func (w *writer) arm64ElementwiseKernel(k elementwiseKernel) {
	w.begin(k.name+w.name, "%s", k.doc)
	operands := k.operands()
	for i, name := range operands {
		w.loadArgs(fmt.Sprintf("%c R%d", name, 1+i))
	}
	w.loadArgs("n R6")
	w.op("MOVD $constants<>(SB), R7")
	b := &body{writer: w}
	b.operations = arm64Operations{b}
	for _, s := range k.scalars {
		r := b.register()
		w.op("ADD $elementwiseArgs_%s, R0, R8; VLD1R (R8), [V%d.S4]", s, r)
		b.scalar = append(b.scalar, r)
	}
	base := func(name rune) int { return 1 + strings.IndexRune(operands, name) }
	w.op("MOVD $0, R5")
	w.op("SUBS $4, R6; BLT partial")
	w.label("loop")
	b.loadOperands(k, func(name rune, r int) { w.loadQ(r, base(name), 5) })
	w.label("compute")
	outputs := k.body(b)
	store := func(store func(v, base int)) {
		for i, name := range k.outputs {
			store(outputs[i], base(name))
		}
	}
	w.op("TBNZ $63, R6, storeElement")
	store(func(v, base int) { w.storeQ(v, base, 5) })
	w.op("ADD $16, R5")
	w.op("SUBS $4, R6; BGE loop")
	w.comment("Compute the last elements, at most three, one by one. R6 is the number of elements left minus 4.")
	w.label("partial")
	w.op("CMP $-4, R6; BEQ done")
	b.loadOperands(k, func(name rune, r int) { w.op("FMOVS (R%d)(R5), F%d", base(name), r) })
	w.op("JMP compute")
	w.label("storeElement")
	store(func(v, base int) { w.op("FMOVS F%d, (R%d)(R5)", v, base) })
	w.op("ADD $4, R5; SUB $1, R6; JMP partial")
	w.label("done")
	w.op("RET")
}
