// Command asmgen generates the SIMD kernels of package linalg/internal/kernel, which are functions in Go assembly. It
// also generates Go files that list the kernels and define their indices. Run it in this directory:
//
//	go generate
//
// A test fails if the checked-in files differ from the output.
//
// Each kernel is written once, for AVX-512, AVX2 and NEON. Start with sets.go, which describes these instruction sets
// and their tiles. The file scalar.go defines a portable assembly language for loops and addresses, and vector.go
// emits vector instructions. The kernels are in tiles.go, rows.go, transpose.go and elementwise.go. Elementwise
// kernels are formulas: formula.go assigns registers to their intermediate results, and functions.go contains the
// exponential, the logarithm and related functions.
//
// Assembly code refers to the arguments of a kernel by the names of Go struct fields. The Go compiler writes the
// offsets of the fields to go_asm.h, which the assembly files include.
package main

import (
	"fmt"
	"os"
)

//go:generate go run .

// files returns a map from the name of each generated file of package kernel to its contents.
func files() map[string]string {
	texts := map[string]string{"indices.go": indices()}
	for _, arch := range []*architecture{amd64, arm64} {
		texts["tables_"+arch.goarch+".go"] = tables(arch)
		for kind, text := range map[string]func(*architecture) string{
			"tiles": tiles, "elementwise": elementwise, "rows": rows, "transpose": transpose, "peak": peak,
		} {
			texts[kind+"_"+arch.goarch+".s"] = text(arch)
		}
	}
	return texts
}

// dir is the path of package kernel, relative to this directory.
const dir = "../kernel/"

func main() {
	for name, text := range files() {
		if err := os.WriteFile(dir+name, []byte(text), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "asmgen:", err)
			os.Exit(1)
		}
	}
}
