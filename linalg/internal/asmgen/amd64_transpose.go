package main

// amd64Transpose returns the assembly file with the transpose kernels.
func amd64Transpose() string {
	w := newFile(avx2, "transpose", `These kernels transpose matrices; see transpose.go and transposeArgs. They use these registers:

	DI          address of the arguments
	SI, R15     addresses of four columns of rows 0 and 8 of a band in src
	R8-R11      1, 3, 5 and 7 times the row stride of src
	AX, DX      address of a row of dst, row stride of dst
	CX, BX      numbers of quads and bands left
	R12, R13    addresses of the band in src and dst`)
	for _, w.isa = range amd64 {
		w.amd64TransposeKernel()
	}
	return w.finish()
}

// amd64TransposeKernel emits a kernel that transposes bands of n rows, where n is the number of
// lanes of a vector. The kernel processes four columns at a time. For i < 4, it loads these columns
// of rows i, i + 4, i + 8, … of the band into register i. After it has transposed the 4×4 blocks of
// the four registers, each register contains n elements of one row of dst.
func (w *writer) amd64TransposeKernel() {
	w.begin("transpose"+w.name, "The bands have %d rows.", w.lanes)
	w.loadArgs("dstRow DX", "srcRow R8")
	w.multiplyStride(8)
	w.label("matrix")
	w.loadArgs("done R12")
	w.op("MOVQ R12, R13; ADDQ %s, R13; ADDQ %s, R12", w.arg("dst"), w.arg("src"))
	w.loadArgs("bands BX")
	w.label("band")
	w.op("MOVQ R13, AX; MOVQ R12, SI; LEAQ (SI)(R8*8), R15")
	w.loadArgs("quads CX")
	w.label("quad")
	w.section("Load four columns of rows i, i + 4, i + 8, … of the band into register i.")
	for i := range 4 {
		w.op("VMOVUPS %s, X%d", row("SI", i), i)
		for part := 1; part < w.lanes/4; part++ {
			base, n := "SI", i+4*part
			if n >= 8 {
				base, n = "R15", n-8
			}
			w.insert(part, row(base, n), i)
		}
	}
	w.section("Transpose the 4×4 blocks.")
	for i := range 2 {
		w.op("VUNPCKLPS %s, %s, %s", w.v(2*i+1), w.v(2*i), w.v(4+2*i))
		w.op("VUNPCKHPS %s, %s, %s", w.v(2*i+1), w.v(2*i), w.v(5+2*i))
	}
	for i := range 2 {
		w.op("VSHUFPS $0x44, %s, %s, %s", w.v(6+i), w.v(4+i), w.v(2*i))
		w.op("VSHUFPS $0xee, %s, %s, %s", w.v(6+i), w.v(4+i), w.v(2*i+1))
	}
	w.section("Store four rows of dst.")
	for i := range 4 {
		w.store(i, "(AX)")
		w.op("ADDQ DX, AX")
	}
	w.op("ADDQ $16, SI; ADDQ $16, R15; DECQ CX; JNZ quad")
	w.section("Go to the next band, then to the next matrix.")
	w.op("ADDQ $%d, R13", 4*w.lanes)
	for range w.lanes / 8 {
		w.op("LEAQ (R12)(R8*8), R12")
	}
	w.op("DECQ BX; JNZ band")
	w.loadArgs("matrix AX")
	w.op("ADDQ AX, %s", w.arg("done"))
	w.op("DECQ %s; JNZ matrix", w.arg("matrices"))
	w.op("VZEROUPPER; RET")
}
