//go:build !(amd64 || arm64) || purego

package kernel

// Without vector kernels everything is plain Go, and nothing below is called.

func available() []int { return []int{levelNone} }

var (
	tileSets    [levels]*tileSet
	bandKernels [levels][]bandKernel
)

func lane(kernel int, args *laneArgs)  { panic("kernel: no vectors") }
func row(kernel int, args *rowArgs)    { panic("kernel: no vectors") }
func tile(kernel int, args *tileArgs)  { panic("kernel: no vectors") }
func bands(kernel int, args *bandArgs) { panic("kernel: no vectors") }
