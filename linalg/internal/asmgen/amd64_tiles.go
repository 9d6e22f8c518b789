package main

// prefetchShift is log₂ of the number of steps by which tiles with more than eight rows prefetch A
// ahead of its use. Prefetching matters if consecutive steps of A are in different cache lines.
// With 64 steps, Wᵀ·δ for W of 512×450 and 16 columns takes 60 µs when W is in the third-level
// cache, no longer than when W is in the second-level cache. With eight steps, which are too few to
// cover the latency, it takes 64 to 82 µs.
const prefetchShift = 6

// amd64Tiles returns the source of the tile kernels.
func amd64Tiles() string {
	w := newFile(avx2, "tile", `These kernels compute the tiles of contractions; see tiles.go and tileArgs. Most of them use these registers:

	DI          address of the arguments
	SI, BX      addresses of A and B at this step; at the end SI is the address of a row of C
	R8-R11      1, 3, 5 and 7 times the row stride of A, later of C
	DX          the distance between vectors of B, later of C
	R12, R13    the step strides of A and B
	R14, CX     the next segment, steps left
	K1, Y15     the mask

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

// vector returns the assembly operand for the address base + v·DX of vector v of a row, where DX
// holds the distance between vectors.
func vector(base string, v int) string {
	return "(" + base + ")" + [...]string{"", "(DX*1)", "(DX*2)"}[v]
}

// amd64Tile writes the kernel of a full tile or of a partial tile.
func (w *writer) amd64Tile(s shape, kind tileKind) {
	w.masked = kind == partial
	sums := s.rows * s.vectors
	name := w.tileName(kind, s)
	w.begin(name, "%s: C is in %s, with vector v of row i in register %d·i + v; B is in %s; elements of A are in the registers after B.", name, w.vs(0, sums), s.vectors, w.vs(sums, s.vectors))
	w.beginTile(s)
	if w.masked {
		w.loadArgs("lanes CX")
		w.setMask()
	}
	w.loadArgs("segmentCount AX")
	w.products(s, "AX", func(v, r int) { w.load(vector("BX", v), r) })

	w.section("Add C if the argument add is set, and store the sums.")
	w.loadArgs("cRow R8", "cVector DX", "c SI")
	w.op("CMPQ %s, $0", w.arg("add"))
	w.op("JEQ store")
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
	w.op("VZEROUPPER")
	w.op("RET")
}

// beginTile writes code that prefetches C, loads the strides and sets the sums to the bias.
func (w *writer) beginTile(s shape) {
	w.section("Prefetch C.")
	w.loadArgs("cRow R8", "cVector DX", "c SI")
	w.each(s, func(_ int, mem string) { w.op("PREFETCHT0 %s", mem) })
	w.section("Load the strides.")
	w.loadArgs("aRow R8", "bVector DX")
	w.multiplyStride(s.rows)
	w.loadArgs("aStep R12")
	if s.rows > 8 { // R12 becomes the distance from the ninth row at a step to the first row at the next
		w.op("MOVQ R12, R15")
		w.op("SHLQ $%d, R15", prefetchShift)
		w.op("LEAQ (R8*8), AX")
		w.op("SUBQ AX, R12")
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

// amd64QuadTile writes the kernel of a quad tile, whose vectors hold four columns from each of two
// or four groups. The distances of the second, third and fourth group from the first are in DX, AX
// and R15.
func (w *writer) amd64QuadTile(s shape) {
	w.masked = false
	rows := s.rows
	name := w.tileName(quad, s)
	distances := []string{"", "(DX*1)", "(AX*1)", "(R15*1)"}[:w.lanes/4]
	load := func(base string, r int) {
		w.op("VMOVUPS (%s), X%d", base, r)
		for g, d := range distances[1:] {
			w.insert(g+1, "("+base+")"+d, r)
		}
	}
	set := func(operand string) {
		w.loadArgs(operand + "Vector DX")
		if w.isa == avx512 {
			w.loadArgs(operand+"Quad2 AX", operand+"Quad3 R15")
		}
	}
	x := rows
	w.begin(name, "%s: C is in %s, with row i in register i; B is in %s; elements of A are in the registers after B. Each group has four lanes.", name, w.vs(0, rows), w.v(x))
	w.beginTile(s)
	set("b")
	w.loadArgs("segmentCount BX")
	w.op("MOVQ BX, %s", w.arg("left"))
	w.products(s, w.arg("left"), func(v, r int) { load("BX", r) })

	w.section("Add C if the argument add is set, and store the sums.")
	w.loadArgs("cRow R8")
	set("c")
	w.loadArgs("c SI", "add CX")
	for i := range rows {
		w.op("TESTQ CX, CX")
		w.op("JEQ store%d", i)
		load("SI", x)
		w.op("VADDPS %s, %s, %s", w.v(x), w.v(i), w.v(i))
		w.label("store%d", i)
		w.op("VMOVUPS X%d, (SI)", i)
		for g, d := range distances[1:] {
			w.extract(g+1, i, "(SI)"+d)
		}
		if i < rows-1 {
			w.op("ADDQ R8, SI")
		}
	}
	w.op("VZEROUPPER")
	w.op("RET")
}

// products writes the loops over segments and steps. The operand counter holds the number of
// segments left. The function load writes a load of vector v of B into vector register r.
func (w *writer) products(s shape, counter string, load func(v, r int)) {
	x := s.rows * s.vectors // first register of B
	factors := x + s.vectors
	free := w.registers - factors // registers for elements of A
	if w.masked && w.isa == avx2 {
		free--
	}
	w.section("For each segment:")
	w.label("segment")
	w.op("MOVQ Segment_A(R14), SI")
	w.op("MOVQ Segment_B(R14), BX")
	w.op("ADDQ $Segment__size, R14")
	w.op("SHLQ $2, SI")
	w.op("ADDQ %s, SI", w.arg("a"))
	w.op("SHLQ $2, BX")
	w.op("ADDQ %s, BX", w.arg("b"))
	w.loadArgs("steps CX")
	w.comment("For each step: load vectors of B, and for each row broadcast an element of A and multiply.")
	w.label("step")
	if s.rows > 8 && counter == "AX" {
		w.op("PREFETCHT0 (SI)(R15*1)")
	}
	for v := range s.vectors {
		load(v, x+v)
	}
	for i := range s.rows {
		if i == 8 { // beginTile has subtracted the same distance from R12
			w.op("LEAQ (SI)(R8*8), SI")
		}
		f := factors + i%min(free, 4)
		w.op("VBROADCASTSS %s, %s", row("SI", i%8), w.v(f))
		for v := range s.vectors {
			w.op("VFMADD231PS %s, %s, %s", w.v(f), w.v(x+v), w.v(i*s.vectors+v))
		}
	}
	w.op("ADDQ R12, SI")
	w.op("ADDQ R13, BX")
	w.op("DECQ CX")
	w.op("JNZ step")
	w.op("DECQ %s", counter)
	w.op("JNZ segment")
}

// each calls f for each vector of sums, with its index i and its address mem in C, and writes code
// that advances SI from each row of C to the next.
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
