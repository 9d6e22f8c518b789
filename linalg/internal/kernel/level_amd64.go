//go:build !purego

package kernel

// available returns the available instruction sets, best last.
func available() []int { return levelsOf(cpuid, xgetbv) }

// levelsOf returns the instruction sets that a processor and its operating system support, best last. The functions
// cpuid and xgetbv execute the instructions with these names. A set is supported if the processor has its instructions
// and the operating system saves its registers when it switches between threads (Intel 64 and IA-32 Architectures
// Software Developer's Manual, volume 1, sections 14.3 and 15.2).
func levelsOf(cpuid func(leaf, subleaf uint32) (eax, ebx, ecx, edx uint32), xgetbv func() uint32) []int {
	const (
		fma, osxsave, avx = 1 << 12, 1 << 27, 1 << 28          // leaf 1, ecx; xgetbv exists only if osxsave is set
		avx2, bmi2        = 1 << 5, 1 << 8                     // leaf 7, ebx
		f, dq, bw, vl     = 1 << 16, 1 << 17, 1 << 30, 1 << 31 // leaf 7, ebx; the required parts of AVX-512
		ymm, zmm          = 0x6, 0xe6                          // registers that the operating system saves (xgetbv)
	)
	if highest, _, _, _ := cpuid(0, 0); highest < 7 {
		return []int{levelNone}
	}
	_, _, c, _ := cpuid(1, 0)
	if c&(fma|osxsave|avx) != fma|osxsave|avx || xgetbv()&ymm != ymm {
		return []int{levelNone}
	}
	_, b, _, _ := cpuid(7, 0)
	switch {
	case b&(avx2|bmi2) != avx2|bmi2:
		return []int{levelNone}
	case b&(f|dq|bw|vl) == f|dq|bw|vl && xgetbv()&zmm == zmm:
		return []int{levelNone, levelAVX2, levelAVX512}
	}
	return []int{levelNone, levelAVX2}
}

func cpuid(leaf, subleaf uint32) (eax, ebx, ecx, edx uint32)

func xgetbv() (eax uint32)
