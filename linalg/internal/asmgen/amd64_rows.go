package main

// amd64RowBlocks lists the blocks of columns into which a row kernel divides a matrix, widest first.
var amd64RowBlocks = []rowBlock{{10, []int{4, 4, 2}}, {4, []int{4}}, {1, []int{1}}}

// amd64Rows returns the assembly file with the row kernels.
func amd64Rows() string {
	w := newFile(avx2, "row", `These kernels process rows of float64; see rows.go and rowArgs. They use these registers:

	DI             address of the arguments
	SI, R8-R10     addresses of row i of the operands y, a, b and c
	R11-R13, BX    row strides of y, a, b and c
	DX, AX, CX     number of bytes done in a row, numbers of columns and rows left
	Y0, Y1         the numbers a_i and c_i in all lanes
	Y3-Y5, Y8-Y10  elements of a row, and sums over rows

The kernel rowAddDots computes the sums of four rows in the lanes of Y0. It uses some registers
differently:

	R11, BX    addresses of a and b in the first of the four rows
	R12, R13   row strides of a and b
	DX, R10    three times these strides`)
	for _, k := range rowKernels {
		w.begin(k.name, "%s", k.doc)
		if k.y == column {
			w.amd64DotKernel()
		} else {
			w.amd64RowKernel(k)
		}
		w.op("VZEROUPPER; RET")
	}
	return w.finish()
}

// amd64RowKernel emits a row kernel, which processes one block of columns after the other.
func (w *writer) amd64RowKernel(k rowKernel) {
	w.loadArgs("y.stride R11", "a.stride R12", "b.stride R13", "c.stride BX", "cols AX")
	w.op("XORQ DX, DX")
	for i, b := range amd64RowBlocks {
		w.section("Compute columns in blocks of %d.", b.columns)
		w.label("block%d", i)
		w.op("CMPQ AX, $%d; JLT block%d", b.columns, i+1)
		w.amd64RowBlock(k, b.vectors, i)
		w.op("ADDQ $%d, DX; SUBQ $%d, AX; JMP block%d", 8*b.columns, b.columns, i)
	}
	w.label("block%d", len(amd64RowBlocks))
}

// amd64RowBlock emits the loop over the rows of a block of columns; see rowBlock.
func (w *writer) amd64RowBlock(k rowKernel, vectors []int, block int) {
	// In the functions below, pointer is the name of the register that contains the address of vector 0 of a row.
	// Vector v is 32·v bytes after vector 0.
	moves := map[int]string{1: "VMOVSD", 2: "VMOVUPD", 4: "VMOVUPD"}
	registers := map[int]string{1: "X", 2: "X", 4: "Y"}
	load := func(pointer string, v, r int) {
		n := vectors[v]
		w.op("%s %d(%s), %s%d", moves[n], 32*v, pointer, registers[n], r)
	}
	store := func(r int, pointer string, v int) {
		n := vectors[v]
		w.op("%s %s%d, %d(%s)", moves[n], registers[n], r, 32*v, pointer)
	}
	compute := func(name, pointer string, v, x, d int) { // emits d = x ∘ vector v
		n := vectors[v]
		w.op("%s%s %d(%s), %s%d, %[5]s%[7]d", name, map[int]string{1: "SD", 2: "PD", 4: "PD"}[n], 32*v, pointer, registers[n], x, d)
	}
	pointers, strides := []string{"SI", "R8", "R9", "R10"}, []string{"R11", "R12", "R13", "BX"}
	operands := []operandKind{k.y, k.a, matrix, k.c}
	for i, o := range operands {
		if o != none {
			w.loadArgs("yabc"[i:i+1] + ".first " + pointers[i])
		}
		if o == matrix || o == single {
			w.op("ADDQ DX, %s", pointers[i])
		}
	}
	const a, c, product, sum = 0, 1, 3, 8
	if k.y == single {
		for v := range vectors {
			load("SI", v, sum+v)
		}
	}
	w.loadArgs("rows CX")

	w.label("rows%d", block)
	if k.a == column {
		w.op("VBROADCASTSD (R8), %s", w.v(a))
	}
	if k.c == column {
		w.op("VBROADCASTSD (R10), %s", w.v(c))
	}
	for v := range vectors {
		y := product + v
		if k.a == column {
			compute("VMUL", "R9", v, a, y)
		} else {
			load("R8", v, y)
			compute("VMUL", "R9", v, y, y)
		}
		switch k.c {
		case column:
			w.op("VADDPD %s, %s, %s", w.v(c), w.v(y), w.v(y))
		case matrix:
			compute("VADD", "R10", v, y, y)
		}
		if k.y == single {
			w.op("VADDPD %s, %s, %s", w.v(y), w.v(sum+v), w.v(sum+v))
		} else {
			store(y, "SI", v)
		}
	}
	for i, o := range operands {
		if o == matrix || o == column {
			w.op("ADDQ %s, %s", strides[i], pointers[i])
		}
	}
	w.op("DECQ CX; JNZ rows%d", block)
	if k.y == single {
		for v := range vectors {
			store(sum+v, "SI", v)
		}
	}
}

// amd64DotKernel emits a kernel that computes a dot product for each row, four rows at a time. Each lane of Y0
// contains the sum of one row. The elements of a row are added from left to right.
func (w *writer) amd64DotKernel() {
	const sum = 0
	w.loadArgs("y.first SI", "a.first R8", "b.first R9", "a.stride R12", "b.stride R13")
	w.op("LEAQ (R12)(R12*2), DX; LEAQ (R13)(R13*2), R10")
	w.loadArgs("rows CX")

	w.label("rows")
	w.op("VXORPD %s, %s, %s", w.v(sum), w.v(sum), w.v(sum))
	w.op("MOVQ R8, R11; MOVQ R9, BX")
	w.loadArgs("cols AX")
	w.section("Add four columns of four rows at a time, then two, then one.")
	w.label("columns")
	w.op("SUBQ $4, AX; JLT pair")
	w.addFourColumns()
	w.op("ADDQ $32, R11; ADDQ $32, BX; JMP columns")
	w.label("pair")
	w.op("ADDQ $2, AX; JLT last")
	w.addTwoColumns()
	w.op("ADDQ $16, R11; ADDQ $16, BX; SUBQ $2, AX")
	w.label("last")
	w.op("CMPQ AX, $-1; JNE store")
	w.addOneColumn()

	w.section("Add the sums of the four rows to y.")
	w.label("store")
	w.op("VEXTRACTF128 $1, %s, X2", w.v(sum))
	w.op("VUNPCKHPD X0, X0, X1; VUNPCKHPD X2, X2, X3")
	for i := range 4 {
		w.op("VADDSD (SI), X%d, X%d; VMOVSD X%d, (SI)", i, i, i)
		w.op("ADDQ %s, SI", w.arg("y.stride"))
	}
	w.op("LEAQ (R8)(R12*4), R8; LEAQ (R9)(R13*4), R9")
	w.op("SUBQ $4, CX; JNZ rows")
}

// aRows and bRows contain the memory operands for four rows of a and four rows of b.
var (
	aRows = [4]string{"(R11)", "(R11)(R12*1)", "(R11)(R12*2)", "(R11)(DX*1)"}
	bRows = [4]string{"(BX)", "(BX)(R13*1)", "(BX)(R13*2)", "(BX)(R10*1)"}
)

// addFourColumns emits code that adds four columns to the sums of four rows. The code multiplies the
// rows, transposes the 4×4 matrix of products and adds the resulting vectors. To transpose, it
// interleaves pairs of rows and combines halves of the results.
func (w *writer) addFourColumns() {
	for i := range 4 {
		w.op("VMOVUPD %s, Y%d", aRows[i], 1+i)
		w.op("VMULPD %s, Y%d, Y%d", bRows[i], 1+i, 1+i)
	}
	for i := range 2 { // rows 0 and 1: Y5 = columns 0 and 2, Y6 = columns 1 and 3; rows 2 and 3: Y7 and Y8
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

// addTwoColumns emits code that adds two columns to the sums of four rows. The code loads rows 0 and 2 into
// one vector, and rows 1 and 3 into another. Interleaving the two vectors gives one vector for each column.
func (w *writer) addTwoColumns() {
	load := func(rows [4]string, i, r int) {
		w.op("VMOVUPD %s, X%d", rows[i], r)
		w.op("VINSERTF128 $1, %s, Y%d, Y%d", rows[i+2], r, r)
	}
	for i := range 2 {
		load(bRows, i, 1+i)
		load(aRows, i, 3)
		w.op("VMULPD Y3, Y%d, Y%d", 1+i, 1+i)
	}
	w.op("VUNPCKLPD Y2, Y1, Y3; VUNPCKHPD Y2, Y1, Y4")
	w.op("VADDPD Y3, Y0, Y0; VADDPD Y4, Y0, Y0")
}

// addOneColumn emits code that adds one column to the sums of four rows.
func (w *writer) addOneColumn() {
	load := func(rows [4]string, r int) {
		for i := range 2 {
			w.op("VMOVSD %s, X%d", rows[2*i], r+i)
			w.op("VMOVHPD %s, X%d, X%d", rows[2*i+1], r+i, r+i)
		}
		w.op("VINSERTF128 $1, X%d, Y%d, Y%d", r+1, r, r)
	}
	load(bRows, 1)
	load(aRows, 3)
	w.op("VMULPD Y3, Y1, Y1")
	w.op("VADDPD Y1, Y0, Y0")
}
