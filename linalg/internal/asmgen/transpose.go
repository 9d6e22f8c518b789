package main

import (
	"fmt"
	"strings"
)

// bandNumbers returns the table of the kernels that transpose, and the Go text of their
// numbers: a level has those of narrower ones, too, for blocks of fewer rows.
func bandNumbers(sets []isa) (*table, string) {
	t := &table{door: "bands", args: "bandArgs"}
	var b strings.Builder
	b.WriteString("// bandKernels are the kernels of each level that transpose.\nvar bandKernels = [levels][]bandKernel{\n")
	var all []string
	for _, a := range sets {
		all = append(all, fmt.Sprintf("{%d, %d}", a.lanes, t.add("bands"+a.name)))
	}
	for i, a := range sets {
		fmt.Fprintf(&b, "level%s: {%s},\n", a.name, strings.Join(all[i:], ", "))
	}
	b.WriteString("}\n")
	return t, b.String()
}

// transpose returns the file of the kernels that transpose.
func transpose() string {
	var w writer
	w.header("Transposition; see transpose.go and bandArgs.")
	for _, w.isa = range x86 {
		w.transpose()
	}
	t, _ := bandNumbers(x86)
	w.writeTable(t)
	return w.String()
}

// transpose writes the kernel for bands of as many rows as a register has lanes. It takes
// four columns at a time: of each row they are a quarter of a register for 16 lanes, half of
// one for eight. The first register takes rows 0, 4, 8 and 12, the second rows 1, 5, 9 and
// 13, and so on; then only four by four are left to transpose, within the quarters of four
// registers, which become whole rows of dst.
func (w *writer) transpose() {
	arg := func(field string) string { return "bandArgs_" + field + "(DI)" }
	fmt.Fprintf(w, "\n// bands%s: SI reads a band, row i at 1, 3, 5 and 7 times R8 = R9-R11; AX writes it, rows DX\n// apart; CX, BX count quads and bands, R12, R13 are where the band began.\n", w.name)
	w.local("bands" + w.name)
	w.op("MOVQ %s, DX", arg("dstRow"))
	w.op("MOVQ %s, R8", arg("srcRow"))
	w.odd(rowStrides, 8)
	w.label("block")
	w.op("MOVQ %s, R12", arg("done"))
	w.op("MOVQ R12, R13")
	w.op("ADDQ %s, R13", arg("dst"))
	w.op("ADDQ %s, R12", arg("src"))
	w.op("MOVQ %s, BX", arg("bands"))
	w.label("band")
	w.op("MOVQ R13, AX")
	w.op("MOVQ R12, SI")
	w.op("LEAQ (SI)(R8*8), R15")
	w.op("MOVQ %s, CX", arg("quads"))
	w.label("quad")
	w.note("Four columns: register i takes rows i, i + 4, …")
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
	w.note("Transpose four by four: pairs of rows, then pairs of pairs.")
	for i := range 2 {
		w.op("VUNPCKLPS %s, %s, %s", w.v(2*i+1), w.v(2*i), w.v(4+2*i))
		w.op("VUNPCKHPS %s, %s, %s", w.v(2*i+1), w.v(2*i), w.v(5+2*i))
	}
	for i := range 2 {
		w.op("VSHUFPS $0x44, %s, %s, %s", w.v(6+i), w.v(4+i), w.v(2*i))
		w.op("VSHUFPS $0xee, %s, %s, %s", w.v(6+i), w.v(4+i), w.v(2*i+1))
	}
	w.note("They are four rows of dst.")
	for i := range 4 {
		w.store(i, "(AX)")
		w.op("ADDQ DX, AX")
	}
	w.op("ADDQ $16, SI")
	w.op("ADDQ $16, R15")
	w.op("DECQ CX")
	w.op("JNZ quad")
	w.note("The next band, and the next block.")
	w.op("ADDQ $%d, R13", 4*w.lanes)
	for range w.lanes / 8 {
		w.op("LEAQ (R12)(R8*8), R12")
	}
	w.op("DECQ BX")
	w.op("JNZ band")
	w.op("MOVQ %s, AX", arg("block"))
	w.op("ADDQ AX, %s", arg("done"))
	w.op("DECQ %s", arg("blocks"))
	w.op("JNZ block")
	w.op("VZEROUPPER")
	w.op("RET")
}

// neonTranspose returns the file of the kernel that transposes: bands of four rows, four
// columns at a time.
func neonTranspose() string {
	w := neonWriter("Transposition; see transpose.go and bandArgs.")
	w.WriteString("\n// bandsNEON: R1 reads a band, rows at the distances R4-R6; R2 writes it, rows at R7-R9; R10, R11\n// count quads and bands, R12, R13 are where the band began.\n")
	w.local("bandsNEON")
	w.op("MOVD bandArgs_srcRow(R0), R4")
	w.op("ADD R4, R4, R5")
	w.op("ADD R4, R5, R6")
	w.op("MOVD bandArgs_dstRow(R0), R7")
	w.op("ADD R7, R7, R8")
	w.op("ADD R7, R8, R9")
	w.label("block")
	w.op("MOVD bandArgs_done(R0), R3")
	w.op("MOVD bandArgs_src(R0), R12")
	w.op("ADD R3, R12")
	w.op("MOVD bandArgs_dst(R0), R13")
	w.op("ADD R3, R13")
	w.op("MOVD bandArgs_bands(R0), R11")
	w.label("band")
	w.op("MOVD R12, R1")
	w.op("MOVD R13, R2")
	w.op("MOVD bandArgs_quads(R0), R10")
	w.label("quad")
	w.note("Four columns of four rows: pairs of rows, then pairs of pairs.")
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
	w.note("They are four rows of dst.")
	for i, offset := range []int{0, 7, 8, 9} {
		w.storeQ(i, 2, offset)
	}
	w.op("ADD $16, R1")
	w.op("ADD R7<<2, R2")
	w.op("SUBS $1, R10")
	w.op("BNE quad")
	w.note("The next band, and the next block.")
	w.op("ADD R4<<2, R12")
	w.op("ADD $16, R13")
	w.op("SUBS $1, R11")
	w.op("BNE band")
	w.op("MOVD bandArgs_block(R0), R1")
	w.op("ADD R1, R3")
	w.op("MOVD R3, bandArgs_done(R0)")
	w.op("MOVD bandArgs_blocks(R0), R1")
	w.op("SUBS $1, R1")
	w.op("MOVD R1, bandArgs_blocks(R0)")
	w.op("BNE block")
	w.op("RET")
	t, _ := bandNumbers([]isa{neon})
	w.neonTable(t)
	return w.String()
}
