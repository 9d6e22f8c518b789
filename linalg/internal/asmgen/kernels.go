package main

import (
	"fmt"
	"go/format"
	"math"
	"slices"
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

// A tileKind is a kind of tile. The kinds are numbered in the order of their kernels.
type tileKind int

const (
	full    tileKind = iota // consists of whole vectors
	partial                 // computes the last columns, which do not fill a vector
	quad                    // has a single vector, which holds four columns from each of several groups
	kinds                   // number of kinds
)

func (k tileKind) String() string { return [...]string{"full", "partial", "quad"}[k] }

// A shape is the size of a tile: its number of rows and its number of vectors per row.
type shape struct{ rows, vectors int }

// tall is a tile with 16 rows of one vector. It is faster than two tiles of eight rows because it
// loads B half as often. AVX2 has too few registers for it.
var tall = shape{16, 1}

// An isa is an instruction set.
type isa struct {
	name           string // suffix of the names of its kernels and its level in Go
	lanes          int    // number of float32 in a vector register
	prefix         string // first letter of the names of vector registers
	registers      int    // number of vector registers
	vectors        int    // largest number of vectors per row of a tile
	partialColumns int    // largest number of columns of a partial tile
	peakSums       int    // number of independent sums in the peak kernel
	tiles          [kinds][]shape
}

// A full tile holds up to 24 vectors of sums if the instruction set has 32 registers, or up to 12
// if it has 16. With NEON, four vectors hold the sixteen columns of one block of a minibatch. In a
// training step of the HVAE (K = 5, minibatches of 100), the tiles 8×3, 8×2 and 16×1 perform 92 %
// of the multiply-adds with AVX-512 (16×1 alone performs a sixth of them), and tiles of five rows
// perform 4 %, because the last upsampling layer has five kernel rows. The other sizes serve the
// edges of matrices and layers of other models. If no tile has the height of the remaining rows,
// for example three or seven rows, several tiles share them.
//
// Partial tiles compute the last columns of matrices whose width is not a multiple of the vector
// length. In a training step of the HVAE these are the last columns of minibatches, 1 % of the
// multiply-adds. Partial tiles are separate from full tiles because a masked load needs a second
// instruction, which competes with multiplications for the same execution units. NEON has no
// masks, so its partial tiles are one column wide.
//
// Quad tiles: a minibatch of 100 columns consists of six blocks of 16 columns and one block of
// four. Without quad tiles, the convolutions of the last block would take as long as the
// convolutions of each other block, that is, a seventh of a training step; with quad tiles they
// take a quarter of that time. NEON needs no quad tiles because four columns fill a vector.
//
// The number of sums in the peak kernel is large enough to hide the latency of a multiply-add,
// four cycles, on the two multiply-add units of amd64 or the four units of arm64.
var (
	avx512 = &isa{"AVX512", 16, "Z", 32, 3, 15, 12, [kinds][]shape{
		full:    append(grid(3, 1, 2, 4, 5, 8), tall),
		partial: {{1, 1}, {4, 1}, {8, 1}, tall},
		quad:    {{1, 1}, {4, 1}, tall},
	}}
	avx2 = &isa{"AVX2", 8, "Y", 16, 3, 7, 12, [kinds][]shape{
		full:    grid(3, 1, 2, 4),
		partial: {{1, 1}, {2, 1}, {4, 1}},
		quad:    {{1, 1}, {4, 1}},
	}}
	neon = &isa{"NEON", 4, "V", 32, 4, 1, 24, [kinds][]shape{
		full:    slices.Concat(grid(4, 1, 2, 4), []shape{{6, 4}}, grid(3, 8), []shape{tall}),
		partial: {{1, 1}, {4, 1}, {8, 1}, tall},
	}}
)

// These variables list the instruction sets of each architecture, widest first.
var (
	amd64 = []*isa{avx512, avx2}
	arm64 = []*isa{neon}
)

// grid returns the shapes with the given numbers of rows and with 1 to vectors vectors per row.
func grid(vectors int, rows ...int) (shapes []shape) {
	for _, r := range rows {
		for v := range vectors {
			shapes = append(shapes, shape{r, v + 1})
		}
	}
	return shapes
}

// An elementwiseKernel describes a kernel that computes a function of each element of its
// operands. An operand is named by the letter of its field in elementwiseArgs.
type elementwiseKernel struct {
	name    string              // name of the constant for its number in Go
	doc     string              // formula that it computes
	outputs string              // operands that it writes
	inputs  string              // operands that it reads
	scalars []string            // fields with the numbers that it reads
	body    func(w *body) []int // writes the computation and returns the registers of the outputs
}

// elementwiseKernels lists the elementwise kernels in the order of their numbers.
var elementwiseKernels = []elementwiseKernel{
	{"opAdd", "y = a + b", "y", "ab", nil, one(add)},
	{"opSub", "y = a − b", "y", "ab", nil, one(sub)},
	{"opMul", "y = a·b", "y", "ab", nil, one(mul)},
	{"opDiv", "y = a/b", "y", "ab", nil, one(div)},
	{"opMulAdd", "y = a·b + c", "y", "abc", nil, func(w *body) []int {
		a, b, c := w.in[0], w.in[1], w.in[2]
		w.binary(fma, c, a, b)
		return []int{c}
	}},
	{"opScale", "y = s·a", "y", "a", []string{"s"}, one(mul)},
	{"opAddConst", "y = a + s", "y", "a", []string{"s"}, one(add)},
	{"opExp", "y = eᵃ", "y", "a", nil, func(w *body) []int { return []int{w.exp(w.in[0], true)} }},
	{"opLog", "y = log a", "y", "a", nil, func(w *body) []int { return []int{w.log(w.in[0])} }},
	{"opSigmoid", "y = 1/(1 + e⁻ᵃ)", "y", "a", nil, func(w *body) []int {
		return []int{w.sigmoid(w.in[0], w.expOfMinusAbs(w.in[0]))}
	}},
	{"opSoftplus", "y = log(1 + eᵃ)", "y", "a", nil, func(w *body) []int {
		return []int{w.softplus(w.in[0], w.expOfMinusAbs(w.in[0]))}
	}},
	{"opSoftplusSigmoid", "y = log(1 + eᵃ), b = 1/(1 + e⁻ᵃ)", "yb", "a", nil, func(w *body) []int {
		e := w.expOfMinusAbs(w.in[0])
		b := w.sigmoid(w.in[0], e)
		return []int{w.softplus(w.in[0], e), b}
	}},
	{"opSigmoidGradient", "y = a ⊙ (b − b²)", "y", "ab", nil, func(w *body) []int {
		a, b, y := w.in[0], w.in[1], w.register()
		w.unary(move, y, b)
		w.binary(fms, y, b, b)
		w.binary(mul, y, y, a)
		return []int{y}
	}},
	{"opAdamax", "a step of Adamax with parameters y, gradient a and averages b and c", "ybc", "ybca",
		[]string{"beta1", "rest1", "beta2", "rate", "epsilon"}, (*body).adamax},
}

// The row kernels process rows of float64. Rows may be as short as a minibatch of the Gaussian
// experiment, which has ten samples. An operand is either a matrix, or a column with one number
// for each row. Products and sums are rounded separately, so the results are bit-identical to the
// results of plain Go.
//
// On amd64 all row kernels use AVX2, because most loads of wider vectors would cross a boundary
// between cache lines. They use no masks: a load that overlaps a preceding masked store, as the
// load of the next row would, waits until the store has completed.

// A rowKernel describes a kernel that computes y = a·b + c for each row. If y is a single row, the
// kernel adds the products a·b of all rows to y. If y is a column, the kernel adds the dot product
// of each row of a with the same row of b to the number of this row in y. A missing c is zero, and
// a missing a is one.
type rowKernel struct {
	name, doc string
	y, a, c   operand // kinds of the operands y, a and c; b is always a matrix
}

// An operand is a kind of operand of a row kernel.
type operand int

const (
	none   operand = iota
	matrix         // many rows
	single         // one row
	column         // one number for each row
)

// rowKernels lists the row kernels in the order of their numbers.
var rowKernels = []rowKernel{
	{"rowScale", "y_i = a_i·b_i for numbers a_i", matrix, column, none},
	{"rowMul", "y_i = a_i ⊙ b_i", matrix, matrix, none},
	{"rowScaleAdd", "y_i = a_i·b_i + c_i for numbers a_i", matrix, column, matrix},
	{"rowScaleShift", "y_i = a_i·b_i + c_i for numbers a_i and c_i", matrix, column, column},
	{"rowMulAdd", "y_i = a_i ⊙ b_i + c_i", matrix, matrix, matrix},
	{"rowAddScaled", "y = y + Σ_i a_i·b_i for numbers a_i", single, column, none},
	{"rowAddMul", "y = y + Σ_i a_i ⊙ b_i", single, matrix, none},
	{"rowAddDots", "y_i = y_i + a_i·b_i (dot product) for numbers y_i and a multiple of four rows", column, matrix, none},
	{"rowAddSums", "y_i = y_i + the sum of b_i for numbers y_i and a multiple of four rows", column, none, none},
}

// numbers returns the source of the Go file that defines the numbers of the elementwise and row
// kernels.
func numbers() string {
	text := "// These are the numbers of the elementwise kernels.\nconst (\n"
	for i, k := range elementwiseKernels {
		text += fmt.Sprintf("%s = %d // %s\n", k.name, i, k.doc)
	}
	text += ")\n\n// These are the numbers of the row kernels. The index i denotes row i of an operand or, where stated, its number i.\nconst (\n"
	for i, k := range rowKernels {
		text += fmt.Sprintf("%s = %d // %s\n", k.name, i, k.doc)
	}
	return goFile("", text+")\n")
}

// tables returns the source of the Go file that lists the kernels of each level of an
// architecture. For matrices with few rows, a level also includes the transpose kernels of narrower
// levels.
func tables(sets []*isa) string {
	text := "// kernelSets lists the kernels of each level. A tile kernel is listed with its rows, vectors and number,\n// and a transpose kernel with its rows and number.\nvar kernelSets = [levels]*kernelSet{\n"
	number := 0 // of the next tile kernel
	for i, a := range sets {
		text += fmt.Sprintf("level%s: {\nelementwise: %d, peak: %d, peakSums: %d,\n", a.name, i*len(elementwiseKernels), i, a.peakSums)
		text += "transposes: []transposeKernel{"
		for j := i; j < len(sets); j++ {
			text += fmt.Sprintf("{%d, %d}, ", sets[j].lanes, j)
		}
		text += fmt.Sprintf("},\nlanes: %d, vectors: %d, partialColumns: %d,\n", a.lanes, a.vectors, a.partialColumns)
		for kind, shapes := range a.tiles {
			text += fmt.Sprintf("%v: newTileLookup([]tileKernel{", tileKind(kind))
			rows := 0
			for _, s := range shapes {
				if s.rows != rows {
					text += "\n"
					rows = s.rows
				}
				text += fmt.Sprintf("{%d, %d, %d}, ", s.rows, s.vectors, number)
				number++
			}
			text += "\n}),\n"
		}
		text += "},\n"
	}
	return goFile("!purego", text+"}\n")
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
