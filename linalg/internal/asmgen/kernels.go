package main

import (
	"fmt"
	"go/format"
	"math"
	"strings"
)

// A tile kernel keeps a tile of C, rows × vectors, in registers while it adds all products
// to it (see Contraction in package kernel). A step loads the vectors of B, and for each
// row broadcasts an element of A and multiplies:
//
//	                  B at a step:  b0   b1   b2
//	                               ┌────┬────┬────┐
//	A at a step, broadcast:     a0 │ c0 │ c1 │ c2 │
//	                            a1 │ c3 │ c4 │ c5 │   c += a·b
//	                               └────┴────┴────┘
//
// There are three kinds: full tiles of whole vectors, partial tiles for the last columns,
// and quad tiles, whose single vector consists of four columns from each of several groups.

// A shape is the size of a tile.
type shape struct{ rows, vectors int }

// vectors returns the largest number of vectors in a tile. Four vectors of NEON are the
// sixteen columns of a block.
func (a isa) vectors() int {
	if a == neon {
		return 4
	}
	return 3
}

// tall is the tile of one vector that is faster than several shorter ones because it loads
// B half as often. AVX2 has too few registers.
var tall = shape{16, 1}

// fullTiles lists the tiles of whole vectors, with up to 24 sums in 32 registers, or 12 in 16.
//
// In a training step of the HVAE (K = 5, minibatches of 100), 92 % of AVX-512's multiply-adds
// are in the tiles 8×3, 8×2 and 16×1 (a sixth in the last), and 4 % in tiles of five rows,
// which the last upsampling layer needs for its five kernel rows. The other shapes serve edges
// and layers of other models; 3, 6 or 7 rows are divided among several tiles.
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

// partialTiles lists the tiles for vectors that are not full, which end the rows of matrices
// of odd widths: 1 % of these multiply-adds, all in the last columns of minibatches. Full
// tiles have no masks because a masked load needs a second instruction, on the units that
// multiply. NEON has no masks: its partial tiles are one column wide.
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

// quadTiles lists the quad tiles. A minibatch of 100 is six blocks of 16 columns and one of
// four. Without quad tiles, the convolutions of the last block would take as long as any other
// block's, a seventh of a step; with quad tiles they take a quarter of that time. Four columns
// are a whole vector of NEON.
func (a isa) quadTiles() []shape {
	switch a {
	case avx2:
		return []shape{{1, 1}, {4, 1}}
	case avx512:
		return []shape{{1, 1}, {4, 1}, tall}
	}
	return nil
}

// tileName returns the name of a tile kernel: of kind "tile", "partial" or "quad".
func tileName(kind string, s shape, a isa) string {
	if kind == "tile" {
		return fmt.Sprintf("tile%dx%d%s", s.rows, s.vectors, a.name)
	}
	return fmt.Sprintf("%s%d%s", kind, s.rows, a.name)
}

// An elementwiseKernel computes a function of each element of its operands.
type elementwiseKernel struct {
	name    string   // of its number in Go
	doc     string   // its formula
	outputs []string // the fields of elementwiseArgs that it writes
	inputs  []string // the fields that it reads
	scalars []string // the fields that are single numbers
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

// The row kernels compute with rows of float64, as short as a minibatch of the Gaussian
// experiment: ten numbers. An operand is a matrix, or a column with one number for each row.
// Products and sums are rounded separately, so the results are bit-identical to plain Go's.
//
// On amd64 all of them are AVX2, because wider vectors would mostly straddle two cache lines.
// They use no masks: a load that overlaps a masked store, as the next row's would, waits until
// the store has completed.

// A rowKernel computes y = a·b + c for each row, or adds up the products a·b over the rows.
type rowKernel struct {
	name, doc string
	a, c      operand // b is always a matrix
	sum       bool    // add a·b of all rows to the single row y
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

// dotKernels add up along rows, four rows at a time.
var dotKernels = []rowKernel{
	{"rowAddDots", "y_i = y_i + a_i·b_i (dot product) for numbers y_i and a multiple of four rows", matrix, none, true},
	{"rowAddSums", "y_i = y_i + the sum of b_i for numbers y_i and a multiple of four rows", none, none, true},
}

// rowTable lists the row kernels by number.
func rowTable() *table {
	t := &table{kind: "row"}
	for _, k := range append(rowKernels, dotKernels...) {
		t.add(k.name)
	}
	return t
}

// numbers returns the Go file with the numbers of the elementwise and row kernels.
func numbers() string {
	var b strings.Builder
	b.WriteString("// Numbers of the elementwise kernels.\nconst (\n")
	for i, k := range elementwiseKernels {
		fmt.Fprintf(&b, "%s%s // %s\n", k.name, map[bool]string{true: " = iota"}[i == 0], k.doc)
	}
	b.WriteString(")\n\n// Numbers of the row kernels.\nconst (\n")
	for i, k := range append(rowKernels, dotKernels...) {
		fmt.Fprintf(&b, "%s%s // %s\n", k.name, map[bool]string{true: " = iota"}[i == 0], k.doc)
	}
	b.WriteString(")\n")
	return goFile("", b.String())
}

// tables returns the Go file with the kernels that each level of an architecture has.
func tables(sets []isa) string {
	_, tiles := tileTable(sets)
	_, transposes := transposeTable(sets)
	var b strings.Builder
	b.WriteString("// elementwiseFirst is the number of each level's first elementwise kernel.\nvar elementwiseFirst = [levels]int{\n")
	for i, a := range sets {
		fmt.Fprintf(&b, "level%s: %d,\n", a.name, i*len(elementwiseKernels))
	}
	b.WriteString("}\n\n// peakKernels has the peak kernel of each level: number and sums.\nvar peakKernels = [levels]peakKernel{\n")
	for i, a := range sets {
		fmt.Fprintf(&b, "level%s: {%d, %d},\n", a.name, i, a.peakSums())
	}
	b.WriteString("}\n")
	return goFile("!purego", tiles+"\n"+transposes+"\n"+b.String())
}

// tileTable returns the table of the tile kernels and the Go text of their shapes and numbers.
func tileTable(sets []isa) (*table, string) {
	t := &table{kind: "tile"}
	var b strings.Builder
	b.WriteString("// tileSets has the tiles of each level: rows, vectors and number.\nvar tileSets = [levels]*tileSet{\n")
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

// transposeTable returns the table of the transpose kernels and the Go text of their numbers.
// A level also has the kernels of narrower ones, for matrices of fewer rows.
func transposeTable(sets []isa) (*table, string) {
	t := &table{kind: "transpose"}
	var b strings.Builder
	b.WriteString("// transposeKernels has the transpose kernels of each level: rows and number.\nvar transposeKernels = [levels][]transposeKernel{\n")
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

// peakSums returns the number of sums in the peak kernel: enough to hide the latency of a
// multiply-add, four cycles, on two units of amd64 or four of arm64.
func (a isa) peakSums() int {
	if a == neon {
		return 24
	}
	return 12
}

// goFile returns a formatted Go file of package kernel.
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

// bitsOf returns the bits of c as a float32.
func bitsOf(c float64) uint32 { return math.Float32bits(float32(c)) }
