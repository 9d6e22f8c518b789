package kernel

import "unsafe"

// The functions in this file are the loops of broadcasting operations. SIMD kernels exist for
// float64. Inlining is disabled: the compiler then keeps the operands in registers, which saves a
// third of the time for rows of ten samples.

// An Operand is a matrix broadcast to another shape: element (i, j) is Data[i*Row + j*Col]. A stride
// is 0 along an axis that is broadcast, and Col is otherwise 1.
type Operand[T Float] struct {
	Data     []T
	Row, Col int
}

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

// arg returns the kernel argument for an operand of rows × n numbers. It panics if o.Data is too
// short or o.Row is negative, because the kernels do not check bounds.
func (o Operand[T]) arg(rows, n int) rowOperand {
	if o.Row < 0 {
		panic("kernel: negative row stride")
	}
	_ = o.Data[(rows-1)*o.Row+(n-1)*o.Col]
	return rowOperand{pointer(o.Data), 8 * o.Row}
}

// MulAddRows sets y = a ⊙ b + c, where y consists of rows of n numbers. If c.Data is nil, c is
// zero.
//
//go:noinline
func MulAddRows[T Float](y []T, n int, a, b, c Operand[T]) {
	if len(y) == 0 {
		return
	}
	rows, kernel := len(y)/n, noKernel
	switch {
	case b.Col == 0 || a.Col == 1 && c.Col == 0 && c.Data != nil:
	case a.Col == 0 && c.Data == nil:
		kernel = rowScale
	case a.Col == 1 && c.Data == nil:
		kernel = rowMul
	case a.Col == 0 && c.Col == 0:
		kernel = rowScaleShift
	case a.Col == 0:
		kernel = rowScaleAdd
	default:
		kernel = rowMulAdd
	}
	if simd64[T]() && len(y) >= minSIMD && kernel != noKernel {
		args := rowArgs{y: Operand[T]{y, n, 1}.arg(rows, n), a: a.arg(rows, n), b: b.arg(rows, n), rows: rows, cols: n}
		if c.Data != nil {
			args.c = c.arg(rows, n)
		}
		callRow(kernel, &args)
		return
	}
	for i := range rows {
		y, p, q, r := y[i*n:][:n], a.Data[i*a.Row:], b.Data[i*b.Row:], c.Data[i*c.Row:]
		switch kernel {
		case rowScale:
			s, q := p[0], q[:n]
			for j := range y {
				y[j] = s * q[j]
			}
		case rowMul:
			p, q := p[:n], q[:n]
			for j := range y {
				y[j] = p[j] * q[j]
			}
		case rowScaleShift:
			s, q, r := p[0], q[:n], r[0]
			for j := range y {
				y[j] = T(s*q[j]) + r
			}
		case rowScaleAdd:
			s, q, r := p[0], q[:n], r[:n]
			for j := range y {
				y[j] = T(s*q[j]) + r[j]
			}
		case rowMulAdd:
			p, q, r := p[:n], q[:n], r[:n]
			for j := range y {
				y[j] = T(p[j]*q[j]) + r[j]
			}
		default:
			for j := range y {
				y[j] = T(p[j*a.Col]*q[j*b.Col]) + r[j*c.Col]
			}
		}
	}
}

// AddDots adds the dot product of row i of a with row i of b, each of n numbers, to y[i·yr] for
// each i < rows.
//
//go:noinline
func AddDots[T Float](y []T, yr int, a, b Operand[T], rows, n int) {
	i := 0
	if simd64[T]() && rows*n >= minSIMD && rows >= 4 {
		i = rows / 4 * 4
		callRow(rowAddDots, &rowArgs{y: Operand[T]{y, yr, 0}.arg(i, 1), a: a.arg(i, n), b: b.arg(i, n), rows: i, cols: n})
	}
	for ; i < rows; i++ {
		p, q := a.Data[i*a.Row:][:n], b.Data[i*b.Row:][:n]
		var s T
		for j := range p {
			s += T(p[j] * q[j])
		}
		y[i*yr] += s
	}
}

// AddSums adds the sum of row i of x, of n numbers, to y[i·yr] for each i < rows.
//
//go:noinline
func AddSums[T Float](y []T, yr int, x []T, rows, n int) {
	if SIMD32[T]() && yr > 0 { // the product with a column of ones
		one, segment := [1]T{1}, [1]Segment{}
		c := Contraction[T]{
			Rows: rows, Cols: 1, Steps: n, Groups: 1,
			C: y, CRow: yr, A: x, ARow: n, AStep: 1, B: one[:], Segments: segment[:], Add: true,
		}
		c.Run()
		return
	}
	i := 0
	if simd64[T]() && rows*n >= minSIMD && rows >= 4 {
		i = rows / 4 * 4
		b := Operand[T]{x, n, 1}.arg(i, n)
		callRow(rowAddSums, &rowArgs{y: Operand[T]{y, yr, 0}.arg(i, 1), b: b, rows: i, cols: n})
	}
	for ; i < rows; i++ {
		var s T
		for _, v := range x[i*n:][:n] {
			s += v
		}
		y[i*yr] += s
	}
}

// AddMulRows adds a_i ⊙ b_i to y for each i < rows, where a_i and b_i are the rows of a and b. If
// a_i is a single number, it adds four rows in each pass over y.
//
//go:noinline
func AddMulRows[T Float](y []T, a, b Operand[T], rows int) {
	n := len(y)
	if simd64[T]() && rows*n >= minSIMD {
		kernel := rowAddMul
		if a.Col == 0 {
			kernel = rowAddScaled
		}
		callRow(kernel, &rowArgs{y: Operand[T]{y, 0, 1}.arg(rows, n), a: a.arg(rows, n), b: b.arg(rows, n), rows: rows, cols: n})
		return
	}
	i := 0
	for ; a.Col == 0 && i+4 <= rows; i += 4 {
		s0, s1, s2, s3 := a.Data[i*a.Row], a.Data[(i+1)*a.Row], a.Data[(i+2)*a.Row], a.Data[(i+3)*a.Row]
		q0, q1, q2, q3 := b.Data[i*b.Row:][:n], b.Data[(i+1)*b.Row:][:n], b.Data[(i+2)*b.Row:][:n], b.Data[(i+3)*b.Row:][:n]
		for j := range y {
			y[j] = y[j] + T(s0*q0[j]) + T(s1*q1[j]) + T(s2*q2[j]) + T(s3*q3[j])
		}
	}
	for ; i < rows; i++ {
		p, q := a.Data[i*a.Row:], b.Data[i*b.Row:][:n]
		if a.Col == 0 {
			s := p[0]
			for j := range y {
				y[j] += T(s * q[j])
			}
		} else {
			p := p[:n]
			for j := range y {
				y[j] += T(p[j] * q[j])
			}
		}
	}
}

// AddRows adds s times the sum of all rows of x, each as long as y, to y.
func AddRows[T Float](y []T, s T, x []T, rows int) {
	factor := [1]T{s}
	if SIMD32[T]() { // the product of a row of equal factors with x
		segment := [1]Segment{}
		c := Contraction[T]{
			Rows: 1, Cols: len(y), Steps: rows, Groups: 1,
			C: y, A: factor[:], B: x, BStep: len(y), Segments: segment[:], Add: true,
		}
		c.Run()
		return
	}
	AddMulRows(y, Operand[T]{factor[:], 0, 0}, Operand[T]{x, len(y), 1}, rows)
}
