package main

// transpose returns the file of the kernel that transposes tiles of 8×8, with AVX2 for
// all: it moves data, and wider registers would only move the same lines.
func transpose() string {
	w := writer{isa: avx2}
	w.header("Transposition; see linalg's transposeTiles.")
	w.WriteString("\n// func transpose8(dst, src *float32, dstRow, srcRow, tiles int)\nTEXT ·transpose8(SB), NOSPLIT, $0-40\n")
	w.op("MOVQ dst+0(FP), DI")
	w.op("MOVQ src+8(FP), SI")
	w.op("MOVQ dstRow+16(FP), DX")
	w.op("MOVQ srcRow+24(FP), R8")
	w.op("MOVQ tiles+32(FP), CX")
	w.odd(rowStrides, 8)
	w.label("loop")
	for i := range 8 {
		w.op("VMOVUPS %s, %s", at("SI", i, rowStrides), w.v(i))
	}
	// Pairs of rows, then pairs of pairs, within halves of a register; then the halves.
	for i := range 4 {
		w.op("VUNPCKLPS %s, %s, %s", w.v(2*i+1), w.v(2*i), w.v(8+2*i))
		w.op("VUNPCKHPS %s, %s, %s", w.v(2*i+1), w.v(2*i), w.v(8+2*i+1))
	}
	for half := range 2 {
		for i := range 2 { // of unpacked low and high
			a, b := 8+4*half+i, 8+4*half+2+i
			w.op("VSHUFPS $0x44, %s, %s, %s", w.v(b), w.v(a), w.v(4*half+2*i))
			w.op("VSHUFPS $0xee, %s, %s, %s", w.v(b), w.v(a), w.v(4*half+2*i+1))
		}
	}
	for i := range 4 {
		w.op("VPERM2F128 $0x20, %s, %s, %s", w.v(4+i), w.v(i), w.v(8+i))
		w.op("VPERM2F128 $0x31, %s, %s, %s", w.v(4+i), w.v(i), w.v(12+i))
	}
	w.op("MOVQ DI, BX")
	for i := range 8 {
		w.op("VMOVUPS %s, (BX)", w.v(8+i))
		if i < 7 {
			w.op("ADDQ DX, BX")
		}
	}
	w.op("ADDQ $32, SI")
	w.op("LEAQ (DI)(DX*8), DI")
	w.op("DECQ CX")
	w.op("JNZ loop")
	w.op("VZEROUPPER")
	w.op("RET")
	return w.String()
}
