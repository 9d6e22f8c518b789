//go:build !purego

package linalg

import "unsafe"

// vectors reports whether the kernels of this file serve elements of s.
func vectors[T Float](s []T) bool { return level > levelPlain && unsafe.Sizeof(T(0)) == 4 }

// tileArgs are the arguments of a tile, strides in bytes. asmgen knows the offsets.
type tileArgs struct {
	c, a, b, bias unsafe.Pointer
	cRow, cVector int
	aRow, aStep   int
	bStep, bVector,
	steps int
	segments     unsafe.Pointer
	segmentCount int
	lanes        int // of each vector if it is not full, else 0
	add          int // whether C is added to
	_            int // room for a count
}

// tile adds up a tile of sums: number of the kernel in asmgen's table.
//
//go:noescape
func tile(args *tileArgs, kernel int)

// An isa is what the tiles of an instruction set are like.
type isa struct {
	lanes  int    // float32 in a vector
	rows   int    // of a tile, at most
	tall   int    // rows of the tallest tile, which has one vector
	widest [9]int // vectors of a tile, by its rows
	masked int    // limit to the vectors of a tile if they are not full
	first  int    // number of the first tile in asmgen's table
}

var isas = [...]isa{
	levelAVX512: {lanes: 16, rows: 8, tall: 16, widest: [9]int{0, 8, 7, 7, 6, 5, 3, 3, 3}, masked: 8, first: 0},
	levelAVX2:   {lanes: 8, rows: 4, tall: 4, widest: [9]int{0, 3, 3, 3, 3}, masked: 2, first: 70},
}

// number returns that of the tile of rows × vectors in the table.
func (s *isa) number(rows, vectors int) int {
	n := s.first + vectors - 1
	for _, w := range s.widest[:min(rows, s.rows+1)] {
		n += w
	}
	return n
}

// quadNumber returns the number of the tile of rows × a vector of four columns of each of so
// many groups.
func (s *isa) quadNumber(rows, groups int) int {
	quads := s.number(s.rows, s.widest[s.rows]) + 1
	if s.tall > s.rows {
		quads++
	}
	return quads + (min(rows, s.rows+1)-1)*(s.lanes/4-1) + groups - 2
}

// tiles computes the contraction by tiles. It goes down C in strips of columns, or where B
// is small enough to stay in the nearest cache, along the rows of C.
func (c *Contraction[T]) tiles() {
	s := &isas[level]
	if c.Groups > 1 || c.Cols <= 3*s.lanes || 4*c.Cols*c.Steps*len(c.Segments) > 1<<15 {
		c.strips(s)
		return
	}
	for i := 0; i < c.Rows; i += s.rows {
		rows := *c
		rows.Rows, rows.C, rows.A = min(s.rows, c.Rows-i), c.C[i*c.CRow:], c.A[i*c.ARow:]
		if c.Bias != nil {
			rows.Bias = c.Bias[i:]
		}
		rows.strips(s)
	}
}

// strips computes the contraction strip by strip.
func (c *Contraction[T]) strips(s *isa) {
	args := tileArgs{
		bias: unsafe.Pointer(unsafe.SliceData(c.Bias)),
		cRow: 4 * c.CRow, aRow: 4 * c.ARow, aStep: 4 * c.AStep, bStep: 4 * c.BStep,
		steps: c.Steps, segments: unsafe.Pointer(unsafe.SliceData(c.Segments)), segmentCount: len(c.Segments),
	}
	if c.Add {
		args.add = 1
	}
	// As many vectors of columns as a tile takes, then what is left of each group; there,
	// and in narrow groups, the vectors of a tile are those of neighbouring groups. So are
	// they where tiles have few rows: it takes many vectors to keep the processor busy.
	vectors := s.widest[min(c.Rows, s.rows)]
	wide := vectors * s.lanes
	whole := c.Cols / wide * wide
	if vectors > 3 && c.Groups > 3 {
		whole = 0
	}
	for g := range c.Groups {
		for j := 0; j < whole; j += wide {
			args.cVector, args.bVector, args.lanes = 4*s.lanes, 4*s.lanes, 0
			c.strip(args, s, c.CStart+g*c.CGroup+j, g*c.BGroup+j, vectors)
		}
	}
	if c.Groups == 1 {
		if n := (c.Cols - whole) / s.lanes; n > 0 {
			args.cVector, args.bVector, args.lanes = 4*s.lanes, 4*s.lanes, 0
			c.strip(args, s, c.CStart+whole, whole, n)
			whole += n * s.lanes
		}
	}
	for j := whole; j < c.Cols; j += s.lanes {
		args.cVector, args.bVector, args.lanes = 4*c.CGroup, 4*c.BGroup, 0
		if c.Cols-j == 4 && c.Groups > 1 {
			c.quads(args, s, j)
			break
		}
		most := vectors
		if j+s.lanes > c.Cols {
			args.lanes = c.Cols - j
			most = min(most, s.masked)
		}
		for g := 0; g < c.Groups; {
			left := c.Groups - g
			n := (left + (left+most-1)/most - 1) / ((left + most - 1) / most) // evenly
			c.strip(args, s, c.CStart+g*c.CGroup+j, g*c.BGroup+j, n)
			g += n
		}
	}
}

// quads computes the last four columns, from column j on: those of several groups at a
// time make up a vector.
func (c *Contraction[T]) quads(args tileArgs, s *isa, j int) {
	for g := 0; g < c.Groups; {
		n := min(c.Groups-g, s.lanes/4)
		if n == 1 {
			args.lanes = 4
			c.strip(args, s, c.CStart+g*c.CGroup+j, g*c.BGroup+j, 1)
			return
		}
		args.b = unsafe.Pointer(&c.B[g*c.BGroup+j])
		for i := 0; i < c.Rows; {
			rows := min(c.Rows-i, s.rows)
			if c.Rows-i >= s.tall {
				rows = s.tall
			}
			args.c = unsafe.Pointer(&c.C[c.CStart+g*c.CGroup+i*c.CRow+j])
			args.a = unsafe.Pointer(&c.A[i*c.ARow])
			if c.Bias != nil {
				args.bias = unsafe.Pointer(&c.Bias[i])
			}
			tile(&args, s.quadNumber(rows, n))
			i += rows
		}
		g += n
	}
}

// strip computes all rows of n vectors, from C[co] and B[bo] on. It has arguments of its
// own, for a pointer stored through a pointer would send the contraction to the heap.
func (c *Contraction[T]) strip(args tileArgs, s *isa, co, bo, n int) {
	args.b = unsafe.Pointer(&c.B[bo])
	for i := 0; i < c.Rows; {
		rows := min(c.Rows-i, s.rows)
		if n == 1 && c.Rows-i >= s.tall {
			rows = s.tall
		}
		args.c = unsafe.Pointer(&c.C[co+i*c.CRow])
		args.a = unsafe.Pointer(&c.A[i*c.ARow])
		if c.Bias != nil {
			args.bias = unsafe.Pointer(&c.Bias[i])
		}
		tile(&args, s.number(rows, n))
		i += rows
	}
}

// transpose8 transposes bands of eight rows, four columns after the other: the first four
// columns of a band in src become eight columns of the first four rows of dst. The next
// band is the eight rows below in src and the eight columns to the right in dst, and the
// next of the blocks lies block further on in both. All distances are in bytes.
//
//go:noescape
func transpose8(dst, src *float32, dstRow, srcRow, bands, quads, blocks, block int)

// transpose16 is the same with bands of 16 rows, for AVX-512: it fills whole cache lines.
//
//go:noescape
func transpose16(dst, src *float32, dstRow, srcRow, bands, quads, blocks, block int)

// transposeTiles transposes blocks of at least eight rows and four columns each. Where a
// band does not divide the rows, or four the columns, the last overlap those before.
func transposeTiles[T Float](dst, a []T, rows, cols int) {
	band := 8
	if level == levelAVX512 && rows >= 16 {
		band = 16
	}
	size := rows * cols
	most := max(1, 4096/size) * size // so that the nearest cache holds what is at work
	for lo := 0; lo < len(a); lo += most {
		blocks := min(most, len(a)-lo) / size
		for _, r := range [2][2]int{{0, rows / band}, {rows - band, min(1, rows%band)}} {
			for _, c := range [2][2]int{{0, cols / 4}, {cols - 4, min(1, cols%4)}} {
				if r[1] == 0 || c[1] == 0 {
					continue
				}
				to, from := single(dst[lo+c[0]*rows+r[0]:]), single(a[lo+r[0]*cols+c[0]:])
				if band == 16 {
					transpose16(to, from, 4*rows, 4*cols, r[1], c[1], blocks, 4*size)
				} else {
					transpose8(to, from, 4*rows, 4*cols, r[1], c[1], blocks, 4*size)
				}
			}
		}
	}
}
