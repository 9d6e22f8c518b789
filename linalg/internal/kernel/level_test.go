package kernel

import (
	"fmt"
	"strings"
	"testing"
)

func TestHVAESIMDSelectsTheLevel(t *testing.T) {
	intel, older := []int{levelNone, levelAVX2, levelAVX512}, []int{levelNone, levelAVX2}
	arm, other := []int{levelNone, levelNEON}, []int{levelNone}
	for _, c := range []struct {
		name      string
		available []int
		want      int
	}{
		{"", intel, levelAVX512}, {"none", intel, levelNone}, {"avx2", intel, levelAVX2}, {"avx512", intel, levelAVX512},
		{"", arm, levelNEON}, {"neon", arm, levelNEON}, {"none", arm, levelNone}, {"", other, levelNone},
	} {
		if got, err := chooseLevel(c.name, c.available); got != c.want || err != nil {
			t.Errorf("chooseLevel(%q, %v) = %s, %v, want %s", c.name, c.available, levelNames[got], err, levelNames[c.want])
		}
	}
	for _, name := range []string{"bogus", "AVX2", "avx2 ", "avx", "1", "avx512", "neon"} {
		got, err := chooseLevel(name, older)
		want := fmt.Sprintf("HVAE_SIMD is %q, but on this machine it can be none, avx2, or unset", name)
		if got != levelAVX2 || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("chooseLevel returns %s and the error %v, want avx2 and the error %q", levelNames[got], err, want)
		}
	}
}
