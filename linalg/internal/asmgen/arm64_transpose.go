package main

// arm64Transpose returns the assembly file with the transpose kernel, which processes bands of four
// rows, four columns at a time.
func arm64Transpose() string {
	w := newFile(neon, "transpose", `This kernel transposes matrices; see transpose.go and transposeArgs. It uses these registers:

	R0          address of the arguments
	R1, R4-R6   address of four columns of row 0 of a band in src; 1, 2 and 3 times the row stride
	R2, R7-R9   address of a row of dst; 1, 2 and 3 times the row stride
	R10, R11    numbers of quads and bands left
	R12, R13    addresses of the band in src and dst`)
	w.begin("transposeNEON", "The bands have four rows.")
	w.loadArgs("srcRow R4")
	w.op("ADD R4, R4, R5; ADD R4, R5, R6")
	w.loadArgs("dstRow R7")
	w.op("ADD R7, R7, R8; ADD R7, R8, R9")
	w.label("matrix")
	w.loadArgs("done R3", "src R12")
	w.op("ADD R3, R12")
	w.loadArgs("dst R13")
	w.op("ADD R3, R13")
	w.loadArgs("bands R11")
	w.label("band")
	w.op("MOVD R12, R1; MOVD R13, R2")
	w.loadArgs("quads R10")
	w.label("quad")
	w.section("Transpose four columns of four rows.")
	for i, offset := range []int{0, 4, 5, 6} {
		w.loadQ(i, 1, offset)
	}
	for i := range 2 {
		w.op("VTRN1 V%d.S4, V%d.S4, V%d.S4", 2*i+1, 2*i, 4+2*i)
		w.op("VTRN2 V%d.S4, V%d.S4, V%d.S4", 2*i+1, 2*i, 5+2*i)
	}
	for i := range 2 {
		w.op("VTRN1 V%d.D2, V%d.D2, V%d.D2", 6+i, 4+i, i)
		w.op("VTRN2 V%d.D2, V%d.D2, V%d.D2", 6+i, 4+i, i+2)
	}
	w.section("Store four rows of dst.")
	for i, offset := range []int{0, 7, 8, 9} {
		w.storeQ(i, 2, offset)
	}
	w.op("ADD $16, R1; ADD R7<<2, R2; SUBS $1, R10; BNE quad")
	w.section("Go to the next band, then to the next matrix.")
	w.op("ADD R4<<2, R12; ADD $16, R13; SUBS $1, R11; BNE band")
	w.loadArgs("matrix R1")
	w.op("ADD R1, R3")
	w.op("MOVD R3, %s", w.arg("done"))
	w.loadArgs("matrices R1")
	w.op("SUBS $1, R1")
	w.op("MOVD R1, %s", w.arg("matrices"))
	w.op("BNE matrix")
	w.op("RET")
	return w.finish()
}
