//go:build !purego

package kernel

import (
	"slices"
	"testing"
)

func TestLevelsFollowFromCPUIDAndXGETBV(t *testing.T) {
	// On Zen 4 and Skylake-SP with Linux, at least these bits are set: leaf1 in ecx after CPUID leaf 1, leaf7 in ebx
	// after CPUID leaf 7, and xcr0 in the result of XGETBV.
	const leaf1, leaf7, xcr0 = 1<<12 | 1<<27 | 1<<28, 1<<5 | 1<<8 | 1<<16 | 1<<17 | 1<<30 | 1<<31, 0xe7
	none, avx2, avx512 := []int{levelNone}, []int{levelNone, levelAVX2}, []int{levelNone, levelAVX2, levelAVX512}
	for _, c := range []struct {
		name                        string
		highest, leaf1, leaf7, xcr0 uint32
		want                        []int
	}{
		{"all features", 13, leaf1, leaf7, xcr0, avx512},
		{"more features", 32, 0xffffffff, 0xffffffff, 0xffffffff, avx512},
		{"no leaf 7", 6, leaf1, leaf7, xcr0, none},
		{"no FMA", 13, leaf1 &^ (1 << 12), leaf7, xcr0, none},
		{"no AVX", 13, leaf1 &^ (1 << 28), leaf7, xcr0, none},
		{"no AVX2", 13, leaf1, leaf7 &^ (1 << 5), xcr0, none},
		{"no BMI2", 13, leaf1, leaf7 &^ (1 << 8), xcr0, none},
		{"no AVX-512 F", 13, leaf1, leaf7 &^ (1 << 16), xcr0, avx2},
		{"no AVX-512 DQ", 13, leaf1, leaf7 &^ (1 << 17), xcr0, avx2},
		{"no AVX-512 BW", 13, leaf1, leaf7 &^ (1 << 30), xcr0, avx2},
		{"no AVX-512 VL", 13, leaf1, leaf7 &^ (1 << 31), xcr0, avx2},
		{"the system saves no AVX-512 registers", 13, leaf1, leaf7, 0x7, avx2},
		{"the system saves no mask registers", 13, leaf1, leaf7, xcr0 &^ 0x20, avx2},
		{"the system saves no upper halves of ZMM0 to ZMM15", 13, leaf1, leaf7, xcr0 &^ 0x40, avx2},
		{"the system saves no registers ZMM16 to ZMM31", 13, leaf1, leaf7, xcr0 &^ 0x80, avx2},
		{"the system saves no AVX registers", 13, leaf1, leaf7, xcr0 &^ 0x4, none},
		{"the system saves no SSE registers", 13, leaf1, leaf7, xcr0 &^ 0x2, none},
	} {
		cpuid := func(leaf, _ uint32) (eax, ebx, ecx, edx uint32) {
			switch leaf {
			case 0:
				return c.highest, 0, 0, 0
			case 1:
				return 0, 0, c.leaf1, 0
			}
			return 0, c.leaf7, 0, 0
		}
		if got := levelsOf(cpuid, func() uint32 { return c.xcr0 }); !slices.Equal(got, c.want) {
			t.Errorf("%s: the levels are %v, want %v", c.name, got, c.want)
		}
	}
	cpuid := func(leaf, _ uint32) (eax, ebx, ecx, edx uint32) { return 13, leaf7, leaf1 &^ (1 << 27), 0 }
	if got := levelsOf(cpuid, func() uint32 { panic("xgetbv is an invalid instruction") }); !slices.Equal(got, none) {
		t.Errorf("without XGETBV, the levels are %v, want %v", got, none)
	}
}
