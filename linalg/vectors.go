package linalg

import "hvae/linalg/internal/kernel"

// Vectors returns the name of the vector kernels in use: avx512 or avx2 on amd64, neon on arm64,
// or none for plain Go. By default they are the best that the processor supports; the environment
// variable HVAE_SIMD, read when the program starts, selects others by name. If HVAE_SIMD is not
// the name of kernels that the processor supports, the best kernels are in use and Vectors returns
// an error. A command should exit on this error; a library may ignore it.
func Vectors() (name string, err error) { return kernel.Level() }

// PeakLoop runs n rounds of a loop of independent multiply-adds in vector registers and returns
// the number of float32 operations performed, or 0 for plain Go. The number of operations per
// second is the peak speed of a core.
func PeakLoop(n int) (operations int) { return kernel.Peak(n) }
