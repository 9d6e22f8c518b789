package main

import "fmt"

// A tile is rows × vectors of C that stay in registers while all products are added to
// them (linalg's Contraction): each step loads the vectors of B, and for each row
// broadcasts an element of A and multiplies. In the tiles of quads, the one vector is put
// together from four columns of each of several groups.

// shapes lists the tiles of an instruction set: up to 25 sums of 32 registers, or 12 of
// 16. Tiles of up to five rows are wide, as the contractions of the last upsampling layer
// have a row for each of five kernel rows. The order is that of linalg's isa.
func (a isa) shapes() (s [][2]int) {
	widest := []int{8, 7, 7, 6, 5, 3, 3, 3} // by rows
	if a.lanes == 8 {
		widest = []int{3, 3, 3, 3}
	}
	for i, most := range widest {
		for v := 1; v <= most; v++ {
			s = append(s, [2]int{i + 1, v})
		}
	}
	if a.lanes == 16 {
		s = append(s, [2]int{16, 1})
	}
	return s
}

// quads lists the tiles of quads: rows, and how many groups make a vector.
func (a isa) quads() (s [][2]int) {
	rows := []int{1, 2, 3, 4, 5, 6, 7, 8, 16}
	if a.lanes == 8 {
		rows = rows[:4]
	}
	for _, m := range rows {
		for groups := 2; groups <= a.lanes/4; groups++ {
			s = append(s, [2]int{m, groups})
		}
	}
	return s
}

// Offsets of the fields of linalg's tileArgs.
const (
	argC, argA, argB, argBias    = 0, 8, 16, 24
	argCRow, argCVec             = 32, 40
	argARow, argAStep            = 48, 56
	argBStep, argBVec            = 64, 72
	argSteps                     = 80
	argSegments, argSegmentCount = 88, 96
	argLanes, argAdd             = 104, 112
	argLeft                      = 120
)

// tiles returns the file of the tiles.
func tiles() string {
	var w writer
	w.header("Tiles of products; see linalg's Contraction and tileArgs.")
	w.maskData()
	table := ""
	n := 0
	for _, a := range []isa{avx512, avx2} {
		w.isa = a
		for _, s := range a.shapes() {
			w.tile(s[0], s[1])
			table += fmt.Sprintf("DATA tileTable<>+%d(SB)/8, $tile%dx%d%s<>(SB)\n", 8*n, s[0], s[1], a.name)
			n++
		}
		for _, s := range a.quads() {
			w.quadTile(s[0], s[1])
			table += fmt.Sprintf("DATA tileTable<>+%d(SB)/8, $quads%dx%d%s<>(SB)\n", 8*n, s[0], s[1], a.name)
			n++
		}
	}
	fmt.Fprintf(&w, "\n%sGLOBL tileTable<>(SB), RODATA, $%d\n", table, 8*n)
	w.WriteString("\n// func tile(args *tileArgs, kernel int)\nTEXT ·tile(SB), NOSPLIT, $0-16\n")
	w.op("MOVQ args+0(FP), DI")
	w.op("MOVQ kernel+8(FP), AX")
	w.op("LEAQ tileTable<>(SB), BX")
	w.op("MOVQ (BX)(AX*8), AX")
	w.op("JMP AX")
	return w.String()
}

// at returns the address base + i·stride of the i-th of up to eight, where the registers
// of s hold 1, 3, 5 and 7 times the stride.
func at(base string, i int, s [4]string) string {
	switch i {
	case 0:
		return "(" + base + ")"
	case 1, 2, 4:
		return fmt.Sprintf("(%s)(%s*%d)", base, s[0], i)
	case 3, 6:
		return fmt.Sprintf("(%s)(%s*%d)", base, s[1], i/3)
	}
	return fmt.Sprintf("(%s)(%s*1)", base, s[i/2]) // 5 and 7
}

// odd sets up the registers of at for indices below n.
func (w *writer) odd(s [4]string, n int) {
	if n > 3 {
		w.op("LEAQ (%s)(%s*2), %s", s[0], s[0], s[1])
	}
	if n > 5 {
		w.op("LEAQ (%s)(%s*4), %s", s[0], s[0], s[2])
	}
	if n > 7 {
		w.op("LEAQ (%s)(%s*4), %s", s[1], s[0], s[3])
	}
}

var rowStrides = [4]string{"R8", "R9", "R10", "R11"}

// vectorStrides returns the registers for up to eight vectors in tiles of so many rows.
// Beyond three vectors there are five rows at most, which leave some of theirs.
func vectorStrides(rows int) [4]string {
	if rows > 3 {
		return [4]string{"DX", "R10", "R11"}
	}
	return [4]string{"DX", "R9", "R10", "R11"}
}

// tile writes the tile of rows × vectors. DI holds the arguments.
func (w *writer) tile(rows, vectors int) {
	w.masked = false
	w.local(fmt.Sprintf("tile%dx%d", rows, vectors), "16")
	w.begin(rows, vectors)
	w.op("MOVQ %d(DI), CX", argLanes)
	w.op("TESTQ CX, CX")
	w.op("JNZ masked")
	w.products(rows, vectors, "full", nil)
	w.sums(rows, vectors, "full")

	w.masked = true
	w.label("masked")
	if w.lanes == 8 && rows*vectors+vectors+2 > w.regs { // no register for the mask
		w.op("INT $3")
		return
	}
	w.setMask()
	w.products(rows, vectors, "part", nil)
	w.sums(rows, vectors, "part")
}

// quadTile writes the tile of rows × one vector of four columns of each group.
func (w *writer) quadTile(rows, groups int) {
	w.masked = false
	w.local(fmt.Sprintf("quads%dx%d", rows, groups), "16")
	w.begin(rows, 1)
	w.op("MOVQ AX, %d(DI)", argLeft) // registers are short
	w.op("LEAQ (DX)(DX*2), AX")      // three groups on
	quad := func(base string, g int) string {
		return []string{"(" + base + ")", "(" + base + ")(DX*1)", "(" + base + ")(DX*2)", "(" + base + ")(AX*1)"}[g]
	}
	load := func(base string, r int) {
		w.op("VMOVUPS %s, X%d", quad(base, 0), r)
		for g := 1; g < groups; g++ {
			w.insert(g, quad(base, g), r)
		}
	}
	w.products(rows, 1, "quads", load)
	x := rows
	w.op("MOVQ %d(DI), R8", argCRow)
	w.op("MOVQ %d(DI), DX", argCVec)
	w.op("LEAQ (DX)(DX*2), AX")
	w.op("MOVQ %d(DI), SI", argC)
	w.op("CMPQ %d(DI), $0", argAdd)
	w.op("JEQ store")
	for i := range rows {
		load("SI", x)
		w.op("VADDPS %s, %s, %s", w.v(x), w.v(i), w.v(i))
		w.op("ADDQ R8, SI")
	}
	w.op("MOVQ %d(DI), SI", argC)
	w.label("store")
	for i := range rows {
		w.op("VMOVUPS X%d, %s", i, quad("SI", 0))
		for g := 1; g < groups; g++ {
			if w.lanes == 16 {
				w.op("VEXTRACTF32X4 $%d, Z%d, %s", g, i, quad("SI", g))
			} else {
				w.op("VEXTRACTF128 $%d, Y%d, %s", g, i, quad("SI", g))
			}
		}
		w.op("ADDQ R8, SI")
	}
	w.op("VZEROUPPER")
	w.op("RET")
}

// begin reads the strides and sets the sums to the bias or to zero.
func (w *writer) begin(rows, vectors int) {
	sum := func(i, v int) int { return i*vectors + v }
	w.op("MOVQ %d(DI), R8", argCRow) // C comes while products are added up
	w.op("MOVQ %d(DI), DX", argCVec)
	w.odd(vectorStrides(rows), vectors)
	w.op("MOVQ %d(DI), SI", argC)
	w.each(rows, vectors, func(_ int, mem string) { w.op("PREFETCHT0 %s", mem) })
	w.op("MOVQ %d(DI), R8", argARow)
	w.op("MOVQ %d(DI), DX", argBVec)
	w.odd(rowStrides, min(rows, 8))
	w.odd(vectorStrides(rows), vectors)
	w.op("MOVQ %d(DI), R12", argAStep)
	w.op("MOVQ %d(DI), R13", argBStep)
	w.op("MOVQ %d(DI), R14", argSegments)
	w.op("MOVQ %d(DI), AX", argSegmentCount)

	w.op("MOVQ %d(DI), BX", argBias)
	w.op("TESTQ BX, BX")
	w.op("JZ zero")
	for i := range rows {
		w.op("VBROADCASTSS %d(BX), %s", 4*i, w.v(sum(i, 0)))
		for v := 1; v < vectors; v++ {
			w.op("VMOVAPS %s, %s", w.v(sum(i, 0)), w.v(sum(i, v)))
		}
	}
	w.op("JMP begin")
	w.label("zero")
	for i := range rows * vectors {
		w.zero(i)
	}
	w.label("begin")
}

// products adds up all products; name tells the copies apart. A tile of quads loads its
// vector in its own way.
func (w *writer) products(rows, vectors int, name string, quads func(base string, r int)) {
	x := rows * vectors // registers of B
	factors := x + vectors
	spare := w.regs - factors // registers for elements of A
	if w.masked && w.lanes == 8 {
		spare--
	}
	w.label(name + "Segment")
	w.op("MOVQ (R14), SI")
	w.op("MOVQ 8(R14), BX")
	w.op("ADDQ $16, R14")
	w.op("MOVQ %d(DI), CX", argA)
	w.op("LEAQ (CX)(SI*4), SI")
	w.op("MOVQ %d(DI), CX", argB)
	w.op("LEAQ (CX)(BX*4), BX")
	w.op("MOVQ %d(DI), CX", argSteps)
	w.label(name + "Step")
	if quads != nil {
		quads("BX", x)
	} else {
		for v := range vectors {
			w.load(at("BX", v, vectorStrides(rows)), x+v)
		}
	}
	if rows > 8 {
		w.op("LEAQ (SI)(R8*8), R15")
		w.op("PREFETCHT0 (SI)(R12*8)")
	}
	for i := range rows {
		base := "SI"
		if i >= 8 {
			base = "R15"
		}
		f := factors + i%min(spare, 4)
		w.op("VBROADCASTSS %s, %s", at(base, i%8, rowStrides), w.v(f))
		for v := range vectors {
			w.op("VFMADD231PS %s, %s, %s", w.v(f), w.v(x+v), w.v(i*vectors+v))
		}
	}
	w.op("ADDQ R12, SI")
	w.op("ADDQ R13, BX")
	w.op("DECQ CX")
	w.op("JNZ %sStep", name)
	if quads != nil {
		w.op("DECQ %d(DI)", argLeft)
	} else {
		w.op("DECQ AX")
	}
	w.op("JNZ %sSegment", name)
}

// sums adds the sums to C, if asked to, and stores them.
func (w *writer) sums(rows, vectors int, name string) {
	x := rows * vectors
	w.op("MOVQ %d(DI), R8", argCRow)
	w.op("MOVQ %d(DI), DX", argCVec)
	w.odd(vectorStrides(rows), vectors)
	w.op("MOVQ %d(DI), SI", argC)
	w.op("CMPQ %d(DI), $0", argAdd)
	w.op("JEQ %sStore", name)
	w.each(rows, vectors, func(i int, mem string) {
		w.load(mem, x)
		w.op("VADDPS %s, %s, %s", w.v(x), w.v(i), w.v(i))
	})
	w.op("MOVQ %d(DI), SI", argC)
	w.label(name + "Store")
	w.each(rows, vectors, func(i int, mem string) { w.store(i, mem) })
	w.op("VZEROUPPER")
	w.op("RET")
}

// each visits the sums with their place in C, from SI on.
func (w *writer) each(rows, vectors int, f func(i int, mem string)) {
	for i := range rows {
		for v := range vectors {
			f(i*vectors+v, at("SI", v, vectorStrides(rows)))
		}
		if i < rows-1 {
			w.op("ADDQ R8, SI")
		}
	}
}
