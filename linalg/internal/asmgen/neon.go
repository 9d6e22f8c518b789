package main

import "fmt"

// The kernels of arm64. Go's assembler lacks some vector instructions (golang/go#41092);
// they are written as words, with what a disassembler says of them as a comment, which a
// test compares.

// word writes an instruction as its code; the comment is in the syntax of GNU's
// disassembler.
func (w *writer) word(code uint32, format string, args ...any) {
	w.op("WORD $0x%08x // %s", code, fmt.Sprintf(format, args...))
}

// three writes an instruction with registers d, a and b, in the order of Arm's manual, on
// four lanes of 32 bits or two of 64.
func (w *writer) three(code uint32, name, lanes string, d, a, b int) {
	w.word(code|uint32(b)<<16|uint32(a)<<5|uint32(d), "%s v%d.%[3]s, v%[4]d.%[3]s, v%[5]d.%[3]s", name, d, lanes, a, b)
}

// fmaElement writes d += a·b₀ for the first lane of b.
func (w *writer) fmaElement(d, a, b int) {
	w.word(0x4f801000|uint32(b)<<16|uint32(a)<<5|uint32(d), "fmla v%d.4s, v%d.4s, v%d.s[0]", d, a, b)
}

// loadQ fills vector register v from base + offset, two registers' numbers; storeQ does the
// opposite. Offset zero stands for none.
func (w *writer) loadQ(v, base, offset int) {
	w.moveQ("FMOVQ (R%[2]d), F%[1]d", 0x3ce06800, "ldr", v, base, offset)
}
func (w *writer) storeQ(v, base, offset int) {
	w.moveQ("FMOVQ F%d, (R%d)", 0x3ca06800, "str", v, base, offset)
}

func (w *writer) moveQ(plain string, code uint32, name string, v, base, offset int) {
	if offset == 0 {
		w.op(plain, v, base)
		return
	}
	w.word(code|uint32(offset)<<16|uint32(base)<<5|uint32(v), "%s q%d, [x%d, x%d]", name, v, base, offset)
}

// indexed returns base + offset as an operand, without the offset if it is zero.
func indexed(base, offset int) string {
	if offset == 0 {
		return fmt.Sprintf("(R%d)", base)
	}
	return fmt.Sprintf("(R%d)(R%d)", base, offset)
}

// neonWriter opens a file.
func neonWriter(what ...string) *writer {
	w := &writer{isa: neon}
	w.header(what...)
	return w
}

// neonTable writes the table and the door. A kernel finds its arguments in R0.
func (w *writer) neonTable(t *table) {
	w.WriteByte('\n')
	for i, k := range t.kernels {
		fmt.Fprintf(w, "DATA %sTable<>+%d(SB)/8, $%s<>(SB)\n", t.door, 8*i, k)
	}
	fmt.Fprintf(w, "GLOBL %sTable<>(SB), RODATA, $%d\n\n", t.door, 8*len(t.kernels))
	fmt.Fprintf(w, "// func %s(kernel int, args *%s)\nTEXT ·%[1]s(SB), NOSPLIT, $0-16\n", t.door, t.args)
	w.op("MOVD kernel+0(FP), R1")
	w.op("MOVD args+8(FP), R0")
	w.op("MOVD $%sTable<>(SB), R2", t.door)
	w.op("MOVD (R2)(R1<<3), R1")
	w.op("JMP (R1)")
}
