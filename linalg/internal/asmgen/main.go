// Command asmgen generates the SIMD kernels of package linalg/internal/kernel and the tables that
// the Go code uses to find them. Each kernel is described once and generated for AVX-512, AVX2 and
// NEON. Run asmgen in the directory of that package or in this directory:
//
//	go generate
//
// A test fails if the checked-in files differ from the output.
//
// Start with kernels.go, which lists all kernels. The file writer.go defines the instruction sets
// and writes the text of instructions. The file functions.go computes the exponential, the
// logarithm and functions derived from them with the operations declared in elementwise.go. The
// files amd64*.go and arm64*.go generate the kernels of each architecture.
//
// The generator does not contain the offsets of arguments or the numbers of kernels: the assembly
// takes them from go_asm.h, which the Go compiler generates from the types and constants of
// package kernel.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

//go:generate go run .

// files returns a map from the name of each generated file in package kernel to its contents.
func files() map[string]string {
	return map[string]string{
		"numbers.go": numbers(),

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

// path returns the path of a generated file, relative to the directory of asmgen or of package
// kernel.
func path(name string) string { return filepath.Join("..", "kernel", name) }

func main() {
	for name, text := range files() {
		if err := os.WriteFile(path(name), []byte(text), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "asmgen:", err)
			os.Exit(1)
		}
	}
}
