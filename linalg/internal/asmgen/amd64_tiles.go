package main

// In tiles with more than eight rows, each step prefetches the element in row 0 of A that is used 2^prefetchShift = 64
// steps later. If A is a transpose, most elements of the other rows are in the same cache line. Prefetching helps if
// consecutive steps read A from different cache lines, as in Wᵀ·δ for a matrix W [512×450] and a matrix δ with 16
// columns. With a distance of 64 steps, this product takes 60 µs, whether W is in the second-level or the third-level
// cache. With 8 steps, which are too few to hide the latency, it takes 64 to 82 µs.
const prefetchShift = 6

// amd64Tiles returns the assembly file with the tile kernels.
func amd64Tiles() string {
	w := newFile(avx2, "tile", `These kernels compute the tiles of contractions; see tiles.go and tileArgs. Most of them use these registers:

	DI          address of the arguments
	SI, BX      addresses of the elements of A and B at a step; SI is later the address of a row of C
	R8-R11      1, 3, 5 and 7 times the row stride of A; R8 is later the row stride of C
	DX          stride between vectors of B, later of C
	R12, R13    strides between steps of A and of B
	R14, AX, CX address of the next segment, numbers of segments and steps left
	R15         offset of the prefetched element from the current one (tiles with more than eight rows)
	K1, Y15     mask of a partial tile (K1 with AVX-512, Y15 with AVX2)

The comment of each tile lists its vector registers.`)
	w.maskData()
	for _, w.isa = range amd64 {
		for kind, shapes := range w.tiles {
			for _, s := range shapes {
				if kind := tileKind(kind); kind == quad {
					w.amd64QuadTile(s)
				} else {
					w.amd64Tile(s, kind)
				}
			}
		}
	}
	return w.finish()
}

// vector returns the assembly operand for vector v of a row. Register base contains the address of
// the row, register DX contains the stride between vectors, and R9 contains three times this stride if v is 3.
func vector(base string, v int) string {
	return "(" + base + ")" + [...]string{"", "(DX*1)", "(DX*2)", "(R9*1)", "(DX*4)"}[v]
}

// loadVectorStride emits code that sets the registers that the function vector uses. The stride is the kernel argument
// with the given name. Tiles with more than three vectors have one row, so they do not use R9 to address rows of A.
func (w *writer) loadVectorStride(argument string, s shape) {
	w.loadArgs(argument + " DX")
	if s.vectors > 3 {
		w.op("LEAQ (DX)(DX*2), R9")
	}
}

// amd64Tile emits the kernel of a full tile or of a partial tile.
func (w *writer) amd64Tile(s shape, kind tileKind) {
	w.masked = kind == partial
	sums := s.rows * s.vectors
	name := w.tileName(kind, s)
	w.begin(name, "%s keeps vector v of row i of C in register %[3]d·i + v (%[2]s) and B in %[4]s. Elements of A are in the registers after B.", name, w.vs(0, sums), s.vectors, w.vs(sums, s.vectors))
	w.beginTile(s)
	if w.masked {
		w.loadArgs("lanes CX")
		w.setMask()
	}
	w.loadArgs("segmentCount AX")
	w.products(s, "AX", func(v, r int) { w.load(vector("BX", v), r) })

	w.section("If the argument add is set, add C to the sums. Store the sums to C.")
	w.loadArgs("cRow R8", "c SI")
	w.loadVectorStride("cVector", s)
	w.op("CMPQ %s, $0; JEQ store", w.arg("add"))
	w.each(s, func(i int, mem string) {
		switch {
		case !w.masked:
			w.op("VADDPS %s, %s, %s", mem, w.v(i), w.v(i))
		case w.isa == avx512:
			w.op("VADDPS %s, %s, K1, %s", mem, w.v(i), w.v(i))
		default:
			w.load(mem, sums)
			w.op("VADDPS %s, %s, %s", w.v(sums), w.v(i), w.v(i))
		}
	})
	w.loadArgs("c SI")
	w.label("store")
	w.each(s, func(i int, mem string) { w.store(i, mem) })
	w.op("VZEROUPPER; RET")
}

// beginTile emits code that prefetches C, loads the strides of rows, vectors and steps, and sets the sums to the bias.
func (w *writer) beginTile(s shape) {
	w.section("Prefetch C.")
	w.loadArgs("cRow R8", "c SI")
	w.loadVectorStride("cVector", s)
	w.each(s, func(_ int, mem string) { w.op("PREFETCHT0 %s", mem) })
	w.section("Load the strides of rows, vectors and steps.")
	w.loadArgs("aRow R8")
	w.loadVectorStride("bVector", s)
	w.multiplyStride(s.rows)
	w.loadArgs("aStep R12")
	if s.rows > 8 { // each step adds 8 rows to SI, so subtract them from the stride between steps
		w.op("MOVQ R12, R15; SHLQ $%d, R15", prefetchShift)
		w.op("LEAQ (R8*8), AX; SUBQ AX, R12")
	}
	w.loadArgs("bStep R13", "segments R14")
	w.section("Set the sums to the bias.")
	w.loadArgs("bias BX")
	for i := range s.rows {
		w.op("VBROADCASTSS %d(BX), %s", 4*i, w.v(i*s.vectors))
		for v := 1; v < s.vectors; v++ {
			w.op("VMOVAPS %s, %s", w.v(i*s.vectors), w.v(i*s.vectors+v))
		}
	}
}

// amd64QuadTile emits the kernel of a quad tile. A vector contains four columns from each of 2 (AVX2) or
// 4 (AVX-512) groups. DX, AX and R15 contain the offsets of groups 1, 2 and 3 from group 0.
func (w *writer) amd64QuadTile(s shape) {
	w.masked = false
	name := w.tileName(quad, s)
	offsets := []string{"", "(DX*1)", "(AX*1)", "(R15*1)"}[:w.lanes/4]
	load := func(base string, r int) {
		w.op("VMOVUPS (%s), X%d", base, r)
		for g, d := range offsets[1:] {
			w.insert(g+1, "("+base+")"+d, r)
		}
	}
	set := func(operand string) {
		w.loadArgs(operand + "Vector DX")
		if w.isa == avx512 {
			w.loadArgs(operand+"Quad2 AX", operand+"Quad3 R15")
		}
	}
	x := s.rows // number of the register of B
	w.begin(name, "%s keeps row i of C in register i (%s) and B in %s. Elements of A are in the registers after B. Each group has four lanes.", name, w.vs(0, s.rows), w.v(x))
	w.beginTile(s)
	set("b")
	w.loadArgs("segmentCount BX")
	w.op("MOVQ BX, %s", w.arg("left"))
	w.products(s, w.arg("left"), func(v, r int) { load("BX", r) })

	w.section("If the argument add is set, add C to the sums. Store the sums to C.")
	w.loadArgs("cRow R8")
	set("c")
	w.loadArgs("c SI", "add CX")
	for i := range s.rows {
		w.op("TESTQ CX, CX; JEQ store%d", i)
		load("SI", x)
		w.op("VADDPS %s, %s, %s", w.v(x), w.v(i), w.v(i))
		w.label("store%d", i)
		w.op("VMOVUPS X%d, (SI)", i)
		for g, d := range offsets[1:] {
			w.op("VEXTRACT%s $%d, %s, (SI)%s", fourLanes[w.isa], g+1, w.v(i), d)
		}
		if i < s.rows-1 {
			w.op("ADDQ R8, SI")
		}
	}
	w.op("VZEROUPPER; RET")
}

// products emits the loops over segments and steps. The parameter counter is the assembly operand for the
// number of segments left. The function load emits an instruction that loads vector v of B into register r.
func (w *writer) products(s shape, counter string, load func(v, r int)) {
	x := s.rows * s.vectors // first register of B
	factors := x + s.vectors
	free := w.registers - factors // number of registers for elements of A
	if w.masked && w.isa == avx2 {
		free--
	}
	w.section("For each segment:")
	w.label("segment")
	w.op("MOVQ (R14), SI; MOVQ 8(R14), BX; ADDQ $16, R14")
	w.op("SHLQ $2, SI; ADDQ %s, SI", w.arg("a"))
	w.op("SHLQ $2, BX; ADDQ %s, BX", w.arg("b"))
	w.loadArgs("steps CX")
	w.comment("For each step: load the vectors of B. For each row, load an element of A into all lanes and multiply.")
	w.label("step")
	if s.rows > 8 {
		w.op("PREFETCHT0 (SI)(R15*1)")
	}
	for v := range s.vectors {
		load(v, x+v)
	}
	for i := range s.rows {
		if i == 8 { // SI becomes the address of row 8
			w.op("LEAQ (SI)(R8*8), SI")
		}
		f := factors + i%min(free, 4)
		w.op("VBROADCASTSS %s, %s", row("SI", i%8), w.v(f))
		for v := range s.vectors {
			w.op("VFMADD231PS %s, %s, %s", w.v(f), w.v(x+v), w.v(i*s.vectors+v))
		}
	}
	w.op("ADDQ R12, SI; ADDQ R13, BX")
	w.op("DECQ CX; JNZ step")
	w.op("DECQ %s; JNZ segment", counter)
}

// each calls f(i, mem) for each vector of C, where i is the number of the register that holds the vector and mem is the
// address of the vector. After each row, it emits code that sets SI to the address of the next row.
func (w *writer) each(s shape, f func(i int, mem string)) {
	for i := range s.rows {
		for v := range s.vectors {
			f(i*s.vectors+v, vector("SI", v))
		}
		if i < s.rows-1 {
			w.op("ADDQ R8, SI")
		}
	}
}
