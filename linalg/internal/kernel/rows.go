package kernel

import "unsafe"

// The functions in this file are the loops of broadcasting operations. The rows of an operand are
// given as a slice and a row stride; a stride of 0 repeats a single row. SIMD kernels exist for
// float64. Inlining is disabled: the compiler then keeps the operands in registers, which saves a
// third of the time for rows of ten samples.

// rowArgs holds the arguments of a row kernel.
type rowArgs struct {
	y, a, b, c rowOperand
	rows, cols int
}

// A rowOperand holds the address of the first row of an operand and its row stride in bytes.
type rowOperand struct {
	first  unsafe.Pointer
	stride int
}

// minSIMD is the smallest number of elements worth a SIMD kernel: calling a kernel takes as long
// as computing about twenty elements in plain Go.
const minSIMD = 20

// operand returns a kernel operand whose rows have n numbers each. It panics if s is too short or
// stride is negative, because the kernels do not check bounds.
func operand[T Float](s []T, stride, rows, n int) rowOperand {
	if stride < 0 {
		panic("kernel: negative row stride")
	}
	_ = s[(rows-1)*stride+n-1]
	return rowOperand{pointer(s), 8 * stride}
}

// ScaleRows sets y_i = s_i·q_i for each row y_i of n numbers, where s_i is a single number and q_i
// is a row. The parameters sr and qr are the row strides of s and q.
//
//go:noinline
func ScaleRows[T Float](y []T, n int, s []T, sr int, q []T, qr int) {
	rows := len(y) / n
	if simd64[T]() && len(y) >= minSIMD {
		callRow(rowScale, &rowArgs{operand(y, n, rows, n), operand(s, sr, rows, 1), operand(q, qr, rows, n), rowOperand{}, rows, n})
		return
	}
	for i := range rows {
		y, s, q := y[i*n:][:n], s[i*sr], q[i*qr:][:n]
		for j := range y {
			y[j] = s * q[j]
		}
	}
}

// MulRows sets y_i = p_i ⊙ q_i for each row y_i of n numbers. The parameters pr and qr are the row
// strides of p and q.
//
//go:noinline
func MulRows[T Float](y []T, n int, p []T, pr int, q []T, qr int) {
	rows := len(y) / n
	if simd64[T]() && len(y) >= minSIMD {
		callRow(rowMul, &rowArgs{operand(y, n, rows, n), operand(p, pr, rows, n), operand(q, qr, rows, n), rowOperand{}, rows, n})
		return
	}
	for i := range rows {
		y, p, q := y[i*n:][:n], p[i*pr:][:n], q[i*qr:][:n]
		for j := range y {
			y[j] = p[j] * q[j]
		}
	}
}

// MulAddRows sets y_i = p_i ⊙ q_i + r_i for each row y_i of n numbers. The parameters pr, qr and
// rr are the row strides of p, q and r.
//
//go:noinline
func MulAddRows[T Float](y []T, n int, p []T, pr int, q []T, qr int, r []T, rr int) {
	rows := len(y) / n
	if simd64[T]() && len(y) >= minSIMD {
		callRow(rowMulAdd, &rowArgs{operand(y, n, rows, n), operand(p, pr, rows, n), operand(q, qr, rows, n), operand(r, rr, rows, n), rows, n})
		return
	}
	for i := range rows {
		y, p, q, r := y[i*n:][:n], p[i*pr:][:n], q[i*qr:][:n], r[i*rr:][:n]
		for j := range y {
			y[j] = T(p[j]*q[j]) + r[j]
		}
	}
}

// ScaleAddRows sets y_i = s_i·q_i + r_i for each row y_i of n numbers, where s_i is a single
// number and q_i and r_i are rows. The parameters sr, qr and rr are the row strides.
//
//go:noinline
func ScaleAddRows[T Float](y []T, n int, s []T, sr int, q []T, qr int, r []T, rr int) {
	rows := len(y) / n
	if simd64[T]() && len(y) >= minSIMD {
		callRow(rowScaleAdd, &rowArgs{operand(y, n, rows, n), operand(s, sr, rows, 1), operand(q, qr, rows, n), operand(r, rr, rows, n), rows, n})
		return
	}
	for i := range rows {
		y, s, q, r := y[i*n:][:n], s[i*sr], q[i*qr:][:n], r[i*rr:][:n]
		for j := range y {
			y[j] = T(s*q[j]) + r[j]
		}
	}
}

// ScaleShiftRows sets y_i = s_i·q_i + r_i for each row y_i of n numbers, where s_i and r_i are
// single numbers and q_i is a row. The parameters sr, qr and rr are the row strides.
//
//go:noinline
func ScaleShiftRows[T Float](y []T, n int, s []T, sr int, q []T, qr int, r []T, rr int) {
	rows := len(y) / n
	if simd64[T]() && len(y) >= minSIMD {
		callRow(rowScaleShift, &rowArgs{operand(y, n, rows, n), operand(s, sr, rows, 1), operand(q, qr, rows, n), operand(r, rr, rows, 1), rows, n})
		return
	}
	for i := range rows {
		y, s, q, r := y[i*n:][:n], s[i*sr], q[i*qr:][:n], r[i*rr]
		for j := range y {
			y[j] = T(s*q[j]) + r
		}
	}
}

// AddDots adds the dot product of the rows p_i and q_i, each of n numbers, to y[i·yr] for each i <
// rows. The parameters pr and qr are the row strides of p and q.
//
//go:noinline
func AddDots[T Float](y []T, yr int, p []T, pr int, q []T, qr, rows, n int) {
	if simd64[T]() && rows*n >= minSIMD && rows >= 4 {
		fours := rows / 4 * 4
		callRow(rowAddDots, &rowArgs{operand(y, yr, fours, 1), operand(p, pr, fours, n), operand(q, qr, fours, n), rowOperand{}, fours, n})
		y, p, q, rows = y[fours*yr:], p[fours*pr:], q[fours*qr:], rows-fours
	}
	for i := range rows {
		p, q := p[i*pr:][:n], q[i*qr:][:n]
		var s T
		for j := range p {
			s += T(p[j] * q[j])
		}
		y[i*yr] += s
	}
}

// AddSums adds the sum of row q_i, of n numbers, to y[i·yr] for each i < rows. The parameter qr is
// the row stride of q.
//
//go:noinline
func AddSums[T Float](y []T, yr int, q []T, qr, rows, n int) {
	if SIMD32[T]() && yr > 0 { // the product with a column of ones
		one, segment := [1]T{1}, [1]Segment{}
		c := Contraction[T]{
			Rows: rows, Cols: 1, Steps: n, Groups: 1,
			C: y, CRow: yr, A: q, ARow: qr, AStep: 1, B: one[:], Segments: segment[:], Add: true,
		}
		c.Run()
		return
	}
	if simd64[T]() && rows*n >= minSIMD && rows >= 4 {
		fours := rows / 4 * 4
		callRow(rowAddSums, &rowArgs{y: operand(y, yr, fours, 1), b: operand(q, qr, fours, n), rows: fours, cols: n})
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

// AddMulRows sets y = y + Σ_i p_i ⊙ q_i, where i runs over the given number of rows, each as long
// as y. The parameters pr and qr are the row strides of p and q.
//
//go:noinline
func AddMulRows[T Float](y []T, p []T, pr int, q []T, qr, rows int) {
	n := len(y)
	if simd64[T]() && rows*n >= minSIMD {
		callRow(rowAddMul, &rowArgs{operand(y, 0, rows, n), operand(p, pr, rows, n), operand(q, qr, rows, n), rowOperand{}, rows, n})
		return
	}
	for i := range rows {
		p, q := p[i*pr:][:len(y)], q[i*qr:][:len(y)]
		for j := range y {
			y[j] += T(p[j] * q[j])
		}
	}
}

// AddScaledRows sets y = y + Σ_i s_i·q_i, where i runs over the given number of rows q_i, each as
// long as y, and s_i is a single number. It adds four rows in each pass over y. The parameters sr
// and qr are the row strides of s and q.
//
//go:noinline
func AddScaledRows[T Float](y []T, s []T, sr int, q []T, qr, rows int) {
	if n := len(y); simd64[T]() && rows*n >= minSIMD {
		callRow(rowAddScaled, &rowArgs{operand(y, 0, rows, n), operand(s, sr, rows, 1), operand(q, qr, rows, n), rowOperand{}, rows, n})
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

// AddRows adds all rows of x, each as long as y, to y.
func AddRows[T Float](y, x []T, rows int) {
	one := [1]T{1}
	if SIMD32[T]() { // the product of a row of ones with x
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
