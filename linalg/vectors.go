package linalg

import "hvae/linalg/internal/kernel"

// Vectors returns the name of the vector kernels in use: avx512 or avx2 on amd64, neon on
// arm64, or none for plain Go. They are the best that the processor supports, unless the
// environment variable HVAE_SIMD, read when the program starts, names others. If it names
// kernels that the processor does not support, or none that exist, the best are in use, too,
// and Vectors returns an error: a command should end then, a library may ignore it.
func Vectors() (name string, err error) { return kernel.Level() }

// PeakLoop runs n rounds of a loop of independent multiply-adds in vector registers, and
// returns how many float32 operations that is, or 0 for plain Go. Its speed is the peak speed
// of a core.
func PeakLoop(n int) (operations int) { return kernel.Peak(n) }
