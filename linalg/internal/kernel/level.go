package kernel

import (
	"fmt"
	"os"
	"strings"
)

// Levels of vector kernels.
const (
	levelNone   = iota
	levelAVX2   // amd64
	levelAVX512 // amd64
	levelNEON   // arm64, always there
	levels      // how many there are
)

var levelNames = []string{"none", "avx2", "avx512", "neon"}

// level is the level of the kernels in use: the one that the environment variable HVAE_SIMD
// names, or the best that processor and operating system support.
var level, levelError = chooseLevel(os.Getenv("HVAE_SIMD"), available())

// chooseLevel returns the level with the given name, or the last of those available, which
// is the best, for the name "". It returns the best and an error if the name is not that of
// an available level.
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

// Level returns the name of the level in use, which is the best, and an error, if HVAE_SIMD
// is not the name of an available level.
func Level() (name string, err error) { return levelNames[level], levelError }

// Lanes returns how many float32 the kernels in use compute at a time, 0 for plain Go.
func Lanes() int {
	if s := tileSets[level]; s != nil {
		return s.lanes
	}
	return 0
}

// OnEachLevel calls f with the kernels of each level, from plain Go to the best that there
// is, and its name. It is for tests: nothing else may run meanwhile.
func OnEachLevel(f func(name string)) {
	defer func(l int) { level = l }(level)
	for _, level = range available() {
		f(levelNames[level])
	}
}
