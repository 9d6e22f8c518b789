//go:build !(amd64 || arm64) || purego

package kernel

// The functions below with the prefix "call" are never called, because this build has no SIMD kernels.

func available() []int { return []int{levelNone} }

var kernelSets [levels]*kernelSet

func callElementwise(kernel int, args *elementwiseArgs) { panic("kernel: no SIMD") }
func callRow(kernel int, args *rowArgs)                 { panic("kernel: no SIMD") }
func callTile(kernel int, args *tileArgs)               { panic("kernel: no SIMD") }
func callTranspose(kernel int, args *transposeArgs)     { panic("kernel: no SIMD") }
func callPeak(kernel int, args *peakArgs)               { panic("kernel: no SIMD") }
