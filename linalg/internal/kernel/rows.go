package kernel

import (
	"math"
	"unsafe"
)

// The functions in this file implement the loops of broadcasting operations. An operand consists of a slice and its
// strides: element (i, j) of a is a[i·ar + j·ac], where ac is 1 or 0. If ar is 0, all rows are equal. If ac is 0, all
// elements of a row are equal. An operand without a parameter for the column stride has column stride 1.
//
// The row kernels support only float64. For float32 with SIMD, AddSums and AddRows use the kernels of contractions.
// Most functions are not inlined, so that the compiler keeps the operands in registers. This saves a third of the time
// for short rows.

type rowArgs struct {
	y, a, b, c rowOperand
	rows, cols int
}

// A rowOperand describes an operand of a row kernel by the address of its first element and its row stride in bytes.
type rowOperand struct {
	first  unsafe.Pointer
	stride int
}

// minSIMD is the minimum number of elements for a SIMD kernel. The overhead of a kernel call is about the time that
// plain Go needs for 20 elements.
const minSIMD = 20

// operand returns the kernel argument for an operand [rows×n] with elements s[i·row + j·col]. It panics if s is too
// short or if the row stride is negative, because the kernels do not check bounds.
func operand[T Float](s []T, row, col, rows, n int) rowOperand {
	if row < 0 {
		panic("kernel: negative row stride")
	}
	_ = s[(rows-1)*row+(n-1)*col]
	return rowOperand{pointer(s), 8 * row}
}

// MulAddRows sets y = a ⊙ b + c for a matrix y with n columns. The row strides of a, b and c are ar, br and cr, and the
// column strides are ac, bc and cc. A nil c means zero. If ac and bc are 0, a slow loop in plain Go computes the
// result.
//
//go:noinline
func MulAddRows[T Float](y []T, n int, a []T, ar, ac int, b []T, br, bc int, c []T, cr, cc int) {
	if len(y) == 0 {
		return
	}
	if bc == 0 { // exchange the factors, so that b varies along each row unless both factors are constant
		a, ar, ac, b, br, bc = b, br, bc, a, ar, ac
	}
	if c == nil {
		c, cr, cc = []T{T(math.Copysign(0, -1))}, 0, 0 // x + (−0) is x, even if x is −0
	}
	rows := len(y) / n
	if simd64[T]() && len(y) >= minSIMD && bc == 1 {
		kernel := [2][2]int{{rowScaleShift, rowScaleAdd}, {rowMulShift, rowMulAdd}}[ac][cc]
		callRow(kernel, &rowArgs{
			y: operand(y, n, 1, rows, n), a: operand(a, ar, ac, rows, n),
			b: operand(b, br, 1, rows, n), c: operand(c, cr, cc, rows, n),
			rows: rows, cols: n,
		})
		return
	}
	if bc == 0 {
		for i := range rows {
			for j := range n {
				y[i*n+j] = T(a[i*ar+j*ac]*b[i*br]) + c[i*cr+j*cc]
			}
		}
		return
	}
	for i := range rows {
		y, q := y[i*n:][:n], b[i*br:][:n]
		switch {
		case ac == 0 && cc == 0:
			s, r := a[i*ar], c[i*cr]
			for j := range y {
				y[j] = T(s*q[j]) + r
			}
		case ac == 0:
			s, r := a[i*ar], c[i*cr:][:n]
			for j := range y {
				y[j] = T(s*q[j]) + r[j]
			}
		case cc == 0:
			p, r := a[i*ar:][:n], c[i*cr]
			for j := range y {
				y[j] = T(p[j]*q[j]) + r
			}
		default:
			p, r := a[i*ar:][:n], c[i*cr:][:n]
			for j := range y {
				y[j] = T(p[j]*q[j]) + r[j]
			}
		}
	}
}

// AddDots adds the dot product of row i of a [rows×n] and row i of b [rows×n] to y[i·yr], for each i < rows.
//
//go:noinline
func AddDots[T Float](y []T, yr int, a []T, ar int, b []T, br, rows, n int) {
	i := 0
	if simd64[T]() && rows*n >= minSIMD && rows >= 4 {
		i = rows / 4 * 4
		callRow(rowAddDots, &rowArgs{y: operand(y, yr, 0, i, 1), a: operand(a, ar, 1, i, n), b: operand(b, br, 1, i, n),
			rows: i, cols: n})
	}
	for ; i < rows; i++ {
		p, q := a[i*ar:][:n], b[i*br:][:n]
		var s T
		for j := range p {
			s += T(p[j] * q[j])
		}
		y[i*yr] += s
	}
}

// In float64, AddSums computes the sum of a short row as the dot product of the row and ones.
var ones = [...]float64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}

// AddSums adds the sum of row i of x [rows×n] to y[i·yr], for each i < rows.
//
//go:noinline
func AddSums[T Float](y []T, yr int, x []T, rows, n int) {
	if simd32[T]() && yr > 0 { // add the product of x and a column of ones; for yr = 0, the elements of C would overlap
		c := Contraction[T]{
			Rows: rows, Cols: 1, Steps: n, Groups: 1,
			C: y, CRow: yr, A: x, ARow: n, AStep: 1, B: []T{1}, Segments: []Segment{{}}, Add: true,
		}
		c.Run()
		return
	}
	i := 0
	if simd64[T]() && rows*n >= minSIMD && rows >= 4 && n <= len(ones) {
		i = rows / 4 * 4 // a kernel without the products would save only 1 % of a step of the Gaussian experiment
		one := rowOperand{unsafe.Pointer(&ones), 0}
		callRow(rowAddDots, &rowArgs{y: operand(y, yr, 0, i, 1), a: one, b: operand(x, n, 1, i, n), rows: i, cols: n})
	}
	for ; i < rows; i++ {
		var s T
		for _, v := range x[i*n:][:n] {
			s += v
		}
		y[i*yr] += s
	}
}

// AddMulRows adds Σ_i a_i ⊙ b_i to y, where a_i is row i of a and b_i is row i of b. If the column stride ac is 0, all
// elements of a_i are equal, so a_i acts as a scalar.
//
//go:noinline
func AddMulRows[T Float](y []T, a []T, ar, ac int, b []T, br, rows int) {
	n := len(y)
	if simd64[T]() && rows*n >= minSIMD {
		sums := operand(y, 0, 1, rows, n) // with stride 0, each row of a ⊙ b is added to the sums of the rows above it
		callRow([2]int{rowScaleAdd, rowMulAdd}[ac], &rowArgs{
			y: sums, a: operand(a, ar, ac, rows, n), b: operand(b, br, 1, rows, n), c: sums, rows: rows, cols: n,
		})
		return
	}
	i := 0
	for ; ac == 0 && i+4 <= rows; i += 4 { // four rows at a time, to load and store y less often
		s0, s1, s2, s3 := a[i*ar], a[(i+1)*ar], a[(i+2)*ar], a[(i+3)*ar]
		q0, q1, q2, q3 := b[i*br:][:n], b[(i+1)*br:][:n], b[(i+2)*br:][:n], b[(i+3)*br:][:n]
		for j := range y {
			y[j] = y[j] + T(s0*q0[j]) + T(s1*q1[j]) + T(s2*q2[j]) + T(s3*q3[j])
		}
	}
	for ; i < rows; i++ {
		p, q := a[i*ar:], b[i*br:][:n]
		for j := range y {
			y[j] += T(p[j*ac] * q[j])
		}
	}
}

// AddRows adds s·Σ_i x_i to y, where x_i is row i of x [rows×len(y)].
func AddRows[T Float](y []T, s T, x []T, rows int) {
	if simd32[T]() { // add the product of x and a row [1×rows] whose elements are all s
		c := Contraction[T]{
			Rows: 1, Cols: len(y), Steps: rows, Groups: 1,
			C: y, A: []T{s}, B: x, BStep: len(y), Segments: []Segment{{}}, Add: true,
		}
		c.Run()
		return
	}
	AddMulRows(y, []T{s}, 0, 0, x, len(y), rows)
}
