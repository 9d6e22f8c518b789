package main

import (
	"fmt"
	"go/format"
	"strings"
)

// An architecture is a processor architecture for which the generator has kernels.
type architecture struct {
	goarch  string   // name of the architecture in Go
	sets    []*isa   // instruction sets, widest first
	args    string   // register that holds the address of the arguments of a kernel
	general []string // other general-purpose registers that kernels use
	column  int      // index in the arrays of the table instructions
}

// An isa is an instruction set.
type isa struct {
	name         string // suffix of the kernel names and of the level constant in package kernel
	bytes        int    // number of bytes of a vector register
	count        int    // number of vector registers
	vectors      int    // largest number of vectors per row of a tile
	partialWidth int    // largest number of columns of a partial tile
	block        int    // largest number of steps of a block, if the contraction has several blocks

	// peakSums is the number of vectors of sums in the kernel that measures the peak speed. A multiply-add has a
	// latency of four cycles, so processors with two (amd64) or four (arm64) multiply-add units need at least 8 or 16
	// independent sums, respectively, to stay busy.
	peakSums int

	tiles [kinds][]shape // shapes of the tile kernels of each kind
}

// A tileKind is a kind of tile. In the table of tile kernels, the kernels of an instruction set are sorted by kind.
type tileKind int

const (
	full tileKind = iota // whole vectors
	// A partial tile contains the last columns of a matrix if they do not fill a vector. On amd64, it uses masks. Full
	// tiles do not, because a masked load needs a second micro-operation, which competes with multiplications for
	// execution units. NEON has no masks, so its partial tiles have one column. Only 1 % of the multiply-adds of a
	// training step are in partial tiles.
	partial
	// Each row of a quad tile is one vector with four columns from each of several groups (see linalg.Contraction). In
	// a convolution, the groups are neighbouring pixels. Training divides a minibatch of 100 columns into six blocks of
	// 16 and one block of four. Without quad tiles, the convolutions of the block of four would take as long as those
	// of a block of 16. With quad tiles, they take a quarter of this time. NEON needs no quad tiles because four
	// columns fill a vector.
	quad
	kinds // number of kinds
)

func (k tileKind) String() string { return [...]string{"full", "partial", "quad"}[k] }

// A shape holds the size of a tile: the number of rows and the number of vectors per row.
type shape struct{ rows, vectors int }

// tall is the shape of a tile with 16 rows of one vector. One such tile is faster than two tiles of eight rows,
// because it loads B half as often. AVX2 has too few registers for it.
var tall = shape{16, 1}

// Tile sizes are written as rows × vectors. A full tile has up to 24 vectors of sums if the instruction set has 32
// registers, and up to 12 vectors if it has 16 registers. NEON tiles have up to four vectors per row (16 columns),
// because training divides a minibatch into blocks of 16 columns.
//
// In a training step of the HVAE (K = 5, minibatches of 100) with AVX-512, tiles of 8×3, 8×2 and 16×1 perform most of
// the multiply-adds. The other tiles are for the edges of matrices and for other models. Tiles with five rows are for
// the first layer of the encoder, where images have one channel and filters have five rows. These tiles reduce the time
// of the transpose and the weight gradient of this layer by a fifth. With blocks of four images, quad and partial tiles
// of 16 rows save a tenth of the time of the other convolutions.
//
// The remaining columns of a matrix fill at most one vector, so a tile of them has one sum for each row. AVX2 computes
// them eight rows at a time, because two multiply-add units with a latency of four cycles need eight independent sums.
//
// With AVX2, the columns of B that a strip reads in a block of 96 steps occupy up to 15 KiB. On an AMD Zen 3 (32 KiB of
// first-level cache), blocks of 64 to 100 steps make convolutions up to 1.5 times as fast, blocks of 160 steps gain
// half as much, and blocks of more than 200 steps nothing. With AVX-512, a strip is twice as wide, but many processors
// have 48 KiB. Its blocks are not tuned.
var (
	avx512 = &isa{name: "AVX512", bytes: 64, count: 32, vectors: 3, partialWidth: 15, block: 128, peakSums: 12,
		tiles: [kinds][]shape{
			full:    {{1, 1}, {1, 2}, {1, 3}, {4, 1}, {4, 2}, {4, 3}, {5, 1}, {5, 2}, {5, 3}, {8, 2}, {8, 3}, tall},
			partial: {{1, 1}, tall},
			quad:    {{1, 1}, {4, 1}, tall},
		}}
	avx2 = &isa{name: "AVX2", bytes: 32, count: 16, vectors: 3, partialWidth: 7, block: 96, peakSums: 12,
		tiles: [kinds][]shape{
			full:    {{1, 1}, {1, 2}, {1, 3}, {4, 1}, {4, 2}, {4, 3}},
			partial: {{1, 1}, {8, 1}},
			quad:    {{1, 1}, {4, 1}},
		}}
	neon = &isa{name: "NEON", bytes: 16, count: 32, vectors: 4, partialWidth: 1, block: 96, peakSums: 24,
		tiles: [kinds][]shape{
			full:    {{1, 1}, {1, 2}, {1, 3}, {1, 4}, {4, 1}, {4, 2}, {4, 3}, {4, 4}, {6, 4}, {8, 2}, {8, 3}, tall},
			partial: {{1, 1}, tall},
		}}
)

// The field general lists the general-purpose registers that kernels may use. On amd64, it excludes the stack and frame
// pointers (SP and BP), and on arm64 the registers that the platform and Go reserve (R18 and R27 to R31).
var (
	amd64 = &architecture{goarch: "amd64", sets: []*isa{avx512, avx2}, args: "DI", column: 0,
		general: strings.Fields("AX BX CX DX SI R8 R9 R10 R11 R12 R13 R14 R15")}
	arm64 = &architecture{goarch: "arm64", sets: []*isa{neon}, args: "R0", column: 1,
		general: strings.Fields("R1 R2 R3 R4 R5 R6 R7 R8 R9 R10 R11 R12 R13 R14 R15 R16 R17 R19 R20 R21 R22 R23 R24 R25 R26")}
)

// indices returns the text of the Go file that defines constants for the indices of the elementwise and row kernels.
func indices() string {
	text := "package kernel\n\n// Indices of the elementwise kernels of an instruction set.\nconst (\n"
	for i, k := range elementwiseKernels {
		text += fmt.Sprintf("%s = %d // %s\n", k.name, i, k.doc)
	}
	text += ")\n\n// Indices of the row kernels. In the formulas, x_i is row i of the operand x, or element i if x is a column.\n" +
		"const (\n"
	for i, k := range rowKernels {
		text += fmt.Sprintf("%s = %d // %s\n", k.name, i, k.doc)
	}
	return goFile(text + ")\n")
}

// tables returns the text of the Go file that lists the kernels of each instruction set. Each list also contains the
// transpose kernels of narrower instruction sets, for matrices that are too small for the widest kernel.
func tables(arch *architecture) string {
	text := "//go:build !purego\n\npackage kernel\n\n" +
		"// kernelSets lists the kernels of each instruction set. The fields of a tileKernel are {rows, vectors, index}, and\n" +
		"// the fields of a transposeKernel are {rows, index}.\nvar kernelSets = [levels]*kernelSet{\n"
	index := 0 // index of the next tile kernel
	for i, a := range arch.sets {
		text += fmt.Sprintf("level%s: {\nelementwise: %d, peak: %d, peakSums: %d,\ntransposes: []transposeKernel{",
			a.name, i*len(elementwiseKernels), i, a.peakSums)
		for j := i; j < len(arch.sets); j++ {
			text += fmt.Sprintf("{%d, %d}, ", arch.sets[j].bytes/4, j)
		}
		text += fmt.Sprintf("},\nlanes: %d, vectors: %d, partialColumns: %d, block: %d,\n",
			a.bytes/4, a.vectors, a.partialWidth, a.block)
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

func goFile(text string) string {
	formatted, err := format.Source([]byte(generated + text))
	if err != nil {
		panic(err)
	}
	return string(formatted)
}
