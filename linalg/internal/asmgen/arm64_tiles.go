package main

import "fmt"

// Register rowOffsets[i] holds the offset of row i of A from row 0. Register vectorOffsets[v] holds the offset of
// vector v of B, and later of C, from vector 0. Row 0 and vector 0 need no register. R18 is reserved by the platform.
var (
	rowOffsets    = []int{0, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 19, 20, 21, 22, 23}
	vectorOffsets = []int{0, 26, 25, 24}
)

// arm64Tiles returns the assembly file with the tile kernels.
func arm64Tiles() string {
	w := newFile(neon, "tile", `These kernels compute the tiles of contractions; see tiles.go and tileArgs. They use these registers:

	R0          address of the arguments
	R1, R2      addresses of the elements of A and B at a step; R1 is later the address of a row of C
	R3, R4, R5  number of steps left, address of the next segment, number of segments left
	R6, R7      strides between steps of A and of B; R6 is later the row stride of C
	R8-R17, …   offsets of rows 1, 2, … of A from row 0
	R26, R25, … offsets of vectors 1, 2, … of B, later of C, from vector 0

The comment of each tile lists its vector registers. Each element of A is loaded into the first lane of a register.
A multiply-add instruction multiplies this lane by all lanes of a vector of B.`)
	for kind, shapes := range w.tiles {
		for _, s := range shapes {
			w.arm64Tile(s, tileKind(kind))
		}
	}
	return w.finish()
}

// arm64Tile emits the kernel of a full tile or of a partial tile. A partial tile has one column.
func (w *writer) arm64Tile(s shape, kind tileKind) {
	sums := s.rows * s.vectors
	b, a := sums, sums+s.vectors
	name := w.tileName(kind, s)
	w.begin(name, "%s keeps vector v of row i of C in register %[3]d·i + v (%[2]s) and B in %[4]s. Elements of A are in the registers after B.\n"+
		"// A step has %[5]d multiply-adds, %[6]d loads and 4 other instructions.",
		name, w.vs(0, sums), s.vectors, w.vs(b, s.vectors), sums, s.rows+s.vectors)
	load, store := w.loadQ, w.storeQ
	if kind == partial { // a vector with one column; its other lanes are zero
		load = func(v, base, offset int) { w.op("FMOVS %s, F%d", indexed(base, offset), v) }
		store = func(v, base, offset int) { w.op("FMOVS F%d, %s", v, indexed(base, offset)) }
	}
	multiples := func(field string, n int, registers []int) {
		if n > 1 {
			w.loadArgs(fmt.Sprintf("%s R%d", field, registers[1]))
		}
		for i := 2; i < n; i++ {
			w.op("ADD R%d, R%d, R%d", registers[1], registers[i-1], registers[i])
		}
	}
	w.section("Load the strides of rows, vectors and steps.")
	multiples("aRow", s.rows, rowOffsets)
	multiples("bVector", s.vectors, vectorOffsets)
	w.loadArgs("aStep R6", "bStep R7", "segments R4", "segmentCount R5")
	w.section("Set the sums to the bias.")
	w.loadArgs("bias R3")
	for i := range s.rows {
		w.op("VLD1R.P 4(R3), [V%d.S4]", i*s.vectors)
		for v := 1; v < s.vectors; v++ {
			w.op("VMOV V%d.B16, V%d.B16", i*s.vectors, i*s.vectors+v)
		}
	}
	w.section("For each segment:")
	w.label("segment")
	w.op("MOVD (R4), R1; MOVD 8(R4), R2; ADD $16, R4")
	w.loadArgs("a R3")
	w.op("ADD R1<<2, R3, R1")
	w.loadArgs("b R3")
	w.op("ADD R2<<2, R3, R2")
	w.loadArgs("steps R3")
	w.comment("For each step: load the vectors of B. For each row, load an element of A and multiply.")
	w.label("step")
	for v := range s.vectors {
		load(b+v, 2, vectorOffsets[v])
	}
	for i := range s.rows {
		f := a + i%min(w.registers-a, 6)
		w.op("FMOVS %s, F%d", indexed(1, rowOffsets[i]), f)
		for v := range s.vectors {
			c := i*s.vectors + v
			w.word(0x4f801000|uint32(f)<<16|uint32(b+v)<<5|uint32(c), "fmla v%d.4s, v%d.4s, v%d.s[0]", c, b+v, f)
		}
	}
	w.op("ADD R6, R1; ADD R7, R2; SUBS $1, R3; BNE step")
	w.op("SUBS $1, R5; BNE segment")

	w.section("If the argument add is set, add C to the sums. Store the sums to C.")
	multiples("cVector", s.vectors, vectorOffsets)
	w.loadArgs("cRow R6", "c R1", "add R3")
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
		load(b, 1, vectorOffsets[v])
		w.registers3(0x4e20d400, "fadd", "4s", i, i, b)
	})
	w.loadArgs("c R1")
	w.label("store")
	each(func(i, v int) { store(i, 1, vectorOffsets[v]) })
	w.op("RET")
}
