//go:build (amd64 || arm64) && !purego

package kernel

// The doors to the assembly: each jumps to a kernel by its number in a table that asmgen
// writes beside the kernels.

// lane runs an elementwise kernel of the level in use.
//
//go:noescape
func lane(kernel int, args *laneArgs)

// row runs a kernel on rows of float64.
//
//go:noescape
func row(kernel int, args *rowArgs)

// tile adds up a tile of sums.
//
//go:noescape
func tile(kernel int, args *tileArgs)

// bands transposes bands of rows.
//
//go:noescape
func bands(kernel int, args *bandArgs)
