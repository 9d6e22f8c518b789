//go:build !purego

package kernel

// available returns the available levels, best last.
func available() []int { return []int{levelNone, levelNEON} }
