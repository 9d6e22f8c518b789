package main

import "fmt"

// These arrays list the general-purpose registers with the distances of the rows of A from row 0,
// and of the vectors of B, and later of C, from vector 0. Row 0 and vector 0 need no register. The
// platform reserves R18.
var (
	rowOffsets    = []int{0, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 19, 20, 21, 22, 23}
	vectorOffsets = []int{0, 26, 25, 24}
)

// arm64Tiles returns the source of the tile kernels.
func arm64Tiles() string {
	w := newFile(neon, "tile", `These kernels compute the tiles of contractions; see tiles.go and tileArgs. They use these registers:

	R0          address of the arguments
	R1, R2      addresses of A and B at this step; at the end R1 is the address of a row of C
	R3, R4, R5  steps left, the next segment, segments left
	R6, R7      the step strides of A and B
	R8-R17, …   the distances of rows 1, 2, … of A from row 0
	R26-…       the distances of vectors 1, 2, … of B from vector 0, later of C

The comment of each tile lists its vector registers. An element of A is the first lane of
a register; the multiplication broadcasts it.`)
	for kind, shapes := range w.tiles {
		for _, s := range shapes {
			w.arm64Tile(s, tileKind(kind))
		}
	}
	return w.finish()
}

// arm64Tile writes the kernel of a full tile or of a partial tile, which has one column.
func (w *writer) arm64Tile(s shape, kind tileKind) {
	sums := s.rows * s.vectors
	b, a := sums, sums+s.vectors
	name := w.tileName(kind, s)
	w.begin(name, "%s: C is in %s, with vector v of row i in register %d·i + v; B is in %s; elements of A are in the registers after B.\n"+
		"// A step has %d multiply-adds, %d loads and 4 other instructions.",
		name, w.vs(0, sums), s.vectors, w.vs(b, s.vectors), sums, s.rows+s.vectors)
	load, store := w.loadQ, w.storeQ
	if kind == partial { // the other lanes become zero
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
	w.section("Load the strides.")
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
	w.op("MOVD Segment_A(R4), R1")
	w.op("MOVD Segment_B(R4), R2")
	w.op("ADD $Segment__size, R4")
	w.loadArgs("a R3")
	w.op("ADD R1<<2, R3, R1")
	w.loadArgs("b R3")
	w.op("ADD R2<<2, R3, R2")
	w.loadArgs("steps R3")
	w.comment("For each step: load vectors of B, and for each row load an element of A and multiply.")
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
	w.op("ADD R6, R1")
	w.op("ADD R7, R2")
	w.op("SUBS $1, R3")
	w.op("BNE step")
	w.op("SUBS $1, R5")
	w.op("BNE segment")

	w.section("Add C if the argument add is set, and store the sums.")
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
