// Command asmgen writes the assembly of the module: the kernels of package linalg for
// AVX-512 and for AVX2 with FMA, from one description of each, and the loop by which
// package bench measures what the processor can do at most. Run it in its folder:
//
//	go run .
//
// A test fails while the files are not what it writes. Start with writer.go (what an
// instruction set is here), then tile.go (the products), transpose.go, lanes.go (elementwise
// kernels), functions.go (exponentials, logarithms and what is made of them) and rows.go
// (the kernels of float64).
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// files returns the text of each file by its path from the module's root.
func files() map[string]string {
	return map[string]string{
		"linalg/tile_amd64.s":      tiles(),
		"linalg/transpose_amd64.s": transpose(),
		"linalg/lanes_amd64.s":     lanes(),
		"linalg/lanes_amd64.go":    declarations("!purego", false),
		"linalg/lanes_other.go":    declarations("!amd64 || purego", true),
		"linalg/rows_amd64.s":      rows(),
		"linalg/rows_amd64.go":     rowDeclarations("!purego", false),
		"linalg/rows_other.go":     rowDeclarations("!amd64 || purego", true),
		"bench/peak_amd64.s":       peak(),
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
