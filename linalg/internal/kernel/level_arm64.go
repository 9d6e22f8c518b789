//go:build !purego

package kernel

// available returns the available levels in increasing order.
func available() []int { return []int{levelNone, levelNEON} }
