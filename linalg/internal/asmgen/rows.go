package main

// The row kernels process rows of float64. In the Gaussian experiment, a row has only ten numbers, one for each draw in
// a minibatch. Products and sums are rounded separately, so the results are bit-identical to the results of plain Go.
//
// On amd64, all row kernels use AVX2, because most loads of wider vectors would cross a boundary between cache lines.
// They do not use masks: the masked store at the end of a row would span the start of the next row, so the load of the
// next row would have to wait until the store has completed.

// A rowKernel describes a row kernel. The field doc is a formula, in which x_i is row i of the operand x, or element i
// if x is a column.
type rowKernel struct {
	name, doc string
	emit      func(w *assembler)
}

// rowKernels[i] is the row kernel with index i.
var rowKernels = []rowKernel{
	{"rowScaleShift", "y_i = a_i·b_i + c_i for columns a and c", func(w *assembler) { w.mulAdd(true, true) }},
	{"rowScaleAdd", "y_i = a_i·b_i + c_i for a column a", func(w *assembler) { w.mulAdd(true, false) }},
	{"rowMulShift", "y_i = a_i ⊙ b_i + c_i for a column c", func(w *assembler) { w.mulAdd(false, true) }},
	{"rowMulAdd", "y_i = a_i ⊙ b_i + c_i", func(w *assembler) { w.mulAdd(false, false) }},
	{"rowAddDots", "y_i = y_i + Σ_j a_ij·b_ij for a column y; the number of rows must be a multiple of four", (*assembler).dots},
}

func rows(arch *architecture) string {
	registers := []string{
		"y: address of row i of y", "a: address of row i of a", "b: address of row i of b",
		"c, aPart: address of row i of c; in rowAddDots, of a part of a",
		"yStride, bPart: row stride of y; in rowAddDots, address of a part of b",
		"aRow1: row stride of a", "bRow1: row stride of b",
		"cStride, aRow3: row stride of c; in rowAddDots, 3 times the row stride of a",
		"done, bRow3: number of bytes done in a row; in rowAddDots, 3 times the row stride of b",
		"cols: number of columns left", "rows: number of rows left",
	}
	if arch == arm64 {
		registers = append(registers, "aRow2: 2 times the row stride of a", "bRow2: 2 times the row stride of b")
	}
	w := newFile(arch, "row", "These kernels process rows of float64; see rows.go and rowArgs.", registers...)
	w.isa = arch.sets[len(arch.sets)-1]
	for _, k := range rowKernels {
		w.begin(k.name, "%s", k.doc)
		k.emit(w)
		w.code("RETURN")
	}
	return w.finish()
}

// blocks emits code that processes a row in blocks of adjacent columns, widest blocks first. The function f emits code
// for a block of n columns. After each block, the code subtracts n from the register cols and adds 8·n to the given
// registers.
func (w *assembler) blocks(widths []int, f func(n int), addresses ...string) {
	for i, n := range widths {
		w.comment("Blocks of %d columns.", n)
		w.code("block%d:; JLESS cols, $%d, block%d", i, n, i+1)
		f(n)
		for _, a := range addresses {
			w.code("ADD $%d, %s", 8*n, a)
		}
		w.code("SUB $%d, cols; JUMP block%d", n, i)
	}
	w.code("block%d:", len(widths))
}

// mulAdd emits a row kernel that computes y_i = a_i ⊙ b_i + c_i, where a and c are columns or matrices. The kernel
// processes one block of columns after another. In each row, a block consists of whole vectors and at most one shorter
// vector.
func (w *assembler) mulAdd(aColumn, cColumn bool) {
	const a, c, temp, product = 0, 1, 2, 3
	lanes := w.bytes / 8
	w.code("MOVE @y.stride, yStride; MOVE @a.stride, aRow1; MOVE @b.stride, bRow1; MOVE @c.stride, cStride")
	w.code("MOVE $0, done; MOVE @cols, cols")
	w.blocks([]int{10, lanes, 1}, func(n int) {
		column := map[string]bool{"a": aColumn, "c": cColumn}
		for _, operand := range []string{"y", "a", "b", "c"} {
			w.code("MOVE @%s.first, %[1]s", operand)
			if !column[operand] {
				w.code("ADD done, %s", operand)
			}
		}
		w.code("MOVE @rows, rows; rows%d:", n)
		w.setVectors(8, lanes)
		if aColumn {
			w.broadcast(address{base: "a"}, a)
		}
		if cColumn {
			w.broadcast(address{base: "c"}, c)
		}
		for v := 0; v*lanes < n; v++ {
			w.setVectors(8, min(lanes, n-v*lanes))
			x, offset := product+v, 8*v*lanes
			factor := a
			if !aColumn {
				factor = x
				w.load(address{base: "a", offset: offset}, x)
			}
			w.vectorMemory("mul", factor, address{base: "b", offset: offset}, x, temp)
			if cColumn {
				w.vector("add", x, c, x)
			} else {
				w.vectorMemory("add", x, address{base: "c", offset: offset}, x, temp)
			}
			w.store(x, address{base: "y", offset: offset})
		}
		w.code("ADD yStride, y; ADD aRow1, a; ADD bRow1, b; ADD cStride, c; LOOP rows, rows%d", n)
	}, "done")
}

// dots emits a kernel that computes a dot product for each row, four rows at a time. The products of a row are added
// from left to right. The four sums are in the lanes of register 0, or of registers 0 and 1 if a register has two
// lanes.
func (w *assembler) dots() {
	lanes := w.bytes / 8
	w.code("MOVE @y.first, y; MOVE @a.first, a; MOVE @b.first, b; MOVE @rows, rows")
	w.loadStride("a.stride", "aRow", 4)
	w.loadStride("b.stride", "bRow", 4)
	w.setVectors(8, lanes)
	w.code("fourRows:")
	for s := range 4 / lanes {
		w.vector("xor", s, s, s)
	}
	w.code("MOVE a, aPart; MOVE b, bPart; MOVE @cols, cols")
	widths := []int{4, 2, 1}[4/lanes-1:]
	w.blocks(widths, w.addColumns, "aPart", "bPart")
	w.comment("Add the sums of the four rows to y.")
	w.code("MOVE @y.stride, cols")
	for i := range 4 {
		w.setVectors(8, 2)
		s := i / 2 // register whose first two lanes are the sums of rows 2s and 2s + 1
		if i == 2 && lanes == 4 {
			w.op("VEXTRACTF128 $1, Y0, X1")
		}
		if i%2 == 1 {
			w.vector("interleaveHigh", s, s, 2)
			s = 2
		}
		w.setVectors(8, 1)
		w.vectorMemory("add", s, address{base: "y"}, 3, 3)
		w.store(3, address{base: "y"})
		w.code("ADD cols, y")
	}
	w.setVectors(8, lanes)
	w.code("INDEX4 aRow1, a, a; INDEX4 bRow1, b, b; SUB $4, rows; JLEAST rows, $1, fourRows")
}

// addColumns emits code that adds n columns of products a_ij·b_ij to the sums of four rows. The code computes the
// products of each row, transposes the matrix of products, and adds the rows of the transposed matrix to the sums.
func (w *assembler) addColumns(n int) {
	w.setVectors(8, w.bytes/8)
	if n == 4 {
		w.addFourColumns()
		return
	}
	// Each iteration of the loop below computes products in registers p + i for i = 0 and 1. If a vector has two lanes,
	// there are two iterations, and in iteration s, register p + i holds the products of row 2s + i. If a vector has
	// four lanes, there is one iteration, and the two halves of register p + i hold the products of rows i and i + 2.
	const p, a, temp, column = 2, 4, 5, 6
	load := func(part, row string, i, r int) {
		w.setVectors(8, n)
		w.load(w.at(part, row, i), r)
		if w.bytes == 32 {
			w.load(w.at(part, row, i+2), temp)
			w.op("VINSERTF128 $1, X%d, Y%d, Y%[2]d", temp, r)
		}
		w.setVectors(8, w.bytes/8)
	}
	for s := range 32 / w.bytes {
		for i := range 2 {
			load("bPart", "bRow", 2*s+i, p+i)
			load("aPart", "aRow", 2*s+i, a)
			w.vector("mul", p+i, a, p+i)
		}
		for c := range n {
			w.vector([...]string{"interleaveLow", "interleaveHigh"}[c], p, p+1, column)
			w.vector("add", s, column, s)
		}
	}
}

// addFourColumns emits AVX2 code that does the work of addColumns for four columns at once: it adds products a_ij·b_ij
// to the sums of four rows. The code transposes the 4×4 matrix of products, so that each column becomes a vector. To do
// so, it interleaves pairs of rows and then combines halves of the resulting vectors.
func (w *assembler) addFourColumns() {
	for i := range 4 {
		w.load(w.at("aPart", "aRow", i), 1+i)
		w.vectorMemory("mul", 1+i, w.at("bPart", "bRow", i), 1+i, 0)
	}
	for i := range 2 { // rows 0 and 1: Y5 = columns 0 and 2, Y6 = columns 1 and 3; rows 2 and 3: Y7 and Y8
		w.vector("interleaveLow", 1+2*i, 2+2*i, 5+2*i)
		w.vector("interleaveHigh", 1+2*i, 2+2*i, 6+2*i)
	}
	for i := range 2 {
		w.op("VINSERTF128 $1, X%d, Y%d, Y%d", 7+i, 5+i, 1+i)
		w.op("VPERM2F128 $0x31, Y%d, Y%d, Y%d", 7+i, 5+i, 3+i)
	}
	for i := range 4 {
		w.vector("add", 0, 1+i, 0)
	}
}
