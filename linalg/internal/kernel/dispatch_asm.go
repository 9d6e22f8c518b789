//go:build (amd64 || arm64) && !purego

package kernel

// The dispatchers run the kernel with the given number. They are in the generated assembly.

//go:noescape
func callElementwise(kernel int, args *elementwiseArgs)

//go:noescape
func callRow(kernel int, args *rowArgs)

//go:noescape
func callTile(kernel int, args *tileArgs)

//go:noescape
func callTranspose(kernel int, args *transposeArgs)

//go:noescape
func callPeak(kernel int, args *peakArgs)
