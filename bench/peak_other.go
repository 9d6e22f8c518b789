//go:build !(amd64 || arm64) || purego

package bench

// Peak returns 0: without vector kernels there is no peak to compare with.
func Peak(goroutines int) float64 { return 0 }
