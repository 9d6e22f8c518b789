package main

import (
	"fmt"
	"math"
	"strings"
)

// amd64Operations implements the interface operations for AVX2 and AVX-512.
type amd64Operations struct{ *body }

// amd64Names contains the names of instructions. For AVX-512, the names in avx512Names take precedence.
var (
	amd64Names = map[operation]string{
		add: "VADDPS", mul: "VMULPS", div: "VDIVPS", maximum: "VMAXPS", fma: "VFMADD231PS", fms: "VFNMADD231PS",
		addInt: "VPADDD", and: "VPAND", or: "VPOR", move: "VMOVAPS", round: "VROUNDPS $8,", toInt: "VCVTPS2DQ",
	}
	avx512Names = map[operation]string{and: "VPANDD", or: "VPORD", round: "VRNDSCALEPS $8,"}
)

func (w amd64Operations) instruction(op operation) string {
	if name, ok := avx512Names[op]; ok && w.isa == avx512 {
		return name
	}
	return amd64Names[op]
}

func (w amd64Operations) binary(op operation, d, a, b int) {
	if op == fma || op == fms {
		a, b = b, a
	}
	w.op("%s %s, %s, %s", w.instruction(op), w.v(b), w.v(a), w.v(d))
}

func (w amd64Operations) binaryBits(op operation, d, a int, bits uint32) {
	w.withConstant(w.instruction(op), bits, a, d)
}

func (w amd64Operations) horner(c float64, x, d int) {
	w.withConstant("VFMADD213PS", bitsOf(c), x, d)
}

// withConstant emits the given instruction with destination d. The sources are register a and the
// constant with the given bits.
func (w amd64Operations) withConstant(instruction string, bits uint32, a, d int) {
	if w.isa == avx512 {
		w.op("%s.BCST %s, %s, %s", instruction, w.address(bits), w.v(a), w.v(d))
		return
	}
	w.setBits(bits, avx2Const)
	w.op("%s %s, %s, %s", instruction, w.v(avx2Const), w.v(a), w.v(d))
}

func (w amd64Operations) unary(op operation, d, a int) {
	w.op("%s %s, %s", w.instruction(op), w.v(a), w.v(d))
}

func (w amd64Operations) shiftLeft(d, a, n int) { w.op("VPSLLD $%d, %s, %s", n, w.v(a), w.v(d)) }

func (w amd64Operations) setBits(bits uint32, d int) {
	w.op("VBROADCASTSS %s, %s", w.address(bits), w.v(d))
}

// address returns the assembly operand for the constant with the given bits. It adds the constant to w.constants.
func (w amd64Operations) address(bits uint32) string {
	w.constant(bits)
	return fmt.Sprintf("k%08x<>+0(SB)", bits)
}

func (w amd64Operations) chooseLess(x int, c float64, a, d int) {
	const lessThan = 0x11 // the comparison is quiet, so NaN does not raise an exception
	if w.isa == avx512 {
		w.op("VCMPPS.BCST $%d, %s, %s, K2", lessThan, w.address(bitsOf(c)), w.v(x))
		w.op("VMOVAPS %s, K2, %s", w.v(a), w.v(d))
		return
	}
	w.set(c, avx2Const)
	w.op("VCMPPS $%d, %s, %s, %s", lessThan, w.v(avx2Const), w.v(x), w.v(avx2Const))
	w.op("VBLENDVPS %s, %s, %s, %s", w.v(avx2Const), w.v(a), w.v(d), w.v(d))
}

func (w amd64Operations) chooseNegative(x, a, d int) {
	if w.isa == avx512 {
		w.op("VPMOVD2M %s, K2", w.v(x))
		w.op("VMOVAPS %s, K2, %s", w.v(a), w.v(d))
		return
	}
	w.op("VBLENDVPS %s, %s, %s, %s", w.v(x), w.v(a), w.v(d), w.v(d))
}

// amd64Elementwise returns the assembly file with the elementwise kernels.
func amd64Elementwise() string {
	w := newFile(avx2, "elementwise", `These kernels compute elementwise functions; see elementwise.go and elementwiseArgs. They use these registers:

	DI          address of the arguments
	R8-R11      addresses of the operands
	AX, CX      number of elements done, number of elements left after this vector
	K1, Y15     mask of the last vector (K1 with AVX-512, Y15 with AVX2)
	Y14         a constant (AVX2 only)`)
	for _, w.isa = range amd64 {
		for _, k := range elementwiseKernels {
			w.amd64ElementwiseKernel(k)
		}
	}
	w.maskData()
	for _, bits := range w.constants {
		fmt.Fprintf(w, "\nDATA k%08x<>+0(SB)/4, $0x%08[1]x // %v\nGLOBL k%08[1]x<>(SB), NOPTR|RODATA, $4\n", bits, math.Float32frombits(bits))
	}
	return w.finish()
}

// amd64ElementwiseKernel emits a kernel that loops over vectors. The last vector may be partial. The arithmetic code is
// the same for full and partial vectors, but loads and stores are separate, because masked stores delay later loads.
func (w *writer) amd64ElementwiseKernel(k elementwiseKernel) {
	w.begin(k.name+w.name, "%s", k.doc)
	operands := k.operands()
	for i, name := range operands {
		w.loadArgs(fmt.Sprintf("%c R%d", name, 8+i))
	}
	w.loadArgs("n CX")
	b := &body{writer: w}
	b.operations = amd64Operations{b}
	for _, s := range k.scalars {
		r := b.register()
		w.op("VBROADCASTSS %s, %s", w.arg(s), w.v(r))
		b.scalar = append(b.scalar, r)
	}
	address := func(name rune) string { return fmt.Sprintf("(R%d)(AX*4)", 8+strings.IndexRune(operands, name)) }
	load := func(name rune, r int) { w.load(address(name), r) }
	w.op("XORQ AX, AX")
	w.op("SUBQ $%d, CX; JLT partial", w.lanes)
	w.label("loop")
	b.loadOperands(k, load)
	w.label("compute")
	outputs := k.body(b)
	store := func() {
		for i, name := range k.outputs {
			w.store(outputs[i], address(name))
		}
	}
	w.op("TESTQ CX, CX; JLT storePartial")
	store()
	w.op("ADDQ $%d, AX", w.lanes)
	w.op("SUBQ $%d, CX; JGE loop", w.lanes)

	w.comment("The last vector is partial.")
	w.label("partial")
	w.op("ADDQ $%d, CX; JZ done", w.lanes)
	w.setMask()
	w.masked = true
	b.loadOperands(k, load)
	w.op("MOVQ $-1, CX; JMP compute")
	w.label("storePartial")
	store()
	w.masked = false
	w.label("done")
	w.op("VZEROUPPER; RET")
}
