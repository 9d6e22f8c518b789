package kernel

import (
	"fmt"
	"os"
	"slices"
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

// level is which kernels run: the best that processor and operating system support, or
// less if the environment variable HVAE_SIMD says so.
var level, levelError = chooseLevel(os.Getenv("HVAE_SIMD"), available())

// chooseLevel returns the level wished for if it is among those that there are, or else the
// last of them, which is the best.
func chooseLevel(wish string, there []int) (l int, err error) {
	best := there[len(there)-1]
	if wish == "" {
		return best, nil
	}
	l = slices.Index(levelNames, wish)
	if l < 0 {
		return best, fmt.Errorf("HVAE_SIMD is %q; it chooses the vector kernels, and can be %s, or unset for the best",
			wish, strings.Join(levelNames, ", "))
	}
	if !slices.Contains(there, l) {
		return best, nil
	}
	return l, nil
}

// Level returns the name of the level in use, and an error if HVAE_SIMD is none of the
// names: the best runs then.
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
