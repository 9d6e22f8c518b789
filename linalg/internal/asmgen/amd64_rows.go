package main

// amd64RowBlocks lists the blocks of columns into which row kernels divide rows, widest first.
// Each block is a list of the numbers of float64 in its vectors.
var amd64RowBlocks = [][]int{{4, 4, 2}, {4}, {2}, {1}}

// amd64Rows returns the source of the row kernels.
func amd64Rows() string {
	w := newFile(avx2, "These kernels process rows of float64; see rows.go and rowArgs. They use these registers:", "",
		"	SI             address of the arguments",
		"	DI, R8-R10     addresses of the operands y, a, b and c at this row",
		"	R11-R13, BX    their strides",
		"	DX, AX, CX     bytes of columns done, columns left, rows left",
		"	Y0, Y1         the numbers a and c of this row",
		"	Y3-Y5, Y8-Y10  products, and sums over rows",
		"",
		"The last two kernels sum four rows in the lanes of Y0. They use some registers differently:", "",
		"	R11, R12, DX   address of a at these columns, row stride of a, three times the stride",
		"	BX, R13, R10   the same for b")
	for _, k := range rowKernels {
		w.begin(k.name, "%s", k.doc)
		w.amd64RowKernel(k)
	}
	for _, k := range dotKernels {
		w.begin(k.name, "%s", k.doc)
		w.amd64DotKernel(k)
	}
	return w.finish("Row")
}

// amd64RowKernel writes a row kernel. The kernel processes one block of columns after the other,
// and all rows of a block before the next block.
func (w *writer) amd64RowKernel(k rowKernel) {
	w.op("MOVQ DI, SI")
	w.op("MOVQ (rowArgs_y+rowOperand_stride)(SI), R11")
	w.op("MOVQ (rowArgs_a+rowOperand_stride)(SI), R12")
	w.op("MOVQ (rowArgs_b+rowOperand_stride)(SI), R13")
	w.op("MOVQ (rowArgs_c+rowOperand_stride)(SI), BX")
	w.op("MOVQ rowArgs_cols(SI), AX")
	w.op("XORQ DX, DX")
	for i, vectors := range amd64RowBlocks {
		columns := 0
		for _, n := range vectors {
			columns += n
		}
		w.section("All rows of %d columns, while at least %[1]d are left.", columns)
		w.label("block%d", i)
		w.op("CMPQ AX, $%d", columns)
		w.op("JLT block%d", i+1)
		w.amd64RowBlock(k, vectors, i)
		w.op("ADDQ $%d, DX", 8*columns)
		w.op("SUBQ $%d, AX", columns)
		w.op("JMP block%d", i)
	}
	w.label("block%d", len(amd64RowBlocks))
	w.op("VZEROUPPER")
	w.op("RET")
}

// amd64RowBlock writes the loop over all rows of one block of columns. vectors[i] is the
// number of float64 values in vector i of the block.
func (w *writer) amd64RowBlock(k rowKernel, vectors []int, block int) {
	w.rowPointer("DI", "y", matrix)
	w.rowPointer("R8", "a", k.a)
	w.rowPointer("R9", "b", matrix)
	w.rowPointer("R10", "c", k.c)
	const sums = 8
	if k.sum {
		for v, n := range vectors {
			w.moveRow("DI", v, n, sums+v, false)
		}
	}
	w.op("MOVQ rowArgs_rows(SI), CX")

	w.label("rows%d", block)
	const a, c = 0, 1
	if k.a == column {
		w.op("VBROADCASTSD (R8), %s", w.v(a))
	}
	if k.c == column {
		w.op("VBROADCASTSD (R10), %s", w.v(c))
	}
	for v, n := range vectors {
		y := 3 + v
		switch k.a {
		case column:
			w.rowOp("VMUL", "R9", v, n, a, y)
		case matrix:
			w.moveRow("R8", v, n, y, false)
			w.rowOp("VMUL", "R9", v, n, y, y)
		}
		switch k.c {
		case column:
			w.op("VADDPD %s, %s, %s", w.v(c), w.v(y), w.v(y))
		case matrix:
			w.rowOp("VADD", "R10", v, n, y, y)
		}
		if k.sum {
			w.op("VADDPD %s, %s, %s", w.v(y), w.v(sums+v), w.v(sums+v))
		} else {
			w.moveRow("DI", v, n, y, true)
		}
	}
	if !k.sum {
		w.op("ADDQ R11, DI")
	}
	w.op("ADDQ R12, R8")
	w.op("ADDQ R13, R9")
	if k.c != none {
		w.op("ADDQ BX, R10")
	}
	w.op("DECQ CX")
	w.op("JNZ rows%d", block)
	if k.sum {
		for v, n := range vectors {
			w.moveRow("DI", v, n, sums+v, true)
		}
	}
}

// rowPointer writes code that sets a register to the address of an operand: of its first row at
// the current block if the operand is a matrix, or of its first number if it is a column.
func (w *writer) rowPointer(register, field string, o operand) {
	if o == none {
		return
	}
	w.op("MOVQ (rowArgs_%s+rowOperand_first)(SI), %s", field, register)
	if o == matrix {
		w.op("ADDQ DX, %s", register)
	}
}

// moveRow writes a load or a store of vector register r. The location in memory is vector v of the
// block of columns at the address in register pointer; vector v has n numbers.
func (w *writer) moveRow(pointer string, v, n, r int, store bool) {
	move := map[int]string{4: "VMOVUPD %[2]d(%[1]s), Y%[3]d", 2: "VMOVUPD %[2]d(%[1]s), X%[3]d", 1: "VMOVSD %[2]d(%[1]s), X%[3]d"}
	if store {
		move = map[int]string{4: "VMOVUPD Y%[3]d, %[2]d(%[1]s)", 2: "VMOVUPD X%[3]d, %[2]d(%[1]s)", 1: "VMOVSD X%[3]d, %[2]d(%[1]s)"}
	}
	w.op(move[n], pointer, 32*v, r)
}

// rowOp writes d = x ∘ m, where d and x are vector registers and m is in memory: vector v of the
// block of columns at the address in register pointer. The vector has n numbers.
func (w *writer) rowOp(name, pointer string, v, n, x, d int) {
	form := map[int]string{4: "%sPD %d(%s), Y%d, Y%d", 2: "%sPD %d(%s), X%d, X%d", 1: "%sSD %d(%s), X%d, X%d"}
	w.op(form[n], name, 32*v, pointer, x, d)
}

// amd64DotKernel writes a kernel that sums along each row, four rows at a time. Each lane of the
// register of sums belongs to one row and adds the columns of that row in order.
func (w *writer) amd64DotKernel(k rowKernel) {
	const sum = 0
	w.op("MOVQ DI, SI")
	w.op("MOVQ (rowArgs_y+rowOperand_first)(SI), DI")
	w.op("MOVQ (rowArgs_a+rowOperand_first)(SI), R8")
	w.op("MOVQ (rowArgs_b+rowOperand_first)(SI), R9")
	w.op("MOVQ (rowArgs_a+rowOperand_stride)(SI), R12")
	w.op("MOVQ (rowArgs_b+rowOperand_stride)(SI), R13")
	w.op("LEAQ (R12)(R12*2), DX")
	w.op("LEAQ (R13)(R13*2), R10")
	w.op("MOVQ rowArgs_rows(SI), CX")

	w.label("rows")
	w.op("VXORPD %s, %s, %s", w.v(sum), w.v(sum), w.v(sum))
	w.op("MOVQ R8, R11")
	w.op("MOVQ R9, BX")
	w.op("MOVQ rowArgs_cols(SI), AX")
	w.section("Four columns of four rows at a time, then two, then one.")
	w.label("columns")
	w.op("SUBQ $4, AX")
	w.op("JLT pair")
	w.addFourColumns(k)
	w.op("ADDQ $32, R11")
	w.op("ADDQ $32, BX")
	w.op("JMP columns")
	w.label("pair")
	w.op("ADDQ $2, AX")
	w.op("JLT last")
	w.addColumns(k, 2)
	w.op("ADDQ $16, R11")
	w.op("ADDQ $16, BX")
	w.op("SUBQ $2, AX")
	w.label("last")
	w.op("CMPQ AX, $-1")
	w.op("JNE store")
	w.addColumns(k, 1)

	w.section("Add the sums to y.")
	w.label("store")
	w.op("VEXTRACTF128 $1, %s, X2", w.v(sum))
	w.op("VUNPCKHPD X0, X0, X1")
	w.op("VUNPCKHPD X2, X2, X3")
	for i := range 4 {
		w.op("VADDSD (DI), X%d, X%d", i, i)
		w.op("VMOVSD X%d, (DI)", i)
		w.op("ADDQ (rowArgs_y+rowOperand_stride)(SI), DI")
	}
	w.op("LEAQ (R8)(R12*4), R8")
	w.op("LEAQ (R9)(R13*4), R9")
	w.op("SUBQ $4, CX")
	w.op("JNZ rows")
	w.op("VZEROUPPER")
	w.op("RET")
}

// fourRows holds the assembly operands for the current four rows of the operands a and b.
var fourRows = [2][4]string{
	{"(R11)", "(R11)(R12*1)", "(R11)(R12*2)", "(R11)(DX*1)"},
	{"(BX)", "(BX)(R13*1)", "(BX)(R13*2)", "(BX)(R10*1)"},
}

// addFourColumns writes code that adds four columns to the sums of four rows. The code multiplies
// row by row and then transposes the 4×4 products: first it interleaves pairs of rows, then it
// combines halves of vectors.
func (w *writer) addFourColumns(k rowKernel) {
	a, b := fourRows[0], fourRows[1]
	for i := range 4 {
		if k.a == matrix {
			w.op("VMOVUPD %s, Y%d", a[i], 1+i)
			w.op("VMULPD %s, Y%d, Y%d", b[i], 1+i, 1+i)
		} else {
			w.op("VMOVUPD %s, Y%d", b[i], 1+i)
		}
	}
	for i := range 2 { // Y5 = columns 0 and 2 of rows 0 and 1, Y6 = columns 1 and 3; Y7, Y8 = the same of rows 2 and 3
		w.op("VUNPCKLPD Y%d, Y%d, Y%d", 2+2*i, 1+2*i, 5+2*i)
		w.op("VUNPCKHPD Y%d, Y%d, Y%d", 2+2*i, 1+2*i, 6+2*i)
	}
	for i := range 2 {
		w.op("VINSERTF128 $1, X%d, Y%d, Y%d", 7+i, 5+i, 1+i)
		w.op("VPERM2F128 $0x31, Y%d, Y%d, Y%d", 7+i, 5+i, 3+i)
	}
	for i := range 4 {
		w.op("VADDPD Y%d, Y0, Y0", 1+i)
	}
}

// addColumns writes code that adds one or two columns to the sums of four rows. For two columns,
// one vector holds rows 0 and 2 and another vector holds rows 1 and 3, so that unpacking the two
// vectors yields the columns.
func (w *writer) addColumns(k rowKernel, columns int) {
	a, b := fourRows[0][:], fourRows[1][:]
	if columns == 1 {
		gather := func(rows []string, r int) {
			w.op("VMOVSD %s, X%d", rows[0], r)
			w.op("VMOVHPD %s, X%d, X%d", rows[1], r, r)
			w.op("VMOVSD %s, X%d", rows[2], r+1)
			w.op("VMOVHPD %s, X%d, X%d", rows[3], r+1, r+1)
			w.op("VINSERTF128 $1, X%d, %s, %s", r+1, w.v(r), w.v(r))
		}
		gather(b, 1)
		if k.a == matrix {
			gather(a, 3)
			w.op("VMULPD %s, %s, %s", w.v(3), w.v(1), w.v(1))
		}
		w.op("VADDPD %s, %s, %s", w.v(1), w.v(0), w.v(0))
		return
	}
	for i := range 2 {
		pair := func(rows []string, r int) {
			w.op("VMOVUPD %s, X%d", rows[i], r)
			w.op("VINSERTF128 $1, %s, %s, %s", rows[i+2], w.v(r), w.v(r))
		}
		pair(b, 1+i)
		if k.a == matrix {
			pair(a, 3)
			w.op("VMULPD %s, %s, %s", w.v(3), w.v(1+i), w.v(1+i))
		}
	}
	w.op("VUNPCKLPD %s, %s, %s", w.v(2), w.v(1), w.v(3))
	w.op("VUNPCKHPD %s, %s, %s", w.v(2), w.v(1), w.v(4))
	w.op("VADDPD %s, %s, %s", w.v(3), w.v(0), w.v(0))
	w.op("VADDPD %s, %s, %s", w.v(4), w.v(0), w.v(0))
}
