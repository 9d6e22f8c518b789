package linalg

import "hvae/linalg/internal/kernel"

// Vectors returns the name of the vector kernels in use: avx512 or avx2 on amd64, neon on
// arm64, or none for plain Go. They are the best that the processor supports, unless the
// environment variable HVAE_SIMD, read when the program starts, names others. If it names
// kernels that the processor does not support, or none that exist, the best are in use, too,
// and Vectors returns an error: a command should end then, a library may ignore it.
func Vectors() (name string, err error) { return kernel.Level() }

// Lanes returns how many float32 the vector kernels in use compute at a time: 16, 8, 4, or 0
// where there are none.
func Lanes() int { return kernel.Lanes() }
