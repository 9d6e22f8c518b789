//go:build !purego

package kernel

// available returns the available instruction sets, best last.
func available() []int { return []int{levelNone, levelNEON} }
