package kernel

import (
	"slices"
	"sync"
)

// What runs where there are no vectors: blocks of two rows and four columns of C, whose eight
// sums stay in registers, from copies of the operands that have all segments one after the
// other, and no strides:
//
//	                       ┌────┐
//	                       │    │  four columns of B
//	                       │    │
//	                       └────┘
//	┌────────────────────┐ ┌────┐
//	├────────────────────┤ ├────┤  2 × 4 sums each
//	├────────────────────┤ ├────┤
//	└────────────────────┘ └────┘
//	 pairs of rows of A
//
// Each sum is added up in the order of plain, and has its bits. What that brings, for the
// layers of the paper's model at 16 columns in float32: in WebAssembly plain takes 1.7 to 2.7
// times as long, on amd64 1.1 to 1.3 times, and 0.95 times for sums of only 16 products. There,
// plain already adds 3.3 to 3.9 billion products a second on a core of 3.1 GHz, addProducts
// 4.2, and 4.7 is all that three ports can do for additions and multiplications one by one.
// math.FMA, which asks each time whether the processor has it, stops at 2.4.

// manyRows is from how many rows on the copies pay: with five, plain takes 0.8 to 0.9 times
// as long on amd64, though 1.2 times in WebAssembly.
const manyRows = 6

// blocks computes the contraction block by block; what has few rows, and the last of an odd
// number, it leaves to plain.
func (c *Contraction[T]) blocks() {
	if c.Rows < manyRows {
		c.plain()
		return
	}
	if c.Rows%2 == 1 {
		last := c.rowsFrom(c.Rows - 1)
		last.plain()
	}
	pairs, steps := c.Rows/2, c.Steps*len(c.Segments)
	r := takeRoom[T]()
	defer giveRoom(r)
	r.a, r.b = slices.Grow(r.a[:0], pairs*steps)[:pairs*steps], slices.Grow(r.b[:0], steps)[:steps]
	for i := range pairs {
		c.copyRows(r.a[i*steps:][:steps], 2*i)
	}
	for g := range c.Groups {
		for j := 0; j < c.Cols; j += 4 {
			n := min(4, c.Cols-j)
			c.copyColumns(r.b, g*c.BGroup+j, n)
			for i := range pairs {
				var x, y T
				if c.Bias != nil {
					x, y = c.Bias[2*i], c.Bias[2*i+1]
				}
				x0, x1, x2, x3, y0, y1, y2, y3 := addProducts(x, y, r.a[i*steps:][:steps], r.b)
				o := c.CStart + g*c.CGroup + 2*i*c.CRow + j
				put(c.C[o:][:n], x0, x1, x2, x3, c.Add)
				put(c.C[o+c.CRow:][:n], y0, y1, y2, y3, c.Add)
			}
		}
	}
}

// A room holds copies of operands: pairs of rows of A, and four columns of B.
type room[T Float] struct {
	a [][2]T
	b [][4]T
}

// rooms has those that no contraction uses, of either type. A sync.Pool would let go of them
// at a collection, and a step that allocates nothing would allocate.
var rooms struct {
	sync.Mutex
	free []any
}

func takeRoom[T Float]() *room[T] {
	rooms.Lock()
	defer rooms.Unlock()
	for i, r := range rooms.free {
		if r, ok := r.(*room[T]); ok {
			rooms.free = slices.Delete(rooms.free, i, i+1)
			return r
		}
	}
	return new(room[T])
}

func giveRoom[T Float](r *room[T]) {
	rooms.Lock()
	defer rooms.Unlock()
	rooms.free = append(rooms.free, r)
}

// copyRows copies rows i and i+1 of A.
func (c *Contraction[T]) copyRows(a [][2]T, i int) {
	for _, s := range c.Segments {
		copyPairs(a[:c.Steps], c.A[s.A+i*c.ARow:], c.A[s.A+(i+1)*c.ARow:], c.AStep)
		a = a[c.Steps:]
	}
}

// copyColumns copies n ≤ 4 columns of B from its element o on. Nobody reads the sums of the
// others.
func (c *Contraction[T]) copyColumns(b [][4]T, o, n int) {
	for _, s := range c.Segments {
		copyFours(b[:c.Steps], c.B[s.B+o:], c.BStep, n)
		b = b[c.Steps:]
	}
}

// The loops are in functions that are not inlined, as those of rows.go are.

//go:noinline
func copyPairs[T Float](a [][2]T, x, y []T, step int) {
	p := 0
	for k := range a {
		a[k] = [2]T{x[p], y[p]}
		p += step
	}
}

//go:noinline
func copyFours[T Float](b [][4]T, x []T, step, n int) {
	p := 0
	for k := range b {
		if n == 4 {
			b[k] = [4]T(x[p : p+4])
		} else {
			copy(b[k][:], x[p:p+n])
		}
		p += step
	}
}

// addProducts returns the sums x + Σ_p a[p][0]·b[p][j] and y + Σ_p a[p][1]·b[p][j]. It takes
// four steps at a time, for the compiler puts the last additions of a pass behind all its
// products, and then runs out of registers.
func addProducts[T Float](x, y T, a [][2]T, b [][4]T) (x0, x1, x2, x3, y0, y1, y2, y3 T) {
	x0, x1, x2, x3 = x, x, x, x
	y0, y1, y2, y3 = y, y, y, y
	for ; len(a) >= 4 && len(b) >= 4; a, b = a[4:], b[4:] {
		x0, y0 = x0+T(a[0][0]*b[0][0]), y0+T(a[0][1]*b[0][0])
		x1, y1 = x1+T(a[0][0]*b[0][1]), y1+T(a[0][1]*b[0][1])
		x2, y2 = x2+T(a[0][0]*b[0][2]), y2+T(a[0][1]*b[0][2])
		x3, y3 = x3+T(a[0][0]*b[0][3]), y3+T(a[0][1]*b[0][3])

		x0, y0 = x0+T(a[1][0]*b[1][0]), y0+T(a[1][1]*b[1][0])
		x1, y1 = x1+T(a[1][0]*b[1][1]), y1+T(a[1][1]*b[1][1])
		x2, y2 = x2+T(a[1][0]*b[1][2]), y2+T(a[1][1]*b[1][2])
		x3, y3 = x3+T(a[1][0]*b[1][3]), y3+T(a[1][1]*b[1][3])

		x0, y0 = x0+T(a[2][0]*b[2][0]), y0+T(a[2][1]*b[2][0])
		x1, y1 = x1+T(a[2][0]*b[2][1]), y1+T(a[2][1]*b[2][1])
		x2, y2 = x2+T(a[2][0]*b[2][2]), y2+T(a[2][1]*b[2][2])
		x3, y3 = x3+T(a[2][0]*b[2][3]), y3+T(a[2][1]*b[2][3])

		x0, y0 = x0+T(a[3][0]*b[3][0]), y0+T(a[3][1]*b[3][0])
		x1, y1 = x1+T(a[3][0]*b[3][1]), y1+T(a[3][1]*b[3][1])
		x2, y2 = x2+T(a[3][0]*b[3][2]), y2+T(a[3][1]*b[3][2])
		x3, y3 = x3+T(a[3][0]*b[3][3]), y3+T(a[3][1]*b[3][3])
	}
	b = b[:len(a)]
	for p := range a {
		x0, y0 = x0+T(a[p][0]*b[p][0]), y0+T(a[p][1]*b[p][0])
		x1, y1 = x1+T(a[p][0]*b[p][1]), y1+T(a[p][1]*b[p][1])
		x2, y2 = x2+T(a[p][0]*b[p][2]), y2+T(a[p][1]*b[p][2])
		x3, y3 = x3+T(a[p][0]*b[p][3]), y3+T(a[p][1]*b[p][3])
	}
	return
}

// put stores the first of four sums in out, or adds them to it.
func put[T Float](out []T, s0, s1, s2, s3 T, add bool) {
	switch {
	case len(out) < 4:
		for k, s := range []T{s0, s1, s2}[:len(out)] {
			if add {
				s += out[k]
			}
			out[k] = s
		}
	case add:
		out[0] += s0
		out[1] += s1
		out[2] += s2
		out[3] += s3
	default:
		out[0], out[1], out[2], out[3] = s0, s1, s2, s3
	}
}
