package main

import "fmt"

// avx2Const and avx2Mask are the numbers of two reserved AVX2 registers. The first holds constants in elementwise
// kernels. The second holds the mask that selects the lanes of a partial vector. With AVX-512, the mask is in K1.
const avx2Const, avx2Mask = 14, 15

// setMask emits code that sets the mask to the first n lanes, where n is the value of register CX. The
// code overwrites BX and CX.
func (w *writer) setMask() {
	if w.isa == avx512 {
		w.op("MOVL $-1, BX; BZHIL CX, BX, BX; KMOVW BX, K1")
		return
	}
	w.op("SHLQ $2, CX")
	w.op("LEAQ ones<>+32(SB), BX") // address of the first zero in the table that maskData writes
	w.op("SUBQ CX, BX")
	w.op("VMOVDQU (BX), %s", w.v(avx2Mask))
}

// maskData emits a table from which AVX2 kernels load masks. The table contains eight 32-bit words whose
// bits are all 1, then eight words of zeros.
func (w *writer) maskData() {
	w.WriteByte('\n')
	for i := range 8 {
		fmt.Fprintf(w, "DATA ones<>+%d(SB)/8, $%s\n", 8*i, [...]string{"0xffffffffffffffff", "0"}[i/4])
	}
	w.WriteString("GLOBL ones<>(SB), NOPTR|RODATA, $64\n")
}

// load emits an instruction that loads vector register r from the address mem. If w.masked is set,
// lanes outside the mask become zero.
func (w *writer) load(mem string, r int) {
	switch {
	case !w.masked:
		w.op("VMOVUPS %s, %s", mem, w.v(r))
	case w.isa == avx512:
		w.op("VMOVUPS.Z %s, K1, %s", mem, w.v(r))
	default:
		w.op("VMASKMOVPS %s, %s, %s", mem, w.v(avx2Mask), w.v(r))
	}
}

// store emits an instruction that stores vector register r at the address mem. If w.masked is set, it
// stores only the lanes in the mask.
func (w *writer) store(r int, mem string) {
	switch {
	case !w.masked:
		w.op("VMOVUPS %s, %s", w.v(r), mem)
	case w.isa == avx512:
		w.op("VMOVUPS %s, K1, %s", w.v(r), mem)
	default:
		w.op("VMASKMOVPS %s, %s, %s", w.v(r), w.v(avx2Mask), mem)
	}
}

// fourLanes contains the suffixes of the instructions that insert or extract four lanes of a vector,
// such as F128 in VINSERTF128.
var fourLanes = map[*isa]string{avx2: "F128", avx512: "F32X4"}

// insert emits an instruction that loads lanes 4·part to 4·part + 3 of vector register r from the
// address mem. The other lanes keep their values.
func (w *writer) insert(part int, mem string, r int) {
	w.op("VINSERT%s $%d, %s, %s, %s", fourLanes[w.isa], part, mem, w.v(r), w.v(r))
}

// zero emits an instruction that sets vector register r to zero.
func (w *writer) zero(r int) {
	formats := map[*isa]string{avx512: "VPXORD %s, %[1]s, %[1]s", avx2: "VXORPS %s, %[1]s, %[1]s", neon: "VEOR %s.B16, %[1]s.B16, %[1]s.B16"}
	w.op(formats[w.isa], w.v(r))
}

// row returns the assembly operand for row i of a matrix, where i < 8. Register base contains the
// address of row 0, and registers R8 to R11 contain 1, 3, 5 and 7 times the row stride.
func row(base string, i int) string {
	return "(" + base + ")" + [...]string{"", "(R8*1)", "(R8*2)", "(R9*1)", "(R8*4)", "(R10*1)", "(R9*2)", "(R11*1)"}[i]
}

// multiplyStride emits code that sets R9, R10 and R11 to 3, 5 and 7 times R8. It sets only the
// registers that the function row uses for rows i < n.
func (w *writer) multiplyStride(n int) {
	if n > 3 {
		w.op("LEAQ (R8)(R8*2), R9")
	}
	if n > 5 {
		w.op("LEAQ (R8)(R8*4), R10")
	}
	if n > 7 {
		w.op("LEAQ (R9)(R8*4), R11")
	}
}

// amd64Peak returns the assembly file with the peak kernels, which measure the peak speed of multiply-adds.
func amd64Peak() string {
	w := newFile(avx2, "peak", "These kernels are loops of independent multiply-adds; see the function Peak in level.go.")
	for _, w.isa = range amd64 {
		w.begin("peak"+w.name, "CX is the number of rounds left.")
		w.loadArgs("rounds CX")
		factor := w.peakSums
		for i := range factor + 1 {
			w.zero(i)
		}
		w.label("loop")
		for i := range factor {
			w.op("VFMADD231PS %s, %s, %s", w.v(factor), w.v(factor), w.v(i))
		}
		w.op("DECQ CX; JNZ loop")
		w.op("VZEROUPPER; RET")
	}
	return w.finish()
}
