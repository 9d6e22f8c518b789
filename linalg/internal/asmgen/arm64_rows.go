package main

// arm64RowBlocks lists the blocks of columns into which row kernels divide rows, widest first.
// Each block is a list of the numbers of float64 in its vectors.
var arm64RowBlocks = [][]int{{2, 2, 2, 2, 2}, {2}, {1}}

// arm64Rows returns the source of the row kernels.
func arm64Rows() string {
	w := newFile(neon, "These kernels process rows of float64; see rows.go and rowArgs. They use these registers:", "",
		"	R0              address of the arguments",
		"	R1-R4           addresses of the operands y, a, b and c at this row",
		"	R5-R8           their strides",
		"	R9-R11          bytes of columns done, columns left, rows left",
		"	V0, V1          the numbers a and c of this row",
		"	V3-V7, V16-V20  products, and sums over rows",
		"",
		"The last two kernels sum two rows each in V0 and V1. They use some registers differently:", "",
		"	R12, R14   addresses of a and b at these columns of the first row",
		"	R13, R15   addresses of a and b at these columns of each row")
	for _, k := range rowKernels {
		w.begin(k.name, "%s", k.doc)
		w.arm64RowKernel(k)
	}
	for _, k := range dotKernels {
		w.begin(k.name, "%s", k.doc)
		w.arm64DotKernel(k)
	}
	return w.finish("Row")
}

// These are the instruction codes of fadd and fmul for vectors of two float64.
const fadd2d, fmul2d = 0x4e60d400, 0x6e60dc00

// arm64RowKernel writes a row kernel. The kernel processes one block of columns after the other,
// and all rows of a block before the next block.
func (w *writer) arm64RowKernel(k rowKernel) {
	w.op("MOVD (rowArgs_y+rowOperand_stride)(R0), R5")
	w.op("MOVD (rowArgs_a+rowOperand_stride)(R0), R6")
	w.op("MOVD (rowArgs_b+rowOperand_stride)(R0), R7")
	w.op("MOVD (rowArgs_c+rowOperand_stride)(R0), R8")
	w.op("MOVD $0, R9")
	w.op("MOVD rowArgs_cols(R0), R10")
	for i, vectors := range arm64RowBlocks {
		columns := 0
		for _, n := range vectors {
			columns += n
		}
		w.section("All rows of %d columns, while at least %[1]d are left.", columns)
		w.label("block%d", i)
		w.op("CMP $%d, R10", columns)
		w.op("BLT block%d", i+1)
		w.arm64RowBlock(k, vectors, i)
		w.op("ADD $%d, R9", 8*columns)
		w.op("SUB $%d, R10", columns)
		w.op("JMP block%d", i)
	}
	w.label("block%d", len(arm64RowBlocks))
	w.op("RET")
}

// arm64RowBlock writes the loop over all rows of one block of columns. The argument vectors lists
// the number of float64 in each vector of the block.
func (w *writer) arm64RowBlock(k rowKernel, vectors []int, block int) {
	pointer := func(register int, field string, o operand) {
		if o == none {
			return
		}
		w.op("MOVD (rowArgs_%s+rowOperand_first)(R0), R%d", field, register)
		if o == matrix {
			w.op("ADD R9, R%d", register)
		}
	}
	instruction := func(n int) string { return map[int]string{1: "FMOVD", 2: "FMOVQ"}[n] }
	load := func(r, base, v, n int) { w.op("%s %d(R%d), F%d", instruction(n), 16*v, base, r) }
	store := func(r, base, v, n int) { w.op("%s F%d, %d(R%d)", instruction(n), r, 16*v, base) }
	const y, a, c, x = 3, 0, 1, 2
	const sums = 16
	pointer(1, "y", matrix)
	pointer(2, "a", k.a)
	pointer(3, "b", matrix)
	pointer(4, "c", k.c)
	if k.sum {
		for v, n := range vectors {
			load(sums+v, 1, v, n)
		}
	}
	w.op("MOVD rowArgs_rows(R0), R11")
	w.label("rows%d", block)
	if k.a == column {
		w.op("VLD1R (R2), [V%d.D2]", a)
	}
	if k.c == column {
		w.op("VLD1R (R4), [V%d.D2]", c)
	}
	for v, n := range vectors {
		load(y+v, 3, v, n)
		switch k.a {
		case column:
			w.registers3(fmul2d, "fmul", "2d", y+v, y+v, a)
		case matrix:
			load(x, 2, v, n)
			w.registers3(fmul2d, "fmul", "2d", y+v, y+v, x)
		}
		switch k.c {
		case column:
			w.registers3(fadd2d, "fadd", "2d", y+v, y+v, c)
		case matrix:
			load(x, 4, v, n)
			w.registers3(fadd2d, "fadd", "2d", y+v, y+v, x)
		}
		if k.sum {
			w.registers3(fadd2d, "fadd", "2d", sums+v, sums+v, y+v)
		} else {
			store(y+v, 1, v, n)
		}
	}
	if !k.sum {
		w.op("ADD R5, R1")
	}
	w.op("ADD R6, R2")
	w.op("ADD R7, R3")
	if k.c != none {
		w.op("ADD R8, R4")
	}
	w.op("SUBS $1, R11")
	w.op("BNE rows%d", block)
	if k.sum {
		for v, n := range vectors {
			store(sums+v, 1, v, n)
		}
	}
}

// arm64DotKernel writes a kernel that sums along each row, four rows at a time. Each lane of the
// two registers of sums belongs to one row and adds the columns of that row in order.
func (w *writer) arm64DotKernel(k rowKernel) {
	w.op("MOVD (rowArgs_y+rowOperand_first)(R0), R1")
	w.op("MOVD (rowArgs_a+rowOperand_first)(R0), R2")
	w.op("MOVD (rowArgs_b+rowOperand_first)(R0), R3")
	w.op("MOVD (rowArgs_y+rowOperand_stride)(R0), R5")
	w.op("MOVD (rowArgs_a+rowOperand_stride)(R0), R6")
	w.op("MOVD (rowArgs_b+rowOperand_stride)(R0), R7")
	w.op("MOVD rowArgs_rows(R0), R11")
	w.label("rows")
	w.zero(0)
	w.zero(1)
	w.op("MOVD R2, R12")
	w.op("MOVD R3, R14")
	w.op("MOVD rowArgs_cols(R0), R10")
	columns := func(n int) {
		instruction := map[int]string{1: "FMOVD", 2: "FMOVQ"}[n]
		w.op("MOVD R14, R15")
		if k.a == matrix {
			w.op("MOVD R12, R13")
		}
		for i := range 4 {
			w.op("%s (R15), F%d", instruction, 2+i)
			if k.a == matrix {
				w.op("%s (R13), F6", instruction)
				w.registers3(fmul2d, "fmul", "2d", 2+i, 2+i, 6)
			}
			if i < 3 {
				w.op("ADD R7, R15")
				if k.a == matrix {
					w.op("ADD R6, R13")
				}
			}
		}
		for i := range 2 {
			w.op("VZIP1 V%d.D2, V%d.D2, V7.D2", 3+2*i, 2+2*i)
			w.registers3(fadd2d, "fadd", "2d", i, i, 7)
			if n == 2 {
				w.op("VZIP2 V%d.D2, V%d.D2, V7.D2", 3+2*i, 2+2*i)
				w.registers3(fadd2d, "fadd", "2d", i, i, 7)
			}
		}
		w.op("ADD $%d, R12", 8*n)
		w.op("ADD $%d, R14", 8*n)
	}
	w.section("Two columns of four rows at a time, then one.")
	w.label("columns")
	w.op("SUBS $2, R10")
	w.op("BLT last")
	columns(2)
	w.op("JMP columns")
	w.label("last")
	w.op("CMP $-1, R10")
	w.op("BNE store")
	columns(1)
	w.section("Add the sums to y.")
	w.label("store")
	for i := range 4 {
		if i%2 == 0 {
			w.op("FMOVD (R1), F2")
			w.op("FADDD F%d, F2", i/2)
		} else {
			w.op("VZIP2 V%d.D2, V%d.D2, V3.D2", i/2, i/2)
			w.op("FMOVD (R1), F2")
			w.op("FADDD F3, F2")
		}
		w.op("FMOVD F2, (R1)")
		w.op("ADD R5, R1")
	}
	w.op("ADD R6<<2, R2")
	w.op("ADD R7<<2, R3")
	w.op("SUBS $4, R11")
	w.op("BNE rows")
	w.op("RET")
}
