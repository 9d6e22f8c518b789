// Command asmgen generates the SIMD kernels of package linalg/internal/kernel, which are functions in Go assembly. It
// also generates Go files that list the kernels and define their indices. Run it in this directory:
//
//	go generate
//
// A test fails if the checked-in files differ from the output.
//
// Start with kernels.go, which lists all kernels and the instruction sets AVX-512, AVX2 and NEON. The
// file writer.go formats instructions. The file elementwise.go declares operations on vectors, and
// functions.go uses these operations to compute the exponential, the logarithm and related functions.
// The files amd64*.go and arm64*.go generate the kernels of each architecture.
//
// Assembly code refers to the arguments of a kernel by the names of Go struct fields. The Go compiler
// writes the offsets of the fields to go_asm.h, which the assembly files include.
package main

import (
	"fmt"
	"os"
)

//go:generate go run .

// files returns the contents of the generated files of package kernel, by file name.
func files() map[string]string {
	return map[string]string{
		"indices.go": indices(),

		"tables_amd64.go":     tables(amd64),
		"tiles_amd64.s":       amd64Tiles(),
		"elementwise_amd64.s": amd64Elementwise(),
		"rows_amd64.s":        amd64Rows(),
		"transpose_amd64.s":   amd64Transpose(),
		"peak_amd64.s":        amd64Peak(),

		"tables_arm64.go":     tables(arm64),
		"tiles_arm64.s":       arm64Tiles(),
		"elementwise_arm64.s": arm64Elementwise(),
		"rows_arm64.s":        arm64Rows(),
		"transpose_arm64.s":   arm64Transpose(),
		"peak_arm64.s":        arm64Peak(),
	}
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
