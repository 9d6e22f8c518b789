package kernel

// peakArgs holds the argument of a peak kernel, the number of rounds of its loop.
type peakArgs struct{ rounds int }

// A peakKernel describes a loop of independent multiply-adds: the number of the kernel, and the
// number of vector sums. Each round of the loop adds to each sum with one instruction.
type peakKernel struct{ number, sums int }

// Peak runs n rounds of a loop of independent multiply-adds in vector registers and returns the
// number of float32 operations performed, two for each multiply-add of one lane. Without SIMD it
// returns 0.
func Peak(n int) int {
	k := peakKernels[level]
	if k.sums > 0 {
		callPeak(k.number, &peakArgs{n})
	}
	return 2 * n * k.sums * Lanes()
}
