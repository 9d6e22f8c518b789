package main

import (
	"fmt"
	"go/format"
	"math"
	"slices"
)

// A tile kernel computes a tile, a small part of the matrix C in C += A·B; see Contraction in package kernel. The sums
// of the tile stay in rows × vectors registers. In each step, the kernel loads the vectors of one row of B. For each
// row of A, it then loads one element into all lanes of a register and multiplies:
//
//	                       row of B:  b0   b1   b2
//	                                 ┌────┬────┬────┐
//	elements of A, in all lanes:  a0 │ c0 │ c1 │ c2 │
//	                              a1 │ c3 │ c4 │ c5 │   c += a·b
//	                                 └────┴────┴────┘

// A tileKind is a kind of tile. In the table of tile kernels, the kernels of an instruction set are sorted by kind.
type tileKind int

const (
	full tileKind = iota // whole vectors
	// A partial tile consists of the last columns of a matrix, which do not fill a vector. A masked load needs a second
	// instruction, which competes with multiplications for execution units, so full tiles do not use masks. NEON has no
	// masks, so its partial tiles have one column. Partial tiles perform 1 % of the multiply-adds of a training step.
	partial
	// Each row of a quad tile is one vector with four columns from each of several groups of a Contraction.
	// In a convolution, the groups are neighbouring pixels. Training divides a minibatch of 100 columns
	// into six blocks of 16 and one of four. With quad tiles, the convolutions of the block of four take a
	// quarter of the time of a block of 16; without quad tiles, they would take as long as a block of 16. NEON
	// needs no quad tiles because four columns fill a vector.
	quad
	kinds // number of kinds
)

func (k tileKind) String() string { return [...]string{"full", "partial", "quad"}[k] }

// A shape holds the size of a tile: the number of rows and the number of vectors per row.
type shape struct{ rows, vectors int }

// tall is the shape of a tile with 16 rows of one vector. One such tile is faster than two tiles of
// eight rows, because it loads B half as often. AVX2 has too few registers for it.
var tall = shape{16, 1}

// An isa is an instruction set.
type isa struct {
	name           string // suffix of the kernel names and of the level constant in package kernel
	lanes          int    // number of float32 in a vector register
	prefix         string // first letter of the names of vector registers
	registers      int    // number of vector registers
	vectors        int    // largest number of vectors per row of a tile
	partialColumns int    // largest number of columns of a partial tile

	// peakSums is the number of vectors of sums in the kernel that measures the peak speed. Independent sums hide the
	// latency of a multiply-add (four cycles) on processors with two (amd64) or four (arm64) multiply-add units.
	peakSums int

	tiles [kinds][]shape // shapes of the tile kernels of each kind
}

// Tile sizes are rows × vectors. A full tile has up to 24 vectors of sums if the instruction set has 32
// registers, and up to 12 vectors if it has 16. NEON tiles have up to four vectors (16 columns), because
// training divides a minibatch into blocks of 16 columns.
//
// In a training step of the HVAE (K = 5, minibatches of 100) with AVX-512, tiles of 8×3, 8×2 and 16×1 perform most of
// the multiply-adds. The other tiles are for the edges of matrices and for other models. Tiles with five rows are for
// the encoder's first layer, whose images have one channel and whose kernel has five rows: they reduce the time of its
// transpose and of its weight gradient by a fifth. With blocks of four images, quad and partial tiles of 16 rows save a
// tenth for the other convolutions.
var (
	avx512 = &isa{"AVX512", 16, "Z", 32, 3, 15, 12, [kinds][]shape{
		full:    slices.Concat(grid(3, 1, 4, 5, 8), []shape{tall}),
		partial: {{1, 1}, {8, 1}, tall},
		quad:    {{1, 1}, {4, 1}, {8, 1}, tall},
	}}
	avx2 = &isa{"AVX2", 8, "Y", 16, 3, 7, 12, [kinds][]shape{
		full:    grid(3, 1, 4),
		partial: {{1, 1}, {4, 1}},
		quad:    {{1, 1}, {4, 1}},
	}}
	neon = &isa{"NEON", 4, "V", 32, 4, 1, 24, [kinds][]shape{
		full:    slices.Concat(grid(4, 1, 4), []shape{{6, 4}}, grid(3, 8), []shape{tall}),
		partial: {{1, 1}, {8, 1}},
	}}
)

// amd64 and arm64 list the instruction sets of each architecture, widest first.
var (
	amd64 = []*isa{avx512, avx2}
	arm64 = []*isa{neon}
)

// grid returns the shapes with the given numbers of rows and 1 to n vectors per row.
func grid(n int, rows ...int) (shapes []shape) {
	for _, r := range rows {
		for v := range n {
			shapes = append(shapes, shape{r, v + 1})
		}
	}
	return shapes
}

// An elementwiseKernel describes a kernel that computes a function of each element of its operands.
// Each operand is a field of elementwiseArgs in package kernel, and its name is a single letter.
type elementwiseKernel struct {
	name    string              // name of the Go constant for the index of the kernel
	doc     string              // formula
	outputs string              // operands that the kernel writes
	inputs  string              // operands that the kernel reads
	scalars []string            // fields of elementwiseArgs that hold the scalars that the kernel reads
	body    func(w *body) []int // emits the computation and returns the registers of the outputs
}

// elementwiseKernels[i] is the elementwise kernel with index i.
var elementwiseKernels = []elementwiseKernel{
	{"opAdd", "y = a + b", "y", "ab", nil, one(add)},
	{"opMul", "y = a·b", "y", "ab", nil, one(mul)},
	{"opMulAdd", "y = a·b + c", "y", "abc", nil, func(w *body) []int {
		a, b, c := w.in[0], w.in[1], w.in[2]
		w.binary(fma, c, a, b)
		return []int{c}
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
	{"opAdamax", "a step of Adamax for parameters y, moving averages b and c and gradient a", "ybc", "ybca",
		[]string{"beta1", "rest1", "beta2", "rate", "epsilon"}, (*body).adamax},
}

// The row kernels process rows of float64. In the Gaussian experiment, a row has only ten numbers, one per draw of a
// minibatch. Products and sums are rounded separately, so the results are bit-identical to the results of plain Go.
//
// On amd64, all row kernels use AVX2, because most loads of wider vectors would cross a boundary between
// cache lines. They do not use masks, because the load of a row would overlap the masked store of the
// preceding row, and would have to wait until the store has completed.

// A rowKernel describes a kernel that computes a matrix, a row or a column y from a matrix b and the operands a and c:
//
//	y_i = a_i ⊙ b_i + c_i       if y is a matrix
//	y   = y + Σ_i a_i ⊙ b_i     if y is a single row
//	y_i = y_i + Σ_j a_ij·b_ij   if y is a column
//
// Here b_i is row i of b. If a is a column, the number a_i multiplies each element of b_i. If c is a
// column, the number c_i is added to each element. A kernel without c uses c_i = 0.
type rowKernel struct {
	name, doc string
	y, a, c   operandKind
}

// An operandKind is the shape of an operand of a row kernel.
type operandKind int

const (
	none   operandKind = iota // the kernel has no such operand
	matrix                    // a row for each row of b
	single                    // a single row
	column                    // a number for each row of b
)

// A rowBlock describes a block of adjacent columns that a row kernel processes together. In each row,
// the block consists of len(vectors) vectors. Vector v holds vectors[v] numbers.
type rowBlock struct {
	columns int
	vectors []int
}

// rowKernels[i] is the row kernel with index i.
var rowKernels = []rowKernel{
	{"rowScaleShift", "y_i = a_i·b_i + c_i for columns a and c", matrix, column, column},
	{"rowScaleAdd", "y_i = a_i·b_i + c_i for a column a", matrix, column, matrix},
	{"rowMulShift", "y_i = a_i ⊙ b_i + c_i for a column c", matrix, matrix, column},
	{"rowMulAdd", "y_i = a_i ⊙ b_i + c_i", matrix, matrix, matrix},
	{"rowAddScaled", "y = y + Σ_i a_i·b_i for a column a", single, column, none},
	{"rowAddMul", "y = y + Σ_i a_i ⊙ b_i", single, matrix, none},
	{"rowAddDots", "y_i = y_i + Σ_j a_ij·b_ij for a column y; the number of rows must be a multiple of four", column, matrix, none},
}

// indices returns the text of the Go file that defines constants for the indices of the elementwise
// kernels and the row kernels.
func indices() string {
	text := "package kernel\n\n// Indices of the elementwise kernels of an instruction set.\nconst (\n"
	for i, k := range elementwiseKernels {
		text += fmt.Sprintf("%s = %d // %s\n", k.name, i, k.doc)
	}
	text += ")\n\n// Indices of the row kernels. In the formulas, x_i is row i of the operand x, or element i if x is a column.\nconst (\n"
	for i, k := range rowKernels {
		text += fmt.Sprintf("%s = %d // %s\n", k.name, i, k.doc)
	}
	return goFile(text + ")\n")
}

// tables returns the text of the Go file that lists the kernels of each instruction set. Each list also
// contains the transpose kernels of narrower instruction sets, which process bands with fewer rows.
func tables(sets []*isa) string {
	text := "//go:build !purego\n\npackage kernel\n\n// kernelSets lists the kernels of each instruction set. The fields of a tileKernel are {rows, vectors, index}, and\n// the fields of a transposeKernel are {rows, index}.\nvar kernelSets = [levels]*kernelSet{\n"
	index := 0 // index of the next tile kernel
	for i, a := range sets {
		text += fmt.Sprintf("level%s: {\nelementwise: %d, peak: %d, peakSums: %d,\n", a.name, i*len(elementwiseKernels), i, a.peakSums)
		text += "transposes: []transposeKernel{"
		for j := i; j < len(sets); j++ {
			text += fmt.Sprintf("{%d, %d}, ", sets[j].lanes, j)
		}
		text += fmt.Sprintf("},\nlanes: %d, vectors: %d, partialColumns: %d,\n", a.lanes, a.vectors, a.partialColumns)
		for kind, shapes := range a.tiles {
			text += fmt.Sprintf("%v: newTileLookup([]tileKernel{", tileKind(kind))
			for n, s := range shapes {
				if n == 0 || shapes[n-1].rows != s.rows {
					text += "\n"
				}
				text += fmt.Sprintf("{%d, %d, %d}, ", s.rows, s.vectors, index)
				index++
			}
			text += "\n}),\n"
		}
		text += "},\n"
	}
	return goFile(text + "}\n")
}

// goFile returns the formatted contents of a generated Go file.
func goFile(text string) string {
	formatted, err := format.Source([]byte(generated + text))
	if err != nil {
		panic(err)
	}
	return string(formatted)
}

// bitsOf returns the bits of c rounded to float32.
func bitsOf(c float64) uint32 { return math.Float32bits(float32(c)) }
