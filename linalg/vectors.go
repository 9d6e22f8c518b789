package linalg

import "hvae/linalg/internal/kernel"

// Vectors returns the name of the SIMD kernels in use: avx512 or avx2 on amd64, neon on arm64, or
// none for plain Go. By default, the program uses the best kernels that the processor supports. The
// environment variable HVAE_SIMD, which is read when the program starts, selects others by name. If
// the processor does not support kernels of this name, the program uses the best kernels and Vectors
// returns an error. A command should then exit; a library may ignore the error.
func Vectors() (name string, err error) { return kernel.Level() }

// PeakLoop runs n rounds of a loop of independent multiply-adds in vector registers and returns the
// number of float32 operations that it performed, or 0 for plain Go. The number of operations per
// second is the peak speed of a core.
func PeakLoop(n int) (operations int) { return kernel.Peak(n) }
