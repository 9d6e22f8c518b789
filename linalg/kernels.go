package linalg

// The loops behind the broadcasting operations, in functions of their own that are not
// inlined: with little else alive, the compiler keeps their operands in registers,
// which is worth a third of the time at ten samples. A slice and its row stride give
// each row of an operand; stride 0 repeats one row. Matrices of float64 have vector kernels
// for them on amd64 (rows.go), which give the same bits.

// mulRows sets y_i = s_i·q_i for each row i of length n: a constant times a row.
//
//go:noinline
func mulRows[T Float](y []T, n int, s []T, sr int, q []T, qr int) {
	if rowVectors(y, len(y)) {
		args := rowArgs{rows: len(y) / n, cols: n}
		args.y, args.yStride = operand(y, n, args.rows, n)
		args.a, args.aStride = operand(s, sr, args.rows, 1)
		args.b, args.bStride = operand(q, qr, args.rows, n)
		vectorMulRows(&args)
		return
	}
	for i := range len(y) / n {
		y, s, q := y[i*n:][:n], s[i*sr], q[i*qr:][:n]
		for j := range y {
			y[j] = s * q[j]
		}
	}
}

// productRows sets y_i = p_i ⊙ q_i.
//
//go:noinline
func productRows[T Float](y []T, n int, p []T, pr int, q []T, qr int) {
	if rowVectors(y, len(y)) {
		args := rowArgs{rows: len(y) / n, cols: n}
		args.y, args.yStride = operand(y, n, args.rows, n)
		args.a, args.aStride = operand(p, pr, args.rows, n)
		args.b, args.bStride = operand(q, qr, args.rows, n)
		vectorProductRows(&args)
		return
	}
	for i := range len(y) / n {
		y, p, q := y[i*n:][:n], p[i*pr:][:n], q[i*qr:][:n]
		for j := range y {
			y[j] = p[j] * q[j]
		}
	}
}

// productAddRows sets y_i = p_i ⊙ q_i + r_i.
//
//go:noinline
func productAddRows[T Float](y []T, n int, p []T, pr int, q []T, qr int, r []T, rr int) {
	if rowVectors(y, len(y)) {
		args := rowArgs{rows: len(y) / n, cols: n}
		args.y, args.yStride = operand(y, n, args.rows, n)
		args.a, args.aStride = operand(p, pr, args.rows, n)
		args.b, args.bStride = operand(q, qr, args.rows, n)
		args.c, args.cStride = operand(r, rr, args.rows, n)
		vectorProductAddRows(&args)
		return
	}
	for i := range len(y) / n {
		y, p, q, r := y[i*n:][:n], p[i*pr:][:n], q[i*qr:][:n], r[i*rr:][:n]
		for j := range y {
			y[j] = p[j]*q[j] + r[j]
		}
	}
}

// mulAddRows sets y_i = s_i·q_i + r_i: a constant times a row plus a row.
//
//go:noinline
func mulAddRows[T Float](y []T, n int, s []T, sr int, q []T, qr int, r []T, rr int) {
	if rowVectors(y, len(y)) {
		args := rowArgs{rows: len(y) / n, cols: n}
		args.y, args.yStride = operand(y, n, args.rows, n)
		args.a, args.aStride = operand(s, sr, args.rows, 1)
		args.b, args.bStride = operand(q, qr, args.rows, n)
		args.c, args.cStride = operand(r, rr, args.rows, n)
		vectorMulAddRows(&args)
		return
	}
	for i := range len(y) / n {
		y, s, q, r := y[i*n:][:n], s[i*sr], q[i*qr:][:n], r[i*rr:][:n]
		for j := range y {
			y[j] = s*q[j] + r[j]
		}
	}
}

// mulAddConstRows sets y_i = s_i·q_i + r_i: a constant times a row plus a constant.
//
//go:noinline
func mulAddConstRows[T Float](y []T, n int, s []T, sr int, q []T, qr int, r []T, rr int) {
	if rowVectors(y, len(y)) {
		args := rowArgs{rows: len(y) / n, cols: n}
		args.y, args.yStride = operand(y, n, args.rows, n)
		args.a, args.aStride = operand(s, sr, args.rows, 1)
		args.b, args.bStride = operand(q, qr, args.rows, n)
		args.c, args.cStride = operand(r, rr, args.rows, 1)
		vectorMulAddConstRows(&args)
		return
	}
	for i := range len(y) / n {
		y, s, q, r := y[i*n:][:n], s[i*sr], q[i*qr:][:n], r[i*rr]
		for j := range y {
			y[j] = s*q[j] + r
		}
	}
}

// dotRow returns the dot product of two rows.
func dotRow[T Float](p, q []T) T {
	q = q[:len(p)]
	var s T
	for j := range p {
		s += p[j] * q[j]
	}
	return s
}

// dots adds the dot product of rows i of p and q, of length n, to y[i·yr].
//
//go:noinline
func dots[T Float](y []T, yr int, p []T, pr int, q []T, qr, rows, n int) {
	if rowVectors(p, rows*n) && rows >= 4 {
		args := rowArgs{rows: rows / 4 * 4, cols: n}
		args.y, args.yStride = operand(y, yr, args.rows, 1)
		args.a, args.aStride = operand(p, pr, args.rows, n)
		args.b, args.bStride = operand(q, qr, args.rows, n)
		vectorDots(&args)
		y, p, q, rows = y[args.rows*yr:], p[args.rows*pr:], q[args.rows*qr:], rows-args.rows
	}
	for i := range rows {
		y[i*yr] += dotRow(p[i*pr:][:n], q[i*qr:][:n])
	}
}

// sums adds the sum of row i of q, of length n, to y[i·yr].
//
//go:noinline
func sums[T Float](y []T, yr int, q []T, qr, rows, n int) {
	if rowVectors(q, rows*n) && rows >= 4 {
		args := rowArgs{rows: rows / 4 * 4, cols: n}
		args.y, args.yStride = operand(y, yr, args.rows, 1)
		args.b, args.bStride = operand(q, qr, args.rows, n)
		vectorSums(&args)
		y, q, rows = y[args.rows*yr:], q[args.rows*qr:], rows-args.rows
	}
	for i := range rows {
		var s T
		for _, v := range q[i*qr:][:n] {
			s += v
		}
		y[i*yr] += s
	}
}

// addProducts adds the products p_i ⊙ q_i of rows i to y.
//
//go:noinline
func addProducts[T Float](y []T, p []T, pr int, q []T, qr, rows int) {
	if rowVectors(y, rows*len(y)) {
		args := rowArgs{rows: rows, cols: len(y)}
		args.y, args.yStride = operand(y, 0, rows, len(y))
		args.a, args.aStride = operand(p, pr, rows, len(y))
		args.b, args.bStride = operand(q, qr, rows, len(y))
		vectorAddProducts(&args)
		return
	}
	for i := range rows {
		p, q := p[i*pr:][:len(y)], q[i*qr:][:len(y)]
		for j := range y {
			y[j] += p[j] * q[j]
		}
	}
}

// addScaledRows adds Σ_i s_i·q_i over rows i to y, four rows for each pass over y.
//
//go:noinline
func addScaledRows[T Float](y []T, s []T, sr int, q []T, qr, rows int) {
	if rowVectors(y, rows*len(y)) {
		args := rowArgs{rows: rows, cols: len(y)}
		args.y, args.yStride = operand(y, 0, rows, len(y))
		args.a, args.aStride = operand(s, sr, rows, 1)
		args.b, args.bStride = operand(q, qr, rows, len(y))
		vectorAddScaledRows(&args)
		return
	}
	i := 0
	for ; i+4 <= rows; i += 4 {
		s0, s1, s2, s3 := s[i*sr], s[(i+1)*sr], s[(i+2)*sr], s[(i+3)*sr]
		q0, q1, q2, q3 := q[i*qr:][:len(y)], q[(i+1)*qr:][:len(y)], q[(i+2)*qr:][:len(y)], q[(i+3)*qr:][:len(y)]
		for j := range y {
			y[j] = y[j] + s0*q0[j] + s1*q1[j] + s2*q2[j] + s3*q3[j]
		}
	}
	for ; i < rows; i++ {
		s, q := s[i*sr], q[i*qr:][:len(y)]
		for j := range y {
			y[j] += s * q[j]
		}
	}
}
