package main

import (
	"fmt"
	"slices"
)

// The kernels of float64 work on rows: in each of them an operand is a row of its own or
// one number. They take blocks of columns and go down the rows of a block. Products and
// sums round one after the other, not fused, so that the kernels give the bits of the
// plain loops in internal/kernel/rows.go.
//
// All are AVX2. Rows are as short as a minibatch of the Gaussian experiment, ten numbers,
// and wider vectors would mostly lie across two lines of the cache. Nor are there masks:
// a load that overlaps a masked store, as the next row's does, waits for it to leave.

// A rowKernel computes y = a·b + c for each row, or adds the products a·b to y.
type rowKernel struct {
	name, doc string
	a, c      operand // b is always a row
	sum       bool    // add up a·b over rows
}

type operand int

const (
	none   operand = iota
	row            // as many numbers as y has columns
	number         // one for the whole row
)

var rowKernels = []rowKernel{
	{"rowMul", "y_i = a_i·b_i for numbers a_i", number, none, false},
	{"rowProduct", "y_i = a_i ⊙ b_i", row, none, false},
	{"rowMulAdd", "y_i = a_i·b_i + c_i for numbers a_i", number, row, false},
	{"rowMulAddConst", "y_i = a_i·b_i + c_i for numbers a_i and c_i", number, number, false},
	{"rowProductAdd", "y_i = a_i ⊙ b_i + c_i", row, row, false},
	{"rowAddScaled", "y = y + Σ_i a_i·b_i for numbers a_i", number, none, true},
	{"rowAddProducts", "y = y + Σ_i a_i ⊙ b_i", row, none, true},
}

// The kernels that add up along rows, four rows at a time.
var dotKernels = []rowKernel{
	{"rowDots", "y_i = y_i + a_i·b_i, the dot product, for numbers y_i and a multiple of four rows", row, none, true},
	{"rowSums", "y_i = y_i + the sum of b_i, for numbers y_i and a multiple of four rows", none, none, true},
}

// rowBlocks are the vectors of a block of columns, by how many numbers each has.
var rowBlocks = [][]int{{4, 4, 2}, {4}, {2}, {1}}

// rows returns the file of the kernels on rows of float64.
func rows() string {
	w := writer{isa: avx2}
	w.header("Kernels on rows of float64; see rows.go and rowArgs. In each of them:", "",
		"	DI, R8-R10     the operands y, a, b and c at this row",
		"	R11-R13, BX    how far they go from row to row",
		"	DX, AX, CX     bytes of columns done, columns left, rows left",
		"	Y0, Y1         numbers a and c of this row",
		"	Y3-Y5, Y8-Y10  products, and sums over rows",
		"",
		"and in the last two, where a lane of Y0 is the sum of one of four rows:", "",
		"	R11, R12, DX   a at these columns, the distance of rows, three times that",
		"	BX, R13, R10   the same of b")
	t := &table{door: "row", args: "rowArgs"}
	for _, k := range append(rowKernels, dotKernels...) {
		fmt.Fprintf(&w, "\n// %s\n", k.doc)
		w.local(k.name)
		if slices.Contains(dotKernels, k) {
			w.dotKernel(k)
		} else {
			w.rowKernel(k)
		}
		t.add(k.name)
	}
	w.writeTable(t)
	return w.String()
}

// rowKernel writes a kernel: DX counts the bytes of the columns done, AX the columns left.
func (w *writer) rowKernel(k rowKernel) {
	w.op("MOVQ DI, SI")
	w.op("MOVQ (rowArgs_y+rowOperand_stride)(SI), R11")
	w.op("MOVQ (rowArgs_a+rowOperand_stride)(SI), R12")
	w.op("MOVQ (rowArgs_b+rowOperand_stride)(SI), R13")
	w.op("MOVQ (rowArgs_c+rowOperand_stride)(SI), BX")
	w.op("MOVQ rowArgs_cols(SI), AX")
	w.op("XORQ DX, DX")
	for i, vectors := range rowBlocks {
		columns := 0
		for _, n := range vectors {
			columns += n
		}
		w.note("All rows of %d columns, while there are as many.", columns)
		w.label(fmt.Sprintf("block%d", i))
		w.op("CMPQ AX, $%d", columns)
		w.op("JLT block%d", i+1)
		w.rowBlock(k, vectors, fmt.Sprintf("rows%d", i))
		w.op("ADDQ $%d, DX", 8*columns)
		w.op("SUBQ $%d, AX", columns)
		w.op("JMP block%d", i)
	}
	w.label(fmt.Sprintf("block%d", len(rowBlocks)))
	w.op("VZEROUPPER")
	w.op("RET")
}

// rowBlock writes a block of columns, all rows of it.
func (w *writer) rowBlock(k rowKernel, vectors []int, rows string) {
	w.rowPointer("DI", "y", row)
	w.rowPointer("R8", "a", k.a)
	w.rowPointer("R9", "b", row)
	w.rowPointer("R10", "c", k.c)
	const sums = 8
	if k.sum {
		for v, n := range vectors {
			w.moveRow("DI", v, n, sums+v, false)
		}
	}
	w.op("MOVQ rowArgs_rows(SI), CX")

	w.label(rows)
	const a, c = 0, 1
	if k.a == number {
		w.op("VBROADCASTSD (R8), %s", w.v(a))
	}
	if k.c == number {
		w.op("VBROADCASTSD (R10), %s", w.v(c))
	}
	for v, n := range vectors {
		y := 3 + v
		switch k.a {
		case number:
			w.rowOp("VMUL", "R9", v, n, a, y)
		case row:
			w.moveRow("R8", v, n, y, false)
			w.rowOp("VMUL", "R9", v, n, y, y)
		}
		switch k.c {
		case number:
			w.op("VADDPD %s, %s, %s", w.v(c), w.v(y), w.v(y))
		case row:
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
	w.op("JNZ %s", rows)
	if k.sum {
		for v, n := range vectors {
			w.moveRow("DI", v, n, sums+v, true)
		}
	}
}

// rowPointer sets a register to where an operand's block begins.
func (w *writer) rowPointer(register, field string, o operand) {
	if o == none {
		return
	}
	w.op("MOVQ (rowArgs_%s+rowOperand_first)(SI), %s", field, register)
	if o == row {
		w.op("ADDQ DX, %s", register)
	}
}

// moveRow loads or stores vector v of a block, which has n numbers.
func (w *writer) moveRow(pointer string, v, n, r int, store bool) {
	move := map[int]string{4: "VMOVUPD %[2]d(%[1]s), Y%[3]d", 2: "VMOVUPD %[2]d(%[1]s), X%[3]d", 1: "VMOVSD %[2]d(%[1]s), X%[3]d"}
	if store {
		move = map[int]string{4: "VMOVUPD Y%[3]d, %[2]d(%[1]s)", 2: "VMOVUPD X%[3]d, %[2]d(%[1]s)", 1: "VMOVSD X%[3]d, %[2]d(%[1]s)"}
	}
	w.op(move[n], pointer, 32*v, r)
}

// rowOp sets register d to x ∘ vector v of a block, which has n numbers.
func (w *writer) rowOp(name, pointer string, v, n, x, d int) {
	form := map[int]string{4: "%sPD %d(%s), Y%d, Y%d", 2: "%sPD %d(%s), X%d, X%d", 1: "%sSD %d(%s), X%d, X%d"}
	w.op(form[n], name, 32*v, pointer, x, d)
}

// dotKernel writes a kernel that adds up along rows, four rows at a time: a lane has the
// sum of a row, in the order of columns.
func (w *writer) dotKernel(k rowKernel) {
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
	w.note("Four columns of four rows at a time, then two, then the last.")
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

	w.note("Add the sums to y.")
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

// fourRows are the addresses of the operands a and b at the columns of four rows.
var fourRows = [2][4]string{
	{"(R11)", "(R11)(R12*1)", "(R11)(R12*2)", "(R11)(DX*1)"},
	{"(BX)", "(BX)(R13*1)", "(BX)(R13*2)", "(BX)(R10*1)"},
}

// addFourColumns adds the products of four rows in four columns to the sums: it transposes
// the products, by pairs of rows, then by halves of vectors.
func (w *writer) addFourColumns(k rowKernel) {
	a, b := fourRows[0], fourRows[1]
	for i := range 4 {
		if k.a == row {
			w.op("VMOVUPD %s, Y%d", a[i], 1+i)
			w.op("VMULPD %s, Y%d, Y%d", b[i], 1+i, 1+i)
		} else {
			w.op("VMOVUPD %s, Y%d", b[i], 1+i)
		}
	}
	for i := range 2 { // Y5, Y6: columns 0 and 2, and 1 and 3, of rows 0 and 1; Y7, Y8: of rows 2 and 3
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

// addColumns adds the products of four rows in one or two columns to the sums. Rows 0 and
// 2 share a vector, and rows 1 and 3 another, so that unpacking them leaves a column.
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
		if k.a == row {
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
		if k.a == row {
			pair(a, 3)
			w.op("VMULPD %s, %s, %s", w.v(3), w.v(1+i), w.v(1+i))
		}
	}
	w.op("VUNPCKLPD %s, %s, %s", w.v(2), w.v(1), w.v(3))
	w.op("VUNPCKHPD %s, %s, %s", w.v(2), w.v(1), w.v(4))
	w.op("VADDPD %s, %s, %s", w.v(3), w.v(0), w.v(0))
	w.op("VADDPD %s, %s, %s", w.v(4), w.v(0), w.v(0))
}
