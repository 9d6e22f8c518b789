package kernel

import (
	"fmt"
	"strings"
	"testing"
)

func TestAllLevelsExceptNoneUseSIMD(t *testing.T) {
	OnEachLevel(func(name string) {
		if simd := name != "none"; simd32[float32]() != simd || simd64[float64]() != simd || simd32[float64]() || simd64[float32]() {
			t.Errorf("level %s: simd32 and simd64 must be %v for their type, and false for the other", name, simd)
		}
	})
}

func TestHVAESIMDSelectsTheLevel(t *testing.T) {
	intel, older, arm, other := []int{levelNone, levelAVX2, levelAVX512}, []int{levelNone, levelAVX2}, []int{levelNone, levelNEON}, []int{levelNone}
	for _, c := range []struct {
		name      string
		available []int
		want      int
	}{
		{"", intel, levelAVX512}, {"none", intel, levelNone}, {"avx2", intel, levelAVX2}, {"avx512", intel, levelAVX512},
		{"", arm, levelNEON}, {"neon", arm, levelNEON}, {"none", arm, levelNone}, {"", other, levelNone},
	} {
		if got, err := chooseLevel(c.name, c.available); got != c.want || err != nil {
			t.Errorf("HVAE_SIMD=%s, available levels %v: chooseLevel returns %s and the error %v, want %s", c.name, c.available, levelNames[got], err, levelNames[c.want])
		}
	}
	for _, name := range []string{"bogus", "AVX2", "avx2 ", "avx", "1", "avx512", "neon"} {
		got, err := chooseLevel(name, older)
		if got != levelAVX2 || err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", name)) || !strings.Contains(err.Error(), "it can be none, avx2, or unset") {
			t.Errorf("HVAE_SIMD=%s: chooseLevel returns %s and the error %v, want avx2 and an error that lists the available levels", name, levelNames[got], err)
		}
	}
}
