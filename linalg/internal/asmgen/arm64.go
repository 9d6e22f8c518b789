package main

import "fmt"

// Go's assembler lacks some vector instructions of arm64 (golang/go#41092). The generator emits such
// an instruction as a WORD directive, which contains the instruction code. A comment contains the
// output of GNU's disassembler for this code, and a test compares the code with the comment.

// word emits a WORD directive with the code of an instruction and a comment, formatted as by
// fmt.Sprintf. The comment must equal the output of GNU's disassembler for this code.
func (w *writer) word(code uint32, format string, args ...any) {
	w.op("WORD $0x%08x // %s", code, fmt.Sprintf(format, args...))
}

// registers3 emits an instruction d = a ∘ b with the given code and name. The parameters d, a and b are the
// numbers of vector registers. The parameter lanes is "4s" for four float32 or "2d" for two float64.
func (w *writer) registers3(code uint32, name, lanes string, d, a, b int) {
	w.word(code|uint32(b)<<16|uint32(a)<<5|uint32(d), "%s v%d.%[3]s, v%[4]d.%[3]s, v%[5]d.%[3]s", name, d, lanes, a, b)
}

// loadQ and storeQ emit an instruction that loads or stores vector register v. The address is the sum of
// general-purpose registers base and offset, or register base alone if offset is 0.
func (w *writer) loadQ(v, base, offset int) {
	w.moveQ("FMOVQ (R%[2]d), F%[1]d", 0x3ce06800, "ldr", v, base, offset)
}

func (w *writer) storeQ(v, base, offset int) {
	w.moveQ("FMOVQ F%d, (R%d)", 0x3ca06800, "str", v, base, offset)
}

func (w *writer) moveQ(withoutOffset string, code uint32, name string, v, base, offset int) {
	if offset == 0 {
		w.op(withoutOffset, v, base)
		return
	}
	w.word(code|uint32(offset)<<16|uint32(base)<<5|uint32(v), "%s q%d, [x%d, x%d]", name, v, base, offset)
}

// indexed returns the assembly operand for an address in memory. The address is the sum of
// general-purpose registers base and offset, or register base alone if offset is 0.
func indexed(base, offset int) string {
	if offset == 0 {
		return fmt.Sprintf("(R%d)", base)
	}
	return fmt.Sprintf("(R%d)(R%d)", base, offset)
}

// arm64Peak returns the assembly file with the peak kernel, which measures the peak speed of multiply-adds.
func arm64Peak() string {
	w := newFile(neon, "peak", "This kernel is a loop of independent multiply-adds; see the function Peak in level.go.")
	w.begin("peakNEON", "R1 is the number of rounds left.")
	w.loadArgs("rounds R1")
	for i := range w.peakSums + 1 {
		w.zero(i)
	}
	w.label("loop")
	for i := range w.peakSums {
		w.op("VFMLA V%d.S4, V%[1]d.S4, V%d.S4", w.peakSums, i)
	}
	w.op("SUBS $1, R1; BNE loop")
	w.op("RET")
	return w.finish()
}
