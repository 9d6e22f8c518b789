package kernel

import (
	"fmt"
	"os"
	"strings"
)

// A level is a set of vector kernels for one instruction set.
const (
	levelNone   = iota
	levelAVX2   // amd64
	levelAVX512 // amd64
	levelNEON   // arm64, where it is always available
	levels      // number of levels
)

var levelNames = []string{"none", "avx2", "avx512", "neon"}

// A kernelSet lists the kernels of one level. The numbers of row kernels do not depend on the level.
type kernelSet struct {
	elementwise int               // number of the first elementwise kernel
	peak        int               // number of the peak kernel
	peakSums    int               // number of vectors of sums in the peak kernel
	transposes  []transposeKernel // in decreasing order of rows

	lanes          int        // number of float32 in a vector
	vectors        int        // number of vectors in the widest tile
	partialColumns int        // number of columns in the widest partial tile
	full           tileLookup // tiles of whole vectors
	partial        tileLookup // tiles narrower than a vector
	quad           tileLookup // tiles of one vector that holds four columns of each of several groups
}

// level is the level of the kernels in use: the level named by the environment variable HVAE_SIMD,
// or the best one that the processor and the operating system support.
var level, levelError = chooseLevel(os.Getenv("HVAE_SIMD"), available())

// chooseLevel returns the available level with the given name, or the best one, which is the last,
// if the name is empty. If no available level has that name, it returns the best one and an error.
func chooseLevel(name string, available []int) (l int, err error) {
	best := available[len(available)-1]
	if name == "" {
		return best, nil
	}
	var names []string
	for _, l := range available {
		if names = append(names, levelNames[l]); levelNames[l] == name {
			return l, nil
		}
	}
	return best, fmt.Errorf("HVAE_SIMD is %q; it chooses the vector kernels, and can be %s on this machine, or unset for the best",
		name, strings.Join(names, ", "))
}

// Level returns the name of the level in use. If HVAE_SIMD is set but does not name an available
// level, Level returns the name of the best available level, which is in use, and an error.
func Level() (name string, err error) { return levelNames[level], levelError }

// OnEachLevel calls f once for each available level, from plain Go to the best, with the kernels
// of that level in use and its name as the argument. It is for tests only: no other code may use
// package linalg during the call.
func OnEachLevel(f func(name string)) {
	defer func(l int) { level = l }(level)
	for _, level = range available() {
		f(levelNames[level])
	}
}
