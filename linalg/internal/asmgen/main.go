// Command asmgen writes the assembly of the module: the vector kernels of package
// linalg/internal/kernel, with the tables by which Go finds them, and the loop by which
// package bench measures what the processor can do at most. Each kernel is described once
// and written for each instruction set. Run it in that package's folder or here:
//
//	go generate
//
// A test fails while the files are not what it writes. Start with writer.go (what an
// instruction set is here), then tile.go (the products), transpose.go, lanes.go (elementwise
// kernels), functions.go (exponentials, logarithms and what is made of them), x86.go (how
// amd64 computes them) and rows.go (the kernels of float64). neon.go and the files named
// after it do the same for arm64.
//
// Offsets of arguments and numbers of levels and kernels are not written here: the
// assembly takes them from go_asm.h, which the Go compiler makes from the package's types
// and constants. Tile shapes, which Go needs in turn, stand in a table that this program
// writes for it.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

//go:generate go run .

// files returns the text of each file by its path from the module's root.
func files() map[string]string {
	const kernel = "linalg/internal/kernel/"
	return map[string]string{
		kernel + "tiles_amd64.s":     tiles(),
		kernel + "transpose_amd64.s": transpose(),
		kernel + "lanes_amd64.s":     lanes(),
		kernel + "rows_amd64.s":      rows(),
		kernel + "numbers.go":        numbers(),
		kernel + "tables_amd64.go":   tables(x86),
		"bench/peak_amd64.s":         peak(),
		"bench/peak_amd64.go":        peakLoops(x86),

		kernel + "tiles_arm64.s":     neonTiles(),
		kernel + "transpose_arm64.s": neonTranspose(),
		kernel + "lanes_arm64.s":     neonLanes(),
		kernel + "rows_arm64.s":      neonRows(),
		kernel + "tables_arm64.go":   tables([]isa{neon}),
		"bench/peak_arm64.s":         neonPeak(),
		"bench/peak_arm64.go":        peakLoops([]isa{neon}),
	}
}

func main() {
	for name, text := range files() {
		if err := os.WriteFile(filepath.Join("..", "..", "..", name), []byte(text), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "asmgen:", err)
			os.Exit(1)
		}
	}
}
