package main

import "fmt"

// Registers of the tiles.
const (
	tileA, tileB, tileC = 1, 2, 1
	tileRow             = 8  // and on: the distances of rows 1, 2, … of A, without R18
	tileVector          = 26 // and down: those of vectors 1, 2, … of B, later of C
)

// rowOffset returns the register of the distance of row i, 0 for none.
func rowOffset(i int) int {
	switch {
	case i == 0:
		return 0
	case tileRow+i-1 >= 18: // R18 is the platform's
		return tileRow + i
	}
	return tileRow + i - 1
}

// vectorOffset returns the register of the distance of vector v, 0 for none.
func vectorOffset(v int) int {
	if v == 0 {
		return 0
	}
	return tileVector - v + 1
}

// neonTiles returns the file of the tiles of arm64.
func neonTiles() string {
	w := neonWriter(
		"Tiles of products; see tiles.go and tileArgs. In each of them:",
		"",
		"	R0          the arguments",
		"	R1, R2      A and B at this step; then R1 is C",
		"	R3, R4, R5  the steps that are left, the next segment, and how many there are",
		"	R6, R7      how far A and B go from step to step",
		"	R8-R17, …   the distances of rows 1, 2, … of A, as many as there are",
		"	R26-…       those of vectors 1, 2, … of B, then of C",
		"",
		"Sums and operands lie in the vector registers as each tile says. An element of A is the",
		"first of a register, and is multiplied from there.")
	for _, s := range neon.shapes() {
		w.neonTile(s, false)
	}
	for _, s := range neon.parts() {
		w.neonTile(s, true)
	}
	t, _ := tileNumbers([]isa{neon})
	w.neonTable(t)
	return w.String()
}

// neonTile writes the tile of a shape, or if it is a part, of as many rows and a column.
func (w *writer) neonTile(s shape, part bool) {
	kind := "tile"
	if part {
		kind = "part"
	}
	sums := s.rows * s.vectors
	b, a := sums, sums+s.vectors
	fmt.Fprintf(w, "\n// %s: row i, vector v of C in %s, i·%d + v; B in %s, A in the next.\n", s.name(kind, w.isa), w.vs(0, sums), s.vectors, w.vs(b, s.vectors))
	fmt.Fprintf(w, "// A step is %d multiply-adds, %d loads and 4 others.\n", sums, s.rows+s.vectors)
	w.local(s.name(kind, w.isa))
	load, store := w.loadQ, w.storeQ
	if part { // the other lanes of a register become zero
		load = func(v, base, offset int) { w.op("FMOVS %s, F%d", indexed(base, offset), v) }
		store = func(v, base, offset int) { w.op("FMOVS F%d, %s", v, indexed(base, offset)) }
	}
	multiples := func(field string, n int, register func(int) int) {
		if n > 1 {
			w.op("MOVD tileArgs_%s(R0), R%d", field, register(1))
		}
		for i := 2; i < n; i++ {
			w.op("ADD R%d, R%d, R%d", register(1), register(i-1), register(i))
		}
	}
	w.note("Strides.")
	multiples("aRow", s.rows, rowOffset)
	multiples("bVector", s.vectors, vectorOffset)
	w.op("MOVD tileArgs_aStep(R0), R6")
	w.op("MOVD tileArgs_bStep(R0), R7")
	w.op("MOVD tileArgs_segments(R0), R4")
	w.op("MOVD tileArgs_segmentCount(R0), R5")
	w.note("Sums begin at the bias of their row.")
	w.op("MOVD tileArgs_bias(R0), R3")
	for i := range s.rows {
		w.op("VLD1R.P 4(R3), [V%d.S4]", i*s.vectors)
		for v := 1; v < s.vectors; v++ {
			w.op("VMOV V%d.B16, V%d.B16", i*s.vectors, i*s.vectors+v)
		}
	}
	w.note("The next segment.")
	w.label("segment")
	w.op("MOVD Segment_A(R4), R1")
	w.op("MOVD Segment_B(R4), R2")
	w.op("ADD $Segment__size, R4")
	w.op("MOVD tileArgs_a(R0), R3")
	w.op("ADD R1<<2, R3, R1")
	w.op("MOVD tileArgs_b(R0), R3")
	w.op("ADD R2<<2, R3, R2")
	w.op("MOVD tileArgs_steps(R0), R3")
	w.remark("A step: the vectors of B, and for each row an element of A.")
	w.label("step")
	for v := range s.vectors {
		load(b+v, tileB, vectorOffset(v))
	}
	for i := range s.rows {
		f := a + i%min(w.regs-a, 6)
		w.op("FMOVS %s, F%d", indexed(tileA, rowOffset(i)), f)
		for v := range s.vectors {
			w.fmaElement(i*s.vectors+v, b+v, f)
		}
	}
	w.op("ADD R6, R1")
	w.op("ADD R7, R2")
	w.op("SUBS $1, R3")
	w.op("BNE step")
	w.op("SUBS $1, R5")
	w.op("BNE segment")

	w.note("Add the sums to C if asked to, and store them.")
	multiples("cVector", s.vectors, vectorOffset)
	w.op("MOVD tileArgs_cRow(R0), R6")
	w.op("MOVD tileArgs_c(R0), R1")
	w.op("MOVD tileArgs_add(R0), R3")
	w.op("CBZ R3, store")
	each := func(f func(i, v int)) {
		for i := range s.rows {
			for v := range s.vectors {
				f(i*s.vectors+v, v)
			}
			if i < s.rows-1 {
				w.op("ADD R6, R1")
			}
		}
	}
	each(func(i, v int) {
		load(b, tileC, vectorOffset(v))
		w.three(0x4e20d400, "fadd", "4s", i, i, b)
	})
	w.op("MOVD tileArgs_c(R0), R1")
	w.label("store")
	each(func(i, v int) { store(i, tileC, vectorOffset(v)) })
	w.op("RET")
}
