//go:build (amd64 || arm64) && !purego

package kernel

// The generated assembly implements the functions below. Each function runs the kernel with the given index.

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
