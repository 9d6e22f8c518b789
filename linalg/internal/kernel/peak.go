package kernel

// peakArgs has the argument of a peak kernel.
type peakArgs struct{ rounds int }

// A peakKernel is a loop of independent multiply-adds: its number, and the vectors that it
// adds to in a round, each with one instruction.
type peakKernel struct{ number, sums int }

// Peak runs n rounds of a loop of independent multiply-adds in registers, and returns how many
// float32 operations that is: two for each lane. Without SIMD it returns 0.
func Peak(n int) int {
	k := peakKernels[level]
	if k.sums > 0 {
		callPeak(k.number, &peakArgs{n})
	}
	return 2 * n * k.sums * Lanes()
}
