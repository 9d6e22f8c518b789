//go:build !purego

package kernel

// available returns the levels that there are, in rising order.
func available() []int { return []int{levelNone, levelNEON} }
