package main

import "fmt"

// A tile kernel computes a tile, a small part of the matrix C in C += A·B; see linalg.Contraction. The sums of the tile
// stay in rows × vectors registers. In each step, the kernel loads the vectors of one row of B. For each row of A, it
// then loads one element into all lanes of a register and multiplies:
//
//	                       row of B:  b0   b1   b2
//	                                 ┌────┬────┬────┐
//	elements of A, in all lanes:  a0 │ c0 │ c1 │ c2 │
//	                              a1 │ c3 │ c4 │ c5 │   c += a·b
//	                                 └────┴────┴────┘
//
// On arm64, the element of A is in one lane of a register. The multiply-add multiplies a vector of B by this lane.

// On amd64, full and partial tiles with more than eight rows prefetch elements of A: each step prefetches the element
// of row 0 that is needed 2^prefetchShift = 64 steps later. If A is a transpose, most elements of the other rows at
// that step are in the same cache line. Prefetching helps if consecutive steps read A from different cache lines, as in
// Wᵀ·δ for a matrix W [512×450] and a matrix δ with 16 columns: this product takes 60 µs, but 64 to 82 µs with a
// distance of 8 steps, which does not hide the latency.
const prefetchShift = 6

func tiles(arch *architecture) string {
	registers := []string{
		"a, c: address of the element of A at a step, or of a row of C",
		"b: address of the row of B at a step",
		"row1: row stride of A, or of C",
		"row3: 3 times the row stride", "row5: 5 times the row stride", "row7: 7 times the row stride",
		"vector1, group1: stride between vectors of B or C; in a quad tile, offset of group 1 from group 0",
		"aStep: stride between steps of A, minus 8 rows in tiles with more than 8 rows", "bStep: stride between steps of B",
		"segment: address of the next segment", "steps: number of steps left",
		"left, group2: number of segments left; in a quad tile, offset of group 2",
		"prefetch, group3: offset of the prefetched element of A; in a quad tile, offset of group 3",
	}
	if arch == arm64 {
		registers = append(registers, "row2: 2 times the row stride", "row4: 4 times the row stride",
			"row6: 6 times the row stride", "vector2: 2 times the stride between vectors",
			"vector3: 3 times the stride between vectors")
	}
	w := newFile(arch, "tile", "These kernels compute the tiles of contractions; see tiles.go and tileArgs.", registers...)
	if arch == amd64 {
		w.maskData()
	}
	for _, set := range arch.sets {
		w.isa = set
		for kind, shapes := range w.tiles {
			for _, s := range shapes {
				w.tile(s, tileKind(kind))
			}
		}
	}
	return w.finish()
}

// tile emits the kernel of a tile. The kinds of tiles differ mainly in the loads and stores of vectors. Vector v of row
// i of C is in register i·s.vectors + v. The next s.vectors registers hold the vectors of B.
func (w *assembler) tile(s shape, kind tileKind) {
	w.setVectors(4, w.bytes/4)
	if kind == partial && w.isa == neon {
		w.lanes = 1
	}
	sums := s.rows * s.vectors
	w.begin(fmt.Sprintf("%v%dx%d%s", kind, s.rows, s.vectors, w.name),
		"C is in registers 0 to %d and B in registers %d to %d. Elements of A are in the registers after B.",
		sums-1, sums, sums+s.vectors-1)
	if w.isa == avx512 && kind == full && s.rows == 8 {
		// The prefetch loads C into the cache while the kernel computes the products. It matters for gradients of large
		// weight matrices, where C does not fit into the cache and the number of steps is small. It makes a training
		// step 7 % faster for an HVAE with K = 1.
		w.comment("Prefetch C.")
		w.loadC(s, kind)
		w.each(s, kind, func(_ int, a address) { w.op("PREFETCHT0 %s", w.memory(a)) })
	}
	w.comment("Set the sums to the bias.")
	w.code("MOVE @bias, b")
	for i := range s.rows {
		w.broadcast(address{base: "b", offset: 4 * i}, i*s.vectors)
		for v := 1; v < s.vectors; v++ {
			w.copy(i*s.vectors, i*s.vectors+v)
		}
	}
	w.masked = kind == partial && w.architecture == amd64
	if w.masked {
		w.code("MOVE @lanes, steps")
		w.setMask("steps", "left")
	}
	left := "left" // counter of segments
	w.code("MOVE @segmentCount, left")
	if kind == quad { // there is no register for the counter
		left = "@left"
		w.code("MOVE left, @left")
	}
	w.jumpIfAdding("JEQUAL", kind, left, "addC")
	w.code("products:")
	w.products(s, kind, left)
	w.comment("Add C to the sums if the argument addAt is the number of segments left. Store the sums to C.")
	w.code("addC:")
	w.loadC(s, kind)
	w.jumpIfAdding("JOTHER", kind, left, "added")
	w.each(s, kind, func(i int, a address) {
		if kind == full {
			w.vectorMemory("add", i, a, i, sums)
			return
		}
		w.moveTile(kind, a, sums, true)
		w.vector("add", i, sums, i)
	})
	w.code("added:; JOTHER %s, $0, products; MOVE @c, c", left)
	w.each(s, kind, func(i int, a address) { w.moveTile(kind, a, i, false) })
	w.masked = false
	w.code("RETURN")
}

// jumpIfAdding emits a jump to a label, JEQUAL if the kernel adds C to the sums now, or JOTHER if it does not.
func (w *assembler) jumpIfAdding(jump string, kind tileKind, left, label string) {
	addAt := "@addAt"
	if w.architecture == arm64 || kind == quad { // the instruction cannot compare addAt and left in memory
		w.code("MOVE @addAt, steps")
		addAt = "steps"
	}
	w.code("%s %s, %s, %s", jump, addAt, left, label)
}

// products emits the loops over segments and steps (see linalg.Contraction). The operand left holds the number of
// segments.
func (w *assembler) products(s shape, kind tileKind, left string) {
	x := s.rows * s.vectors // first register of B
	factors := x + s.vectors
	free := w.count - factors // number of registers for elements of A
	w.comment("Load strides.")
	w.loadStride("aRow", "row", min(s.rows, 8))
	w.code("MOVE @aStep, aStep; MOVE @bStep, bStep; MOVE @segments, segment")
	if s.rows > 8 {
		if w.architecture == amd64 && kind != quad {
			w.code("MOVE aStep, prefetch; SHL $%d, prefetch", prefetchShift)
		}
		w.code("MOVE row1, a; SHL $3, a; SUB a, aStep")
	}
	w.loadVectors("b", s, kind)
	w.comment("For each segment:")
	w.code("eachSegment:; MOVE (segment), a; MOVE 8(segment), b; ADD $16, segment")
	w.code("MOVE @a, steps; INDEX4 a, steps, a; MOVE @b, steps; INDEX4 b, steps, b; MOVE @steps, steps")
	w.comment("For each step: load the vectors of B. For each row, load an element of A and multiply.")
	w.code("eachStep:")
	if s.rows > 8 && w.architecture == amd64 && kind != quad {
		w.op("PREFETCHT0 %s", w.memory(address{base: "a", index: "prefetch", scale: 1}))
	}
	for v := range s.vectors {
		w.moveTile(kind, w.at("b", "vector", v), x+v, true)
	}
	for i := range s.rows {
		if i == 8 {
			w.code("INDEX8 row1, a, a")
		}
		w.multiplyRow(w.at("a", "row", i%8), factors+i%min(free, 4), x, i*s.vectors, s.vectors)
	}
	w.code("ADD aStep, a; ADD bStep, b; LOOP steps, eachStep; LOOP %s, eachSegment", left)
}

// multiplyRow emits instructions that load an element of A from an address into register f and add its products with
// the vectors of B, in registers b and up, to the sums in registers c and up.
func (w *assembler) multiplyRow(from address, f, b, c, vectors int) {
	if w.architecture == amd64 {
		w.broadcast(from, f)
	} else {
		w.op("FMOVS %s, F%d", w.memory(from), f)
	}
	for v := range vectors {
		if w.architecture == amd64 {
			w.vector("fma", b+v, f, c+v)
			continue
		}
		w.word(0x4f801000|uint32(f<<16|(b+v)<<5|(c+v)), "fmla v%d.4s, v%d.4s, v%d.s[0]", c+v, b+v, f)
	}
}

// loadVectors emits code that prepares access to the vectors of the operand b or c: it loads the strides between them
// or, in a quad tile, the offsets of the groups of columns.
func (w *assembler) loadVectors(operand string, s shape, kind tileKind) {
	if kind != quad {
		w.loadStride(operand+"Vector", "vector", s.vectors)
		return
	}
	w.code("MOVE @%sVector, group1", operand)
	if w.isa == avx512 {
		w.code("MOVE @%sQuad2, group2; MOVE @%[1]sQuad3, group3", operand)
	}
}

// moveTile emits code that loads or stores a vector of a tile. In a quad tile, a vector consists of four elements of
// each of several groups.
func (w *assembler) moveTile(kind tileKind, a address, r int, load bool) {
	if kind != quad {
		w.move(a, r, load)
		return
	}
	w.lanes = 4
	w.move(a, r, load)
	w.lanes = w.bytes / 4
	for g := 1; g < w.bytes/16; g++ {
		a.index, a.scale = fmt.Sprintf("group%d", g), 1
		if load {
			w.insert(g, a, r)
		} else {
			w.op("VEXTRACT%s $%d, %s, %s", parts[w.isa], g, w.v(r), w.memory(a))
		}
	}
}

// loadC emits code that sets the register c to the address of row 0 of C and loads the strides for the method each.
func (w *assembler) loadC(s shape, kind tileKind) {
	w.code("MOVE @c, c")
	w.loadStride("cRow", "row", min(s.rows, max(2, rowsInReach(s, kind))))
	w.loadVectors("c", s, kind)
}

// each calls f(i, a) for each vector of C, where i is the number of the register that holds the vector and a is the
// address of the vector. It emits code that moves the register c to the next rows that an address can reach.
func (w *assembler) each(s shape, kind tileKind, f func(i int, a address)) {
	reach := rowsInReach(s, kind)
	for i := range s.rows {
		if i > 0 && i%reach == 0 {
			w.code("INDEX%d row1, c, c", reach)
		}
		f(i*s.vectors, w.at("c", "row", i%reach))
		for v := 1; v < s.vectors; v++ {
			f(i*s.vectors+v, w.at("c", "vector", v))
		}
	}
}

// rowsInReach returns the number of rows of C that addresses reach without a change of the register c. An address has
// only one index, which is the row only if no other vector of the row needs it.
func rowsInReach(s shape, kind tileKind) int {
	if s.vectors > 1 || kind == quad {
		return 1
	}
	return min(s.rows, 8)
}

// peak returns the assembly file with the peak kernels, which measure the peak speed of multiply-adds.
func peak(arch *architecture) string {
	w := newFile(arch, "peak", "These kernels are loops of independent multiply-adds; see the function Peak in level.go.",
		"rounds: number of rounds left")
	for _, set := range arch.sets {
		w.isa = set
		w.setVectors(4, w.bytes/4)
		w.begin("peak"+w.name, "The factor is in register %d.", w.peakSums)
		for i := range w.peakSums + 1 {
			w.vector("xor", i, i, i)
		}
		w.code("MOVE @rounds, rounds; loop:")
		for i := range w.peakSums {
			w.vector("fma", w.peakSums, w.peakSums, i)
		}
		w.code("LOOP rounds, loop; RETURN")
	}
	return w.finish()
}
