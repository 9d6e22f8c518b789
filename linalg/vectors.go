package linalg

import "hvae/linalg/internal/kernel"

// Vectors returns the name of the SIMD kernels in use: avx512 or avx2 on amd64, neon on arm64, or none
// for plain Go. The environment variable HVAE_SIMD selects the kernels when the program starts. If it
// is unset, the program uses the best kernels that the processor supports. If it does not name
// supported kernels, the program also uses the best kernels, and Vectors returns an error. A command
// should then exit, but a library may ignore the error.
func Vectors() (name string, err error) { return kernel.Level() }

// PeakLoop runs n iterations of a loop of independent multiply-adds in vector registers. It returns the
// number of float32 operations performed, or 0 for plain Go. The number of operations per second is the
// peak speed of a core.
func PeakLoop(n int) (operations int) { return kernel.Peak(n) }
