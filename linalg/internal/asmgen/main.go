// Command asmgen generates the SIMD kernels of package linalg/internal/kernel, with the
// tables through which Go finds them. Each kernel is described once and written for
// AVX-512, AVX2 and NEON. Run it in that package's folder or in this one:
//
//	go generate
//
// A test fails if the checked-in files differ from its output.
//
// Start with kernels.go, the list of all kernels. writer.go has instruction sets and the
// text of instructions. functions.go computes exponentials, logarithms and functions made
// of them in terms of the operations in elementwise.go. The files amd64*.go and arm64*.go
// write the kernels of each architecture.
//
// Offsets of arguments and numbers of kernels do not appear here: the assembly takes them
// from go_asm.h, which the Go compiler makes from the types and constants of package kernel.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

//go:generate go run .

// files returns the text of each generated file, by its name in package kernel.
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

// path returns the path of a generated file, relative to this folder and to package kernel's.
func path(name string) string { return filepath.Join("..", "kernel", name) }

func main() {
	for name, text := range files() {
		if err := os.WriteFile(path(name), []byte(text), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "asmgen:", err)
			os.Exit(1)
		}
	}
}
