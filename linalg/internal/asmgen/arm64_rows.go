package main

import "fmt"

// arm64RowBlocks lists the blocks of columns into which a row kernel divides a matrix, widest first.
var arm64RowBlocks = []rowBlock{{10, []int{2, 2, 2, 2, 2}}, {2, []int{2}}, {1, []int{1}}}

// arm64Rows returns the assembly file with the row kernels.
func arm64Rows() string {
	w := newFile(neon, "row", `These kernels process rows of float64; see rows.go and rowArgs. They use these registers:

	R0              address of the arguments
	R1-R4           addresses of row i of the operands y, a, b and c
	R5-R8           row strides of y, a, b and c
	R9-R11          number of bytes done in a row, numbers of columns and rows left
	V0, V1          the numbers a_i and c_i in all lanes
	V3-V7, V16-V20  elements of a row, and sums over rows

The kernel rowAddDots computes the sums of four rows in the lanes of V0 and V1. It uses some registers
differently:

	R12, R14   addresses of a and b in the first of the four rows
	R13, R15   addresses of a and b in the current row`)
	for _, k := range rowKernels {
		w.begin(k.name, "%s", k.doc)
		if k.y == column {
			w.arm64DotKernel()
		} else {
			w.arm64RowKernel(k)
		}
		w.op("RET")
	}
	return w.finish()
}

// arm64RowMoves[n] is the instruction that loads or stores a vector of n float64.
var arm64RowMoves = map[int]string{1: "FMOVD", 2: "FMOVQ"}

// mul64 and add64 emit d = a·b and d = a + b for vectors of two float64.
func (w *writer) mul64(d, a, b int) { w.registers3(0x6e60dc00, "fmul", "2d", d, a, b) }
func (w *writer) add64(d, a, b int) { w.registers3(0x4e60d400, "fadd", "2d", d, a, b) }

// arm64RowKernel emits a row kernel, which processes one block of columns after the other.
func (w *writer) arm64RowKernel(k rowKernel) {
	w.loadArgs("y.stride R5", "a.stride R6", "b.stride R7", "c.stride R8")
	w.op("MOVD $0, R9")
	w.loadArgs("cols R10")
	for i, b := range arm64RowBlocks {
		w.section("Compute columns in blocks of %d.", b.columns)
		w.label("block%d", i)
		w.op("CMP $%d, R10; BLT block%d", b.columns, i+1)
		w.arm64RowBlock(k, b.vectors, i)
		w.op("ADD $%d, R9; SUB $%d, R10; JMP block%d", 8*b.columns, b.columns, i)
	}
	w.label("block%d", len(arm64RowBlocks))
}

// arm64RowBlock emits the loop over the rows of a block of columns; see rowBlock.
func (w *writer) arm64RowBlock(k rowKernel, vectors []int, block int) {
	load := func(pointer, v, r int) { w.op("%s %d(R%d), F%d", arm64RowMoves[vectors[v]], 16*v, pointer, r) }
	store := func(r, pointer, v int) { w.op("%s F%d, %d(R%d)", arm64RowMoves[vectors[v]], r, 16*v, pointer) }
	operands := []operandKind{k.y, k.a, matrix, k.c}
	for i, o := range operands {
		if o != none {
			w.loadArgs(fmt.Sprintf("%c.first R%d", "yabc"[i], 1+i))
		}
		if o == matrix || o == single {
			w.op("ADD R9, R%d", 1+i)
		}
	}
	const a, c, x, product, sum = 0, 1, 2, 3, 16
	if k.y == single {
		for v := range vectors {
			load(1, v, sum+v)
		}
	}
	w.loadArgs("rows R11")
	w.label("rows%d", block)
	if k.a == column {
		w.op("VLD1R (R2), [V%d.D2]", a)
	}
	if k.c == column {
		w.op("VLD1R (R4), [V%d.D2]", c)
	}
	for v := range vectors {
		y := product + v
		load(3, v, y)
		if k.a == column {
			w.mul64(y, y, a)
		} else {
			load(2, v, x)
			w.mul64(y, y, x)
		}
		switch k.c {
		case column:
			w.add64(y, y, c)
		case matrix:
			load(4, v, x)
			w.add64(y, y, x)
		}
		if k.y == single {
			w.add64(sum+v, sum+v, y)
		} else {
			store(y, 1, v)
		}
	}
	for i, o := range operands {
		if o == matrix || o == column {
			w.op("ADD R%d, R%d", 5+i, 1+i)
		}
	}
	w.op("SUBS $1, R11; BNE rows%d", block)
	if k.y == single {
		for v := range vectors {
			store(sum+v, 1, v)
		}
	}
}

// arm64DotKernel emits a kernel that computes a dot product for each row, four rows at a time. Each lane of
// V0 and V1 contains the sum of one row. The elements of a row are added from left to right.
func (w *writer) arm64DotKernel() {
	w.loadArgs("y.first R1", "a.first R2", "b.first R3", "y.stride R5", "a.stride R6", "b.stride R7", "rows R11")
	w.label("rows")
	w.zero(0)
	w.zero(1)
	w.op("MOVD R2, R12; MOVD R3, R14")
	w.loadArgs("cols R10")
	w.section("Add two columns of four rows at a time, then one.")
	w.label("columns")
	w.op("SUBS $2, R10; BLT last")
	w.arm64AddColumns(2)
	w.op("JMP columns")
	w.label("last")
	w.op("CMP $-1, R10; BNE store")
	w.arm64AddColumns(1)
	w.section("Add the sums of the four rows to y.")
	w.label("store")
	for i := range 4 {
		sum := i / 2
		if i%2 == 1 {
			w.op("VZIP2 V%d.D2, V%d.D2, V3.D2", sum, sum)
			sum = 3
		}
		w.op("FMOVD (R1), F2; FADDD F%d, F2; FMOVD F2, (R1); ADD R5, R1", sum)
	}
	w.op("ADD R6<<2, R2; ADD R7<<2, R3")
	w.op("SUBS $4, R11; BNE rows")
}

// arm64AddColumns emits code that adds one or two columns to the sums of four rows.
func (w *writer) arm64AddColumns(columns int) {
	w.op("MOVD R14, R15; MOVD R12, R13")
	for i := range 4 {
		w.op("%s (R15), F%d", arm64RowMoves[columns], 2+i)
		w.op("%s (R13), F6", arm64RowMoves[columns])
		w.mul64(2+i, 2+i, 6)
		if i < 3 {
			w.op("ADD R7, R15; ADD R6, R13")
		}
	}
	for i := range 2 {
		for column := range columns {
			w.op("VZIP%d V%d.D2, V%d.D2, V7.D2", 1+column, 3+2*i, 2+2*i)
			w.add64(i, i, 7)
		}
	}
	w.op("ADD $%d, R12; ADD $%d, R14", 8*columns, 8*columns)
}
