package linalg

// The loops behind the broadcasting operations, in functions of their own that are not
// inlined: with little else alive, the compiler keeps their operands in registers,
// which is worth a third of the time at ten samples. A slice and its row stride give
// each row of an operand; stride 0 repeats one row.

// mulRows sets y_i = s_i·q_i for each row i of length n: a constant times a row.
//
//go:noinline
func mulRows[T Float](y []T, n int, s []T, sr int, q []T, qr int) {
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
	for i := range rows {
		y[i*yr] += dotRow(p[i*pr:][:n], q[i*qr:][:n])
	}
}

// addProducts adds the products p_i ⊙ q_i of rows i to y.
//
//go:noinline
func addProducts[T Float](y []T, p []T, pr int, q []T, qr, rows int) {
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
