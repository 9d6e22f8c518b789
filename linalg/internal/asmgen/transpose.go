package main

import "fmt"

// transpose returns the file of the kernels that transpose.
func transpose() string {
	var w writer
	w.header("Transposition; see linalg's transposeTiles.")
	for _, w.isa = range []isa{avx512, avx2} {
		w.transpose()
	}
	return w.String()
}

// transpose writes the kernel for bands of as many rows as a register has lanes. It takes
// four columns at a time: of each row they are a quarter of a register for 16 lanes, half of
// one for eight. The first register takes rows 0, 4, 8 and 12, the second rows 1, 5, 9 and
// 13, and so on; then only four by four are left to transpose, within the quarters of four
// registers, which become whole rows of dst.
func (w *writer) transpose() {
	name := fmt.Sprintf("transpose%d", w.lanes)
	fmt.Fprintf(w, "\n// func %s(dst, src *float32, dstRow, srcRow, bands, quads, blocks, block int)\n", name)
	fmt.Fprintf(w, "TEXT ·%s(SB), NOSPLIT, $0-64\n", name)
	w.op("MOVQ dstRow+16(FP), DX")
	w.op("MOVQ srcRow+24(FP), R8")
	w.odd(rowStrides, 8)
	w.label("block")
	w.op("MOVQ dst+0(FP), R13")
	w.op("MOVQ src+8(FP), R12")
	w.op("MOVQ bands+32(FP), R14")
	w.label("band")
	w.op("MOVQ R13, DI")
	w.op("MOVQ R12, SI")
	w.op("LEAQ (SI)(R8*8), R15")
	w.op("MOVQ quads+40(FP), CX")
	w.label("quad")
	row := func(i int) string {
		if i < 8 {
			return at("SI", i, rowStrides)
		}
		return at("R15", i-8, rowStrides)
	}
	for i := range 4 {
		w.op("VMOVUPS %s, X%d", row(i), i)
		for quarter := 1; quarter < w.lanes/4; quarter++ {
			w.insert(quarter, row(i+4*quarter), i)
		}
	}
	for i := range 2 { // pairs of rows
		w.op("VUNPCKLPS %s, %s, %s", w.v(2*i+1), w.v(2*i), w.v(4+2*i))
		w.op("VUNPCKHPS %s, %s, %s", w.v(2*i+1), w.v(2*i), w.v(5+2*i))
	}
	for i := range 2 { // pairs of pairs
		w.op("VSHUFPS $0x44, %s, %s, %s", w.v(6+i), w.v(4+i), w.v(2*i))
		w.op("VSHUFPS $0xee, %s, %s, %s", w.v(6+i), w.v(4+i), w.v(2*i+1))
	}
	for i := range 4 {
		w.store(i, "(DI)")
		w.op("ADDQ DX, DI")
	}
	w.op("ADDQ $16, SI")
	w.op("ADDQ $16, R15")
	w.op("DECQ CX")
	w.op("JNZ quad")
	w.op("ADDQ $%d, R13", 4*w.lanes)
	for range w.lanes / 8 {
		w.op("LEAQ (R12)(R8*8), R12")
	}
	w.op("DECQ R14")
	w.op("JNZ band")
	w.op("MOVQ block+56(FP), AX")
	w.op("ADDQ AX, dst+0(FP)")
	w.op("ADDQ AX, src+8(FP)")
	w.op("DECQ blocks+48(FP)")
	w.op("JNZ block")
	w.op("VZEROUPPER")
	w.op("RET")
}
