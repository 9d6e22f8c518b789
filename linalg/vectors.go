package linalg

import "hvae/linalg/internal/kernel"

// Vectors returns the name of the vector kernels in use: avx512, avx2, or none, where
// everything is plain Go. They are the best that the processor has, unless the environment
// variable HVAE_SIMD, read when the program starts, names others; it cannot ask for more
// than there is. If it holds anything else, the best run, and Vectors says so by its
// error: a command should stop there, and a library that does not ask has lost nothing.
func Vectors() (name string, err error) { return kernel.Level() }

// Lanes returns how many float32 the vector kernels in use compute at a time: 16, 8, or 0
// where there are none.
func Lanes() int { return kernel.Lanes() }
