package main

import (
	"fmt"
	"go/format"
	"math"
	"strings"
)

// A tile kernel computes a tile of the matrix C of a Contraction (see package kernel). It keeps
// the tile, rows × vectors, in registers while it adds all products. Each step loads the vectors
// of one row of B; then, for each row of the tile, it broadcasts an element of A and multiplies:
//
//	                  B at a step:  b0   b1   b2
//	                               ┌────┬────┬────┐
//	A at a step, broadcast:     a0 │ c0 │ c1 │ c2 │
//	                            a1 │ c3 │ c4 │ c5 │   c += a·b
//	                               └────┴────┴────┘
//
// There are three kinds of tiles. Full tiles consist of whole vectors. Partial tiles compute the
// last columns, which do not fill a vector. Quad tiles have a single vector, which holds four
// columns from each of several groups.

// A shape is the size of a tile: its number of rows and its number of vectors per row.
type shape struct{ rows, vectors int }

// vectors returns the largest number of vectors per row of a tile. With NEON, four vectors hold
// the sixteen columns of one block of a minibatch.
func (a isa) vectors() int {
	if a == neon {
		return 4
	}
	return 3
}

// tall is a tile with 16 rows of one vector. It is faster than two tiles of eight rows because it
// loads B half as often. AVX2 has too few registers for it.
var tall = shape{16, 1}

// fullTiles returns the sizes of the full tiles. A tile holds up to 24 vectors of sums if the
// instruction set has 32 registers, or up to 12 if it has 16.
//
// In a training step of the HVAE (K = 5, minibatches of 100), the tiles 8×3, 8×2 and 16×1 perform
// 92 % of the multiply-adds with AVX-512 (16×1 alone performs a sixth of them), and tiles of five
// rows perform 4 %, because the last upsampling layer has five kernel rows. The other sizes serve
// the edges of matrices and layers of other models. If no tile has the height of the remaining
// rows, for example three or seven rows, several tiles share them.
func (a isa) fullTiles() (shapes []shape) {
	for _, rows := range []int{1, 2, 4, 5, 6, 8} {
		for v := 1; v <= a.vectors(); v++ {
			s := shape{rows, v}
			if a == avx2 && rows <= 4 || a == avx512 && rows != 6 ||
				a == neon && rows != 5 && (rows < 6 || (rows == 6) == (v == 4)) { // 6×4, but 8×3
				shapes = append(shapes, s)
			}
		}
	}
	if a != avx2 {
		shapes = append(shapes, tall)
	}
	return shapes
}

// partialTiles returns the sizes of the partial tiles, which compute the last columns of matrices
// whose width is not a multiple of the vector length. In a training step of the HVAE these are the
// last columns of minibatches, 1 % of the multiply-adds. Partial tiles are separate from full
// tiles because a masked load needs a second instruction, which competes with multiplications for
// the same execution units. NEON has no masks, so its partial tiles are one column wide.
func (a isa) partialTiles() []shape {
	if a == avx2 {
		return []shape{{1, 1}, {2, 1}, {4, 1}}
	}
	return []shape{{1, 1}, {4, 1}, {8, 1}, tall}
}

// partialColumns returns the largest number of columns of a partial tile.
func (a isa) partialColumns() int {
	if a == neon {
		return 1
	}
	return a.lanes - 1
}

// quadTiles returns the sizes of the quad tiles, whose single vector holds four columns from each
// of several groups. A minibatch of 100 columns consists of six blocks of 16 columns and one block
// of four. Without quad tiles, the convolutions of the last block would take as long as the
// convolutions of each other block, that is, a seventh of a training step; with quad tiles they take a quarter of
// that time. NEON needs no quad tiles because four columns fill a vector.
func (a isa) quadTiles() []shape {
	switch a {
	case avx2:
		return []shape{{1, 1}, {4, 1}}
	case avx512:
		return []shape{{1, 1}, {4, 1}, tall}
	}
	return nil
}

// tileName returns the name of a tile kernel. The argument kind is "tile", "partial" or "quad".
func tileName(kind string, s shape, a isa) string {
	if kind == "tile" {
		return fmt.Sprintf("tile%dx%d%s", s.rows, s.vectors, a.name)
	}
	return fmt.Sprintf("%s%d%s", kind, s.rows, a.name)
}

// An elementwiseKernel describes a kernel that computes a function of each element of its
// operands.
type elementwiseKernel struct {
	name    string   // name of the constant for its number in Go
	doc     string   // formula that it computes
	outputs []string // fields of elementwiseArgs with the operands that it writes
	inputs  []string // fields with the operands that it reads
	scalars []string // fields with the numbers that it reads
	body    func(w *body)
}

var s, y, a, ab, abc = []string{"s"}, []string{"y"}, []string{"a"}, []string{"a", "b"}, []string{"a", "b", "c"}

// elementwiseKernels lists the elementwise kernels in the order of their numbers.
var elementwiseKernels = []elementwiseKernel{
	{"opAdd", "y = a + b", y, ab, nil, func(w *body) { w.operands(add) }},
	{"opSub", "y = a − b", y, ab, nil, func(w *body) { w.operands(sub) }},
	{"opMul", "y = a·b", y, ab, nil, func(w *body) { w.operands(mul) }},
	{"opDiv", "y = a/b", y, ab, nil, func(w *body) { w.operands(div) }},
	{"opMulAdd", "y = a·b + c", y, abc, nil, func(w *body) {
		w.binary(fma, w.in[2], w.in[0], w.in[1])
		w.out[0] = w.in[2]
	}},
	{"opScale", "y = s·a", y, a, s, func(w *body) { w.operands(mul) }},
	{"opAddConst", "y = a + s", y, a, s, func(w *body) { w.operands(add) }},
	{"opExp", "y = eᵃ", y, a, nil, func(w *body) { w.out[0] = w.exp(w.in[0], true) }},
	{"opLog", "y = log a", y, a, nil, func(w *body) { w.out[0] = w.log(w.in[0]) }},
	{"opSigmoid", "y = 1/(1 + e⁻ᵃ)", y, a, nil, func(w *body) {
		w.out[0] = w.sigmoid(w.in[0], w.expOfMinusAbs(w.in[0]))
	}},
	{"opSoftplus", "y = log(1 + eᵃ)", y, a, nil, func(w *body) {
		w.out[0] = w.softplus(w.in[0], w.expOfMinusAbs(w.in[0]))
	}},
	{"opSoftplusSigmoid", "y = log(1 + eᵃ), b = 1/(1 + e⁻ᵃ)", []string{"y", "b"}, a, nil, func(w *body) {
		e := w.expOfMinusAbs(w.in[0])
		w.out[1] = w.sigmoid(w.in[0], e)
		w.out[0] = w.softplus(w.in[0], e)
	}},
	{"opSigmoidGradient", "y = a ⊙ (b − b²)", y, ab, nil, func(w *body) {
		y := w.register()
		w.unary(move, y, w.in[1])
		w.binary(fms, y, w.in[1], w.in[1])
		w.binary(mul, y, y, w.in[0])
		w.out[0] = y
	}},
	{"opAdamax", "a step of Adamax with parameters y, gradient a and averages b and c", []string{"y", "b", "c"},
		[]string{"y", "b", "c", "a"}, []string{"beta1", "rest1", "beta2", "rate", "epsilon"}, (*body).adamax},
}

// The row kernels process rows of float64. Rows may be as short as a minibatch of the Gaussian
// experiment, which has ten samples. An operand is either a matrix, or a column with one number
// for each row. Products and sums are rounded separately, so the results are bit-identical to the
// results of plain Go.
//
// On amd64 all row kernels use AVX2, because most loads of wider vectors would cross a boundary
// between cache lines. They use no masks: a load that overlaps a preceding masked store, as the
// load of the next row would, waits until the store has completed.

// A rowKernel describes a kernel that computes y = a·b + c for each row, or the sum of the
// products a·b over all rows.
type rowKernel struct {
	name, doc string
	a, c      operand // kinds of the operands a and c; b is always a matrix
	sum       bool    // whether the products a·b of all rows are added to a single row y
}

type operand int

const (
	none   operand = iota
	matrix         // a row of numbers for each row of y
	column         // one number for each row of y
)

var rowKernels = []rowKernel{
	{"rowScale", "y_i = a_i·b_i for numbers a_i", column, none, false},
	{"rowMul", "y_i = a_i ⊙ b_i", matrix, none, false},
	{"rowScaleAdd", "y_i = a_i·b_i + c_i for numbers a_i", column, matrix, false},
	{"rowScaleShift", "y_i = a_i·b_i + c_i for numbers a_i and c_i", column, column, false},
	{"rowMulAdd", "y_i = a_i ⊙ b_i + c_i", matrix, matrix, false},
	{"rowAddScaled", "y = y + Σ_i a_i·b_i for numbers a_i", column, none, true},
	{"rowAddMul", "y = y + Σ_i a_i ⊙ b_i", matrix, none, true},
}

// dotKernels lists the kernels that sum along each row. They process four rows at a time.
var dotKernels = []rowKernel{
	{"rowAddDots", "y_i = y_i + a_i·b_i (dot product) for numbers y_i and a multiple of four rows", matrix, none, true},
	{"rowAddSums", "y_i = y_i + the sum of b_i for numbers y_i and a multiple of four rows", none, none, true},
}

// rowTable returns the table of all row kernels in the order of their numbers.
func rowTable() *table {
	t := &table{kind: "row"}
	for _, k := range append(rowKernels, dotKernels...) {
		t.add(k.name)
	}
	return t
}

// numbers returns the source of the Go file that defines the numbers of the elementwise and row
// kernels.
func numbers() string {
	var b strings.Builder
	b.WriteString("// These are the numbers of the elementwise kernels.\nconst (\n")
	for i, k := range elementwiseKernels {
		fmt.Fprintf(&b, "%s%s // %s\n", k.name, map[bool]string{true: " = iota"}[i == 0], k.doc)
	}
	b.WriteString(")\n\n// These are the numbers of the row kernels. The index i denotes row i of an operand or, where stated, its number i.\nconst (\n")
	for i, k := range append(rowKernels, dotKernels...) {
		fmt.Fprintf(&b, "%s%s // %s\n", k.name, map[bool]string{true: " = iota"}[i == 0], k.doc)
	}
	b.WriteString(")\n")
	return goFile("", b.String())
}

// tables returns the source of the Go file that lists the kernels of each level of an
// architecture.
func tables(sets []isa) string {
	_, tiles := tileTable(sets)
	_, transposes := transposeTable(sets)
	var b strings.Builder
	b.WriteString("// elementwiseFirst is the number of each level's first elementwise kernel.\nvar elementwiseFirst = [levels]int{\n")
	for i, a := range sets {
		fmt.Fprintf(&b, "level%s: %d,\n", a.name, i*len(elementwiseKernels))
	}
	b.WriteString("}\n\n// peakKernels holds the number of each level's peak kernel and the number of its sums.\nvar peakKernels = [levels]peakKernel{\n")
	for i, a := range sets {
		fmt.Fprintf(&b, "level%s: {%d, %d},\n", a.name, i, a.peakSums())
	}
	b.WriteString("}\n")
	return goFile("!purego", tiles+"\n"+transposes+"\n"+b.String())
}

// tileTable returns the table of the tile kernels and the Go source of tileSets, which lists their
// shapes and numbers.
func tileTable(sets []isa) (*table, string) {
	t := &table{kind: "tile"}
	var b strings.Builder
	b.WriteString("// tileSets holds the tile kernels of each level, each with its rows, vectors and number.\nvar tileSets = [levels]*tileSet{\n")
	for _, a := range sets {
		fmt.Fprintf(&b, "level%s: newTileSet(%d, %d, %d", a.name, a.lanes, a.vectors(), a.partialColumns())
		for _, k := range []struct {
			kind, doc string
			shapes    []shape
		}{{"tile", "full", a.fullTiles()}, {"partial", "partial", a.partialTiles()}, {"quad", "quad", a.quadTiles()}} {
			fmt.Fprintf(&b, ",\n[]tileKernel{ // %s", k.doc)
			rows := 0
			for _, s := range k.shapes {
				if s.rows != rows {
					b.WriteString("\n")
					rows = s.rows
				}
				fmt.Fprintf(&b, "{%d, %d, %d}, ", s.rows, s.vectors, t.add(tileName(k.kind, s, a)))
			}
			b.WriteString("\n}")
		}
		b.WriteString("),\n")
	}
	b.WriteString("}\n")
	return t, b.String()
}

// transposeTable returns the table of the transpose kernels and the Go source of transposeKernels,
// which lists their numbers. For matrices with few rows, a level also includes the kernels of
// narrower levels.
func transposeTable(sets []isa) (*table, string) {
	t := &table{kind: "transpose"}
	var b strings.Builder
	b.WriteString("// transposeKernels holds the transpose kernels of each level, each with its rows and number.\nvar transposeKernels = [levels][]transposeKernel{\n")
	var all []string
	for _, a := range sets {
		all = append(all, fmt.Sprintf("{%d, %d}", a.lanes, t.add("transpose"+a.name)))
	}
	for i, a := range sets {
		fmt.Fprintf(&b, "level%s: {%s},\n", a.name, strings.Join(all[i:], ", "))
	}
	b.WriteString("}\n")
	return t, b.String()
}

// peakSums returns the number of independent sums in the peak kernel. It is large enough to hide
// the latency of a multiply-add, four cycles, on the two multiply-add units of amd64 or the four
// units of arm64.
func (a isa) peakSums() int {
	if a == neon {
		return 24
	}
	return 12
}

// goFile returns the formatted source of a Go file of package kernel with the given build
// constraint and declarations.
func goFile(constraint, body string) string {
	if constraint != "" {
		constraint = "//go:build " + constraint + "\n\n"
	}
	text, err := format.Source([]byte(generated + constraint + "package kernel\n\n" + body))
	if err != nil {
		panic(err)
	}
	return string(text)
}

// bitsOf returns the bits of c rounded to float32.
func bitsOf(c float64) uint32 { return math.Float32bits(float32(c)) }
