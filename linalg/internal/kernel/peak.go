package kernel

// peakArgs holds the argument of a peak kernel, the number of rounds of its loop.
type peakArgs struct{ rounds int }

// Peak runs n rounds of a loop of independent multiply-adds in vector registers and returns the
// number of float32 operations performed, two for each multiply-add of one lane. Without SIMD it
// returns 0.
func Peak(n int) int {
	s := kernelSets[level]
	if s == nil {
		return 0
	}
	callPeak(s.peak, &peakArgs{n})
	return 2 * n * s.peakSums * s.lanes
}
