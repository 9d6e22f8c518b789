package kernel

import (
	"fmt"
	"os"
	"strings"
)

// A level is an instruction set with SIMD kernels, or levelNone for plain Go.
const (
	levelNone   = iota
	levelAVX2   // amd64
	levelAVX512 // amd64
	levelNEON   // arm64, where it is always available
	levels      // number of levels
)

var levelNames = []string{"none", "avx2", "avx512", "neon"}

// A kernelSet describes the SIMD kernels of one instruction set. Elementwise, peak, transpose and tile kernels are
// numbered separately. Row kernels are not listed, because they do not depend on the set: AVX2 and AVX-512 use the same
// ones.
type kernelSet struct {
	elementwise int // index of the first elementwise kernel
	peak        int // index of the kernel that measures the peak speed
	peakSums    int // number of vectors of sums in the peak kernel
	transposes  []transposeKernel

	lanes          int        // number of float32 elements in a vector
	vectors        int        // number of vectors in the widest tile
	partialColumns int        // number of columns in the widest partial tile
	block          int        // largest number of steps of a block, if a contraction has several (blocks.go)
	full           tileLookup // tiles of whole vectors
	partial        tileLookup // tiles narrower than a vector
	quad           tileLookup // tiles whose vectors contain four columns from each of several groups
}

// level is the instruction set in use. The environment variable HVAE_SIMD selects it by name. By default, it is the
// best instruction set that the processor and the operating system support.
var level, levelError = chooseLevel(os.Getenv("HVAE_SIMD"), available())

// chooseLevel returns the instruction set with the given name. The argument available lists the available instruction
// sets, from worst to best. If the name is empty, chooseLevel returns the best instruction set. If the name is not in
// the list, it returns the best instruction set and an error.
func chooseLevel(name string, available []int) (l int, err error) {
	best := available[len(available)-1]
	if name == "" {
		return best, nil
	}
	var names []string
	for _, l := range available {
		names = append(names, levelNames[l])
		if levelNames[l] == name {
			return l, nil
		}
	}
	return best, fmt.Errorf("HVAE_SIMD is %q, but on this machine it can be %s, or unset for the best SIMD instructions",
		name, strings.Join(names, ", "))
}

// Level implements linalg.Vectors.
func Level() (name string, err error) { return levelNames[level], levelError }

// OnEachLevel calls f with the name of each available instruction set, from plain Go to the best. During the call,
// package linalg uses this instruction set, and no other goroutine may use package linalg. Only tests use OnEachLevel.
func OnEachLevel(f func(name string)) {
	before := level
	defer func() { level = before }()
	for _, l := range available() {
		level = l
		f(levelNames[l])
	}
}

type peakArgs struct{ rounds int } // number of iterations of the loop

// Peak implements linalg.PeakLoop. A multiply-add counts as two operations for each lane.
func Peak(n int) int {
	s := kernelSets[level]
	if s == nil {
		return 0
	}
	callPeak(s.peak, &peakArgs{n})
	return 2 * n * s.peakSums * s.lanes
}
