package kernel

import (
	"math"
	"slices"
	"unsafe"
)

// tileArgs holds the arguments of a tile kernel. The kernel computes a tile, which is a small part of the result C. The
// comment on Contraction.tiles contains a drawing of the kinds of tiles. All strides and offsets are in bytes.
type tileArgs struct {
	c, a, b, bias  unsafe.Pointer
	aRow, aStep    int
	bVector, bStep int // strides between vectors and between steps
	cVector, cRow  int
	bQuad2, bQuad3 int // in a quad tile, offsets of the third and fourth group from the first;
	cQuad2, cQuad3 int // bVector and cVector are the offsets of the second group
	steps          int
	segments       unsafe.Pointer
	segmentCount   int
	//lint:ignore U1000 only the assembly of quad tiles uses this counter, for lack of a register
	left  int // number of segments left
	lanes int // number of columns of a partial tile
	addAt int // number of segments left when the kernel adds C to the sums; −1 if it replaces C
}

// A tileKernel is a kernel for tiles of a fixed size, with its index in the table of all tile kernels.
type tileKernel struct{ rows, vectors, index int }

// Element [r][v] of a tileLookup is the kernel for the tallest tile with v vectors and at most r rows.
type tileLookup [maxRows + 1][maxVectors + 1]tileKernel

const maxRows, maxVectors = 16, 4

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

// noBias contains the zeros that replace a nil bias. partialSums replaces the bias of tiles that continue the sums in
// C, because −0 + x is x, even if x is −0.
var noBias [maxRows]float32
var partialSums = [maxRows]float32(slices.Repeat([]float32{float32(math.Copysign(0, -1))}, maxRows))

// tiles computes the contraction with SIMD kernels. It divides the columns of the result C into strips, and each strip
// into tiles of a few rows. A strip may contain columns of several groups. The drawing is for vectors of 16 lanes and
// tiles of up to three vectors. Parts with the same letter belong to the same strip:
//
//	one group of 100 columns           four groups of 36 columns
//	┌────48────┬────48────┬4┐          ┌16┬16┬4┐ ┌16┬16┬4┐ ┌16┬16┬4┐ ┌16┬16┬4┐
//	│  tile    │  tile    │p│          │a │b │q│ │a │b │q│ │c │d │q│ │c │d │q│
//	│ 8 rows   │ 8 rows   │ │          │  │  │ │ │  │  │ │ │  │  │ │ │  │  │ │
//	├ ─ ─ ─ ─ ─┼ ─ ─ ─ ─ ─┤ │          └──┴──┴─┘ └──┴──┴─┘ └──┴──┴─┘ └──┴──┴─┘
//	│ 8 rows   │ 8 rows   │ │
//	└──────────┴──────────┴─┘
//
// The partial tiles of strip p are narrower than a vector. In strips a, b, c and d, a row of a tile has one vector from
// each of two groups, so each element of A is used twice. In strip q, a row of a tile (a quad tile) is a single vector
// with four columns from each group. The tiles of a strip read the same columns of B (see blocks).
func (c *Contraction[T]) tiles() {
	s := kernelSets[level]
	args := tileArgs{
		bias: unsafe.Pointer(&noBias), addAt: -1,
		cRow: 4 * c.CRow, aRow: 4 * c.ARow, aStep: 4 * c.AStep, bStep: 4 * c.BStep,
		steps: c.Steps, segments: unsafe.Pointer(unsafe.SliceData(c.Segments)), segmentCount: len(c.Segments),
	}
	switch {
	case c.Add:
		args.addAt = 0
	case c.continues:
		args.addAt, args.bias = args.segmentCount, unsafe.Pointer(&partialSums)
	}
	// The widest tiles cover the first columns of each group.
	vectors := s.vectors
	wide := vectors * s.lanes
	done := c.Cols / wide * wide
	args.cVector, args.bVector, args.lanes = 4*s.lanes, 4*s.lanes, s.lanes
	for g := range c.Groups {
		for j := 0; j < done; j += wide {
			c.strip(args, &s.full, g, j, vectors)
		}
	}
	// If there is only one group, a narrower tile covers the remaining columns, except those that do not fill a whole
	// vector.
	if n := (c.Cols - done) / s.lanes; c.Groups == 1 && n > 0 {
		c.strip(args, &s.full, 0, done, n)
		done += n * s.lanes
	}
	// If there are several groups, each iteration covers columns j to j+lanes−1 of all groups with tiles that take one
	// vector from each of a few groups. Finally, fewer columns are left in each group than a vector has elements. If
	// four columns are left, quad tiles cover them in several groups at once. Otherwise, partial tiles cover the
	// columns that are left, one group at a time.
	args.cVector, args.bVector = 4*c.CGroup, 4*c.BGroup
	for j := done; j < c.Cols; j += args.lanes {
		if c.Cols-j == 4 && s.lanes > 4 && c.Groups > 1 {
			c.quads(args, s, j)
			break
		}
		tiles, most := &s.full, vectors // kernels for a strip, and the largest number of groups in a strip
		if j+s.lanes > c.Cols {
			args.lanes = min(c.Cols-j, s.partialColumns)
			tiles, most = &s.partial, 1
		}
		for g := 0; g < c.Groups; {
			left := c.Groups - g
			strips := (left + most - 1) / most
			n := (left + strips - 1) / strips // divide the groups evenly among the strips
			c.strip(args, tiles, g, j, n)
			g += n
		}
	}
}

// quads computes the last four columns, j to j+3, of each group of the contraction. Each group fills four lanes of a
// vector, so a vector holds several groups. If only one group remains, its columns form a partial tile. If several
// groups remain, but too few to fill a vector, the other lanes repeat the last group.
func (c *Contraction[T]) quads(args tileArgs, s *kernelSet, j int) {
	for g := 0; g < c.Groups; {
		n := min(c.Groups-g, s.lanes/4)
		if n == 1 {
			args.lanes = 4
			c.strip(args, &s.partial, g, j, 1)
			return
		}
		args.bQuad2, args.bQuad3 = min(2, n-1)*args.bVector, min(3, n-1)*args.bVector
		args.cQuad2, args.cQuad3 = min(2, n-1)*args.cVector, min(3, n-1)*args.cVector
		c.strip(args, &s.quad, g, j, 1)
		g += n
	}
}

// strip computes a strip of n vectors that starts at column j of group g. The struct args is passed by value, because
// storing pointers through a *tileArgs would make the contraction escape to the heap.
func (c *Contraction[T]) strip(args tileArgs, tiles *tileLookup, g, j, n int) {
	args.b = unsafe.Pointer(&c.B[g*c.BGroup+j])
	for i := 0; i < c.Rows; {
		k := tiles[min(c.Rows-i, maxRows)][n]
		args.c = unsafe.Pointer(&c.C[c.CStart+g*c.CGroup+i*c.CRow+j])
		args.a = unsafe.Pointer(&c.A[i*c.ARow])
		if c.Bias != nil {
			args.bias = unsafe.Pointer(&c.Bias[i])
		}
		callTile(k.index, &args)
		i += k.rows
	}
}
