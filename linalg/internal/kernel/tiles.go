package kernel

import "unsafe"

// tileArgs are the arguments of a tile, strides in bytes.
type tileArgs struct {
	c, a, b, bias  unsafe.Pointer
	aRow, aStep    int
	bVector, bStep int // from vector to vector, and from step to step
	cVector, cRow  int
	bQuad2, bQuad3 int // in a tile of quads, from the first group to the third and fourth;
	cQuad2, cQuad3 int // that to the second is that to the next vector
	steps          int
	segments       unsafe.Pointer
	segmentCount   int
	//lint:ignore U1000 kernels that are short of registers count in it
	left  int // segments
	lanes int // of each vector of a partial tile
	add   int // whether C is added to
}

// A tileKernel is the number of the kernel for a tile of so many rows and vectors.
type tileKernel struct{ rows, vectors, number int }

// A tileSet has the tiles of a level; asmgen writes them.
type tileSet struct {
	lanes  int              // float32 in a vector
	part   int              // columns that a tile of part of a vector takes at most
	rows   int              // of the tiles that C is cut into
	widest [maxRows + 1]int // their vectors at most, by rows left
	tiles  tileLookup       // of full vectors
	parts  tileLookup       // of a vector that is not full
	quads  tileLookup       // of a vector of four columns of each of several groups
}

const maxRows, maxVectors = 16, 8

// A tileLookup has the tallest tile for each number of rows left and each width.
type tileLookup [maxRows + 1][maxVectors + 1]tileKernel

func newTileSet(lanes, part int, widest [][2]int, tiles, parts, quads []tileKernel) *tileSet {
	s := &tileSet{lanes: lanes, part: part, tiles: newTileLookup(tiles), parts: newTileLookup(parts), quads: newTileLookup(quads)}
	for _, w := range widest {
		s.rows = w[0]
		for rows := w[0]; rows <= maxRows; rows++ {
			s.widest[rows] = w[1]
		}
	}
	return s
}

func newTileLookup(tiles []tileKernel) (t tileLookup) {
	for rows := range t {
		for _, k := range tiles {
			if k.rows <= rows && k.rows > t[rows][k.vectors].rows {
				t[rows][k.vectors] = k
			}
		}
	}
	return t
}

// nearCache is how many bytes of the nearest data cache B may take: 32 KiB of the 32 or 48 that
// today's processors have.
const nearCache = 1 << 15

// noBias is where sums without a bias begin.
var noBias [16]float32

// How a contraction is cut, with vectors of 16 lanes and tiles of at most 3 vectors:
//
//	one group of 100 columns           groups of 36 columns
//	┌────48────┬────48────┬4┐          ┌16┬16┬4┐ ┌16┬16┬4┐ ┌16┬16┬4┐ ┌16┬16┬4┐
//	│  strip   │  strip   │ │          │a │b │c│ │a │b │c│ │a │b │c│ │d │e │c│
//	│ 8 rows   │ 8 rows   │ │          │  │  │ │ │  │  │ │ │  │  │ │ │  │  │ │
//	├ ─ ─ ─ ─ ─┼ ─ ─ ─ ─ ─┤ │          └──┴──┴─┘ └──┴──┴─┘ └──┴──┴─┘ └──┴──┴─┘
//	│ 8 rows   │ 8 rows   │ │          Strips a and b have a vector of each of three groups,
//	└──────────┴──────────┴─┘          whose rows share the elements of A; d and e have the
//	The last is part of a vector.      last group's. Quads c are four groups in one vector.
//
// A strip is one tile after the other down the rows, with B in the nearest cache.

// tiles computes the contraction by tiles: down one strip after the other, or where a whole
// row of tiles finds its part of B in the nearest cache, along the rows of C, which then goes
// by once, in the order of memory. The weight gradient of a dense layer, 512×450 of 16 steps,
// takes 58 µs in place of 78 like this if C comes from the third cache, though 54 in place of
// 48 if it lies in the second. In training, products of so few steps wait for others (linalg.Updates).
func (c *Contraction[T]) tiles() {
	s := tileSets[level]
	if c.Groups > 1 || c.Cols <= 3*s.lanes || 4*c.Cols*c.Steps*len(c.Segments) > nearCache {
		c.strips(s)
		return
	}
	for i := 0; i < c.Rows; i += s.rows {
		rows := c.rowsFrom(i)
		rows.Rows = min(s.rows, rows.Rows)
		rows.strips(s)
	}
}

// strips computes the contraction strip by strip.
func (c *Contraction[T]) strips(s *tileSet) {
	args := tileArgs{
		bias: unsafe.Pointer(&noBias),
		cRow: 4 * c.CRow, aRow: 4 * c.ARow, aStep: 4 * c.AStep, bStep: 4 * c.BStep,
		steps: c.Steps, segments: unsafe.Pointer(unsafe.SliceData(c.Segments)), segmentCount: len(c.Segments),
	}
	if c.Add {
		args.add = 1
	}
	// As many vectors of columns as a tile takes, then what is left of each group; there,
	// and in narrow groups, the vectors of a tile are those of neighbouring groups. So are
	// they where tiles have few rows: it takes many vectors to keep the processor busy.
	vectors := s.widest[min(c.Rows, maxRows)]
	wide := vectors * s.lanes
	whole := c.Cols / wide * wide
	if vectors > s.widest[maxRows] && c.Groups > 3 {
		whole = 0
	}
	for g := range c.Groups {
		for j := 0; j < whole; j += wide {
			args.cVector, args.bVector, args.lanes = 4*s.lanes, 4*s.lanes, s.lanes
			c.strip(args, s, c.CStart+g*c.CGroup+j, g*c.BGroup+j, vectors)
		}
	}
	if c.Groups == 1 {
		if n := (c.Cols - whole) / s.lanes; n > 0 {
			args.cVector, args.bVector, args.lanes = 4*s.lanes, 4*s.lanes, s.lanes
			c.strip(args, s, c.CStart+whole, whole, n)
			whole += n * s.lanes
		}
	}
	for j := whole; j < c.Cols; j += args.lanes {
		args.cVector, args.bVector, args.lanes = 4*c.CGroup, 4*c.BGroup, s.lanes
		if c.Cols-j == 4 && s.lanes > 4 && c.Groups > 1 {
			c.quads(args, s, j)
			break
		}
		most := vectors
		if j+s.lanes > c.Cols {
			args.lanes = min(c.Cols-j, s.part)
			most = 1
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
// time make up a vector. Where there are fewer groups than the vector has quarters, the last
// is computed more than once.
func (c *Contraction[T]) quads(args tileArgs, s *tileSet, j int) {
	for g := 0; g < c.Groups; {
		n := min(c.Groups-g, s.lanes/4)
		if n == 1 {
			args.lanes = 4
			c.strip(args, s, c.CStart+g*c.CGroup+j, g*c.BGroup+j, 1)
			return
		}
		args.bQuad2, args.bQuad3 = min(2, n-1)*args.bVector, min(3, n-1)*args.bVector
		args.cQuad2, args.cQuad3 = min(2, n-1)*args.cVector, min(3, n-1)*args.cVector
		args.b = unsafe.Pointer(&c.B[g*c.BGroup+j])
		for i := 0; i < c.Rows; {
			k := s.quads[min(c.Rows-i, maxRows)][1]
			args.c = unsafe.Pointer(&c.C[c.CStart+g*c.CGroup+i*c.CRow+j])
			args.a = unsafe.Pointer(&c.A[i*c.ARow])
			if c.Bias != nil {
				args.bias = unsafe.Pointer(&c.Bias[i])
			}
			tile(k.number, &args)
			i += k.rows
		}
		g += n
	}
}

// strip computes all rows of n vectors, from C[co] and B[bo] on. It has arguments of its
// own, for a pointer stored through a pointer would send the contraction to the heap.
func (c *Contraction[T]) strip(args tileArgs, s *tileSet, co, bo, n int) {
	args.b = unsafe.Pointer(&c.B[bo])
	tiles := &s.tiles
	if args.lanes < s.lanes {
		tiles = &s.parts
	}
	for i := 0; i < c.Rows; {
		k := tiles[min(c.Rows-i, maxRows)][n]
		args.c = unsafe.Pointer(&c.C[co+i*c.CRow])
		args.a = unsafe.Pointer(&c.A[i*c.ARow])
		if c.Bias != nil {
			args.bias = unsafe.Pointer(&c.Bias[i])
		}
		tile(k.number, &args)
		i += k.rows
	}
}
