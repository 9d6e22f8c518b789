package kernel

import "unsafe"

// The loops behind the operations that broadcast, in functions of their own that are not
// inlined: with little else alive, the compiler keeps their operands in registers,
// which is worth a third of the time at ten samples. A slice and its row stride give
// each row of an operand; stride 0 repeats one row. In float64 they have vector kernels,
// which give the same bits.

// rowArgs are the arguments of a kernel on rows of float64.
type rowArgs struct {
	y, a, b, c rowOperand
	rows, cols int
}

// A rowOperand is an operand's first row, and how far apart its rows are in bytes.
type rowOperand struct {
	first  unsafe.Pointer
	stride int
}

// fewRows is how many elements a loop must have for a vector kernel: calling one takes as
// long as some twenty elements in plain Go.
const fewRows = 20

// tens returns how many elements of y are for a vector kernel, as rows of ten: what is left
// of them, or all where it does not pay, is for plain Go.
func tens[T Float](y []T) int {
	if !doubles[T]() || len(y) < fewRows {
		return 0
	}
	return len(y) / 10 * 10
}

// operand returns an operand whose rows have n numbers. The kernels check no bounds, so it
// does.
func operand[T Float](s []T, stride, rows, n int) rowOperand {
	if stride < 0 {
		panic("kernel: rows go backwards")
	}
	_ = s[(rows-1)*stride+n-1]
	return rowOperand{pointer(s), 8 * stride}
}

// MulRows sets y_i = s_i·q_i for each row i of length n: a constant times a row.
//
//go:noinline
func MulRows[T Float](y []T, n int, s []T, sr int, q []T, qr int) {
	if doubles[T]() && len(y) >= fewRows {
		rows := len(y) / n
		row(rowMul, &rowArgs{rows: rows, cols: n,
			y: operand(y, n, rows, n), a: operand(s, sr, rows, 1), b: operand(q, qr, rows, n)})
		return
	}
	for i := range len(y) / n {
		y, s, q := y[i*n:][:n], s[i*sr], q[i*qr:][:n]
		for j := range y {
			y[j] = s * q[j]
		}
	}
}

// ProductRows sets y_i = p_i ⊙ q_i.
//
//go:noinline
func ProductRows[T Float](y []T, n int, p []T, pr int, q []T, qr int) {
	if doubles[T]() && len(y) >= fewRows {
		rows := len(y) / n
		row(rowProduct, &rowArgs{rows: rows, cols: n,
			y: operand(y, n, rows, n), a: operand(p, pr, rows, n), b: operand(q, qr, rows, n)})
		return
	}
	for i := range len(y) / n {
		y, p, q := y[i*n:][:n], p[i*pr:][:n], q[i*qr:][:n]
		for j := range y {
			y[j] = p[j] * q[j]
		}
	}
}

// ProductAddRows sets y_i = p_i ⊙ q_i + r_i.
//
//go:noinline
func ProductAddRows[T Float](y []T, n int, p []T, pr int, q []T, qr int, r []T, rr int) {
	if doubles[T]() && len(y) >= fewRows {
		rows := len(y) / n
		row(rowProductAdd, &rowArgs{rows: rows, cols: n,
			y: operand(y, n, rows, n), a: operand(p, pr, rows, n), b: operand(q, qr, rows, n), c: operand(r, rr, rows, n)})
		return
	}
	for i := range len(y) / n {
		y, p, q, r := y[i*n:][:n], p[i*pr:][:n], q[i*qr:][:n], r[i*rr:][:n]
		for j := range y {
			y[j] = T(p[j]*q[j]) + r[j]
		}
	}
}

// MulAddRows sets y_i = s_i·q_i + r_i: a constant times a row plus a row.
//
//go:noinline
func MulAddRows[T Float](y []T, n int, s []T, sr int, q []T, qr int, r []T, rr int) {
	if doubles[T]() && len(y) >= fewRows {
		rows := len(y) / n
		row(rowMulAdd, &rowArgs{rows: rows, cols: n,
			y: operand(y, n, rows, n), a: operand(s, sr, rows, 1), b: operand(q, qr, rows, n), c: operand(r, rr, rows, n)})
		return
	}
	for i := range len(y) / n {
		y, s, q, r := y[i*n:][:n], s[i*sr], q[i*qr:][:n], r[i*rr:][:n]
		for j := range y {
			y[j] = T(s*q[j]) + r[j]
		}
	}
}

// MulAddConstRows sets y_i = s_i·q_i + r_i: a constant times a row plus a constant.
//
//go:noinline
func MulAddConstRows[T Float](y []T, n int, s []T, sr int, q []T, qr int, r []T, rr int) {
	if doubles[T]() && len(y) >= fewRows {
		rows := len(y) / n
		row(rowMulAddConst, &rowArgs{rows: rows, cols: n,
			y: operand(y, n, rows, n), a: operand(s, sr, rows, 1), b: operand(q, qr, rows, n), c: operand(r, rr, rows, 1)})
		return
	}
	for i := range len(y) / n {
		y, s, q, r := y[i*n:][:n], s[i*sr], q[i*qr:][:n], r[i*rr]
		for j := range y {
			y[j] = T(s*q[j]) + r
		}
	}
}

// dotRow returns the dot product of two rows.
func dotRow[T Float](p, q []T) T {
	q = q[:len(p)]
	var s T
	for j := range p {
		s += T(p[j] * q[j])
	}
	return s
}

// Dots adds the dot product of rows i of p and q, of length n, to y[i·yr].
//
//go:noinline
func Dots[T Float](y []T, yr int, p []T, pr int, q []T, qr, rows, n int) {
	if doubles[T]() && rows*n >= fewRows && rows >= 4 {
		fours := rows / 4 * 4
		row(rowDots, &rowArgs{rows: fours, cols: n,
			y: operand(y, yr, fours, 1), a: operand(p, pr, fours, n), b: operand(q, qr, fours, n)})
		y, p, q, rows = y[fours*yr:], p[fours*pr:], q[fours*qr:], rows-fours
	}
	for i := range rows {
		y[i*yr] += dotRow(p[i*pr:][:n], q[i*qr:][:n])
	}
}

// Sums adds the sum of row i of q, of length n, to y[i·yr].
//
//go:noinline
func Sums[T Float](y []T, yr int, q []T, qr, rows, n int) {
	if singles[T]() && yr > 0 { // as the product with a column of ones
		one, segment := [1]T{1}, [1]Segment{}
		c := Contraction[T]{
			Rows: rows, Cols: 1, Steps: n, Groups: 1,
			C: y, CRow: yr, A: q, ARow: qr, AStep: 1, B: one[:], Segments: segment[:], Add: true,
		}
		c.Run()
		return
	}
	if doubles[T]() && rows*n >= fewRows && rows >= 4 {
		fours := rows / 4 * 4
		row(rowSums, &rowArgs{rows: fours, cols: n, y: operand(y, yr, fours, 1), b: operand(q, qr, fours, n)})
		y, q, rows = y[fours*yr:], q[fours*qr:], rows-fours
	}
	for i := range rows {
		var s T
		for _, v := range q[i*qr:][:n] {
			s += v
		}
		y[i*yr] += s
	}
}

// AddProducts adds the products p_i ⊙ q_i of rows i to y.
//
//go:noinline
func AddProducts[T Float](y []T, p []T, pr int, q []T, qr, rows int) {
	if doubles[T]() && rows*len(y) >= fewRows {
		row(rowAddProducts, &rowArgs{rows: rows, cols: len(y),
			y: operand(y, 0, rows, len(y)), a: operand(p, pr, rows, len(y)), b: operand(q, qr, rows, len(y))})
		return
	}
	for i := range rows {
		p, q := p[i*pr:][:len(y)], q[i*qr:][:len(y)]
		for j := range y {
			y[j] += T(p[j] * q[j])
		}
	}
}

// AddScaledRows adds Σ_i s_i·q_i over rows i to y, four rows for each pass over y.
//
//go:noinline
func AddScaledRows[T Float](y []T, s []T, sr int, q []T, qr, rows int) {
	if doubles[T]() && rows*len(y) >= fewRows {
		row(rowAddScaled, &rowArgs{rows: rows, cols: len(y),
			y: operand(y, 0, rows, len(y)), a: operand(s, sr, rows, 1), b: operand(q, qr, rows, len(y))})
		return
	}
	i := 0
	for ; i+4 <= rows; i += 4 {
		s0, s1, s2, s3 := s[i*sr], s[(i+1)*sr], s[(i+2)*sr], s[(i+3)*sr]
		q0, q1, q2, q3 := q[i*qr:][:len(y)], q[(i+1)*qr:][:len(y)], q[(i+2)*qr:][:len(y)], q[(i+3)*qr:][:len(y)]
		for j := range y {
			y[j] = y[j] + T(s0*q0[j]) + T(s1*q1[j]) + T(s2*q2[j]) + T(s3*q3[j])
		}
	}
	for ; i < rows; i++ {
		s, q := s[i*sr], q[i*qr:][:len(y)]
		for j := range y {
			y[j] += T(s * q[j])
		}
	}
}

// AddRows adds rows i of x to y.
func AddRows[T Float](y, x []T, rows int) {
	one := [1]T{1}
	if singles[T]() { // as the product of a row of ones with x
		segment := [1]Segment{}
		c := Contraction[T]{
			Rows: 1, Cols: len(y), Steps: rows, Groups: 1,
			C: y, A: one[:], B: x, BStep: len(y), Segments: segment[:], Add: true,
		}
		c.Run()
		return
	}
	AddScaledRows(y, one[:], 0, x, len(y), rows)
}
