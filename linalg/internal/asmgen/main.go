// Command asmgen generates the SIMD kernels of package linalg/internal/kernel, which are functions in
// Go assembly, and the Go tables of their numbers. Run it in the directory of package kernel or in
// this directory:
//
//	go generate
//
// A test fails if the checked-in files differ from the output.
//
// Start with kernels.go, which lists all kernels and the instruction sets AVX-512, AVX2 and NEON.
// The file writer.go formats instructions. The file functions.go contains the exponential, the
// logarithm and functions derived from them, written in the operations that elementwise.go declares.
// The files amd64*.go and arm64*.go generate the kernels of each architecture.
//
// Kernels access their arguments by the names of Go fields. The Go compiler writes the offsets of
// the fields to go_asm.h, which the assembly includes.
package main

import (
	"fmt"
	"os"
)

//go:generate go run .

// files returns the contents of the generated files of package kernel by file name.
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

// dir is the directory of package kernel relative to itself and to the directory of this command.
const dir = "../kernel/"

func main() {
	for name, text := range files() {
		if err := os.WriteFile(dir+name, []byte(text), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "asmgen:", err)
			os.Exit(1)
		}
	}
}
