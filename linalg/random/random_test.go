package random_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"hvae/linalg/random"
)

func TestStreamsDependOnTheirKeys(t *testing.T) {
	draw := func(seed uint64, purpose string, index ...int) uint64 {
		return random.Stream(seed, purpose, index...).Uint64()
	}
	if a, b := draw(1, "noise", 2, 3), draw(1, "noise", 2, 3); a != b {
		t.Error("two streams with the same key differ")
	}
	seen := map[uint64]string{}
	for name, v := range map[string]uint64{
		"1 noise 2 3": draw(1, "noise", 2, 3), "2 noise 2 3": draw(2, "noise", 2, 3), "1 data 2 3": draw(1, "data", 2, 3),
		"1 noise 3 2": draw(1, "noise", 3, 2), "1 noise 2": draw(1, "noise", 2), "1 noise": draw(1, "noise"),
		"1 noise 2 3 0": draw(1, "noise", 2, 3, 0), "1 noise 2 3 1": draw(1, "noise", 2, 3, 1),
		"1 noise 2 3 4 5 6": draw(1, "noise", 2, 3, 4, 5, 6), "1 noise 2 3 4 5 7": draw(1, "noise", 2, 3, 4, 5, 7),
		// The stream must depend on all bits of the seed and the indices, and on the whole purpose string.
		"1 + 2³² noise 2 3": draw(1+1<<32, "noise", 2, 3), "1 noise 2 3+2⁸": draw(1, "noise", 2, 3+1<<8),
		"1 noise 2+2¹⁶ 3": draw(1, "noise", 2+1<<16, 3), "1 1234 noise": draw(1, "1234\x00\x00\x00\x00noise"),
		"1 long 1": draw(1, "a long purpose, the first of two"), "1 long 2": draw(1, "a long purpose, the first of twins"),
		"1 noise with index 1234": draw(1, "noise", 0x34333231), // its eight bytes are 1234\0\0\0\0
	} {
		if other, ok := seen[v]; ok {
			t.Errorf("the keys %q and %q give the same stream", name, other)
		}
		seen[v] = name
	}
}

// The noise of different columns must be uncorrelated, within a batch and across batches.
func TestColumnsOfABatchHaveSeparateStreams(t *testing.T) {
	const columns, n = 40, 5000
	var noise [][]float64
	for _, b := range []random.Batch{
		random.NewBatch(1, "noise", 2), random.NewBatch(1, "noise", 3),
		random.NewBatch(2, "noise", 2), random.NewBatch(1, "data", 2),
	} {
		for j := range columns {
			var pcg rand.PCG
			b.Start(&pcg, j)
			rng := rand.New(&pcg)
			x := make([]float64, n)
			for i := range x {
				x[i] = rng.NormFloat64()
			}
			noise = append(noise, x)
		}
	}
	for i, x := range noise {
		for j, y := range noise[:i] {
			// For each of the 12,720 pairs of columns, P(|z| ≥ 6.2) ≈ 6e-10, so a false alarm has probability < 1e-5.
			z := 0.0
			for k := range x {
				z += x[k] * y[k] / math.Sqrt(n)
			}
			if !(math.Abs(z) < 6.2) {
				t.Errorf("streams %d and %d have correlated noise (z = %.1f)", i, j, z)
			}
		}
	}
	var a, b rand.PCG
	random.NewBatch(1, "noise", 2).Start(&a, 7)
	random.NewBatch(1, "noise", 2).Start(&b, 7)
	if a.Uint64() != b.Uint64() {
		t.Error("two streams with the same key and the same column differ")
	}
}
