package linalg

import "hvae/linalg/internal/kernel"

// Vectors returns the name of the vector kernels in use: avx512 or avx2 on amd64, neon on
// arm64, or none, where everything is plain Go. They are the best that the processor has,
// unless the environment variable HVAE_SIMD, read when the program starts, names others; a
// name that the processor has no kernels for leaves the best. If it holds anything else, the
// best run, too, and Vectors says so by its error: a command should stop there, and a library
// that does not ask has lost nothing.
func Vectors() (name string, err error) { return kernel.Level() }

// Lanes returns how many float32 the vector kernels in use compute at a time: 16, 8, 4, or 0
// where there are none.
func Lanes() int { return kernel.Lanes() }
