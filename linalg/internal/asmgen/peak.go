package main

import "fmt"

// peakChains is how many sums the loop of peak keeps in flight, enough to hide the
// latency of a multiply-add.
const peakChains = 12

// peak returns the file of the loop that does nothing but multiply-adds.
func peak() string {
	var w writer
	w.header("What the processor can do at most.")
	for _, a := range x86 {
		w.isa = a
		fmt.Fprintf(&w, "\n// func peak%s(n int)\nTEXT ·peak%s(SB), NOSPLIT, $0-8\n", a.name, a.name)
		w.op("MOVQ n+0(FP), CX")
		for i := range peakChains + 1 {
			w.zero(i)
		}
		w.label("loop")
		for i := range peakChains {
			w.op("VFMADD231PS %s, %s, %s", w.v(peakChains), w.v(peakChains), w.v(i))
		}
		w.op("DECQ CX")
		w.op("JNZ loop")
		w.op("VZEROUPPER")
		w.op("RET")
	}
	return w.String()
}
