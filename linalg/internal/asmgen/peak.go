package main

import (
	"fmt"
	"strings"
)

// peakSums is how many sums the loop of a peak keeps in flight: enough to hide the latency
// of a multiply-add, which is four cycles, on two units of amd64 or four of arm64.
func (a isa) peakSums() int {
	if a == neon {
		return 24
	}
	return 12
}

// peakLoops returns the Go file that declares the loops of a machine.
func peakLoops(sets []isa) string {
	var b strings.Builder
	b.WriteString("// peakLoop returns the loop for vectors of so many lanes, and its number of sums.\nfunc peakLoop(lanes int) (loop func(n int), sums int) {\nswitch lanes {\n")
	for _, a := range sets {
		fmt.Fprintf(&b, "case %d:\nreturn peak%s, %d\n", a.lanes, a.name, a.peakSums())
	}
	b.WriteString("}\nreturn nil, 0\n}\n")
	for _, a := range sets {
		fmt.Fprintf(&b, "\n// peak%s runs n rounds of multiply-adds, one for each of its sums.\nfunc peak%[1]s(n int)\n", a.name)
	}
	return goFile("bench", "!purego", b.String())
}

// peak returns the file of the loops that do nothing but multiply-adds.
func peak() string {
	var w writer
	w.header("What the processor can do at most.")
	for _, a := range x86 {
		w.isa = a
		fmt.Fprintf(&w, "\n// func peak%s(n int)\nTEXT ·peak%s(SB), NOSPLIT, $0-8\n", a.name, a.name)
		w.op("MOVQ n+0(FP), CX")
		factor := a.peakSums()
		for i := range factor + 1 {
			w.zero(i)
		}
		w.label("loop")
		for i := range factor {
			w.op("VFMADD231PS %s, %s, %s", w.v(factor), w.v(factor), w.v(i))
		}
		w.op("DECQ CX")
		w.op("JNZ loop")
		w.op("VZEROUPPER")
		w.op("RET")
	}
	return w.String()
}

// neonPeak returns the file of the loop that does nothing but multiply-adds.
func neonPeak() string {
	w := neonWriter("What the processor can do at most.")
	fmt.Fprintf(w, "\n// func peakNEON(n int)\nTEXT ·peakNEON(SB), NOSPLIT, $0-8\n")
	w.op("MOVD n+0(FP), R0")
	for i := range neon.peakSums() + 1 {
		w.zero(i)
	}
	w.label("loop")
	for i := range neon.peakSums() {
		w.op("VFMLA V%d.S4, V%[1]d.S4, V%d.S4", neon.peakSums(), i)
	}
	w.op("SUBS $1, R0")
	w.op("BNE loop")
	w.op("RET")
	return w.String()
}
