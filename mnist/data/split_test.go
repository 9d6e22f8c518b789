package data

import (
	"math"
	"slices"
	"testing"
)

func TestSplitIsAPartition(t *testing.T) {
	for _, n := range []int{6, 11, 60, 2400} {
		images := Images{make([]byte, n*pixels)}
		for _, seed := range []uint64{0, 1, 85547, 1<<64 - 1} {
			training, validation := Split(images, seed)
			if len(validation) != n/6 {
				t.Errorf("%d of %d images are for validation, want a sixth, rounded down", len(validation), n)
			}
			all := slices.Sorted(slices.Values(slices.Concat(training, validation)))
			for i, v := range all {
				if i != v || len(all) != n {
					t.Fatalf("%d images, seed %d: the union of both parts is %v", n, seed, all)
				}
			}
			if again, _ := Split(images, seed); !slices.Equal(training, again) {
				t.Errorf("%d images, seed %d: a second split differs", n, seed)
			}
		}
	}
}

func TestSplitIsUniform(t *testing.T) {
	const n, seeds = 30, 3000
	images := Images{make([]byte, n*pixels)}
	var count [n]int
	for seed := range uint64(seeds) {
		_, validation := Split(images, seed)
		for _, i := range validation {
			count[i]++
		}
	}
	for i, c := range count {
		if z := (float64(c) - seeds/6.) / math.Sqrt(seeds*5./36); !(math.Abs(z) < 4.5) {
			t.Errorf("image %d is a validation image for %d of %d seeds (z = %.1f), want a sixth", i, c, seeds, z)
		}
	}
}
