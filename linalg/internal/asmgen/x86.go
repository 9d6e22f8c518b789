package main

import "math"

// x86Lane has the operations of elementwise kernels on amd64.
type x86Lane struct{ *lane }

// names are the instructions by what functions.go and lanes.go call them.
var names = map[string]string{
	"add": "VADDPS", "sub": "VSUBPS", "mul": "VMULPS", "div": "VDIVPS", "max": "VMAXPS", "min": "VMINPS",
	"fma": "VFMADD231PS", "fms": "VFNMADD231PS", "addInt": "VPADDD", "subInt": "VPSUBD",
	"move": "VMOVAPS", "toInt": "VCVTPS2DQ", "toFloat": "VCVTDQ2PS",
	"left": "VPSLLD", "right": "VPSRAD", "scale": "VSCALEFPS", // the last in AVX-512 only
}

// name returns the instruction of an operation.
func (w x86Lane) name(op string) string {
	switch {
	case op == "and" && w.lanes == 16:
		return "VPANDD"
	case op == "and":
		return "VPAND"
	case op == "or" && w.lanes == 16:
		return "VPORD"
	case op == "or":
		return "VPOR"
	case op == "round" && w.lanes == 16:
		return "VRNDSCALEPS $8,"
	case op == "round":
		return "VROUNDPS $8,"
	}
	return names[op]
}

func (w x86Lane) vec(op string, d, a, b int) {
	if op == "fma" || op == "fms" {
		a, b = b, a
	}
	w.op("%s %s, %s, %s", w.name(op), w.v(b), w.v(a), w.v(d))
}

func (w x86Lane) vecConst(op string, d, a int, c float64) {
	w.vecBits(op, d, a, math.Float32bits(float32(c)))
}

func (w x86Lane) vecBits(op string, d, a int, bits uint32) { w.withBits(w.name(op), bits, a, d) }

func (w x86Lane) withBits(name string, bits uint32, a, d int) {
	if w.lanes == 16 {
		w.op("%s.BCST %s, %s, %s", name, w.constant(bits), w.v(a), w.v(d))
		return
	}
	w.op("VBROADCASTSS %s, %s", w.constant(bits), w.v(scratch2))
	w.op("%s %s, %s, %s", name, w.v(scratch2), w.v(a), w.v(d))
}

func (w x86Lane) horner(c, x, d int) { w.op("VFMADD213PS %s, %s, %s", w.v(c), w.v(x), w.v(d)) }

func (w x86Lane) hornerConst(c float64, x, d int) {
	w.withBits("VFMADD213PS", math.Float32bits(float32(c)), x, d)
}

func (w x86Lane) unary(op string, d, a int) { w.op("%s %s, %s", w.name(op), w.v(a), w.v(d)) }

func (w x86Lane) shift(op string, d, a, n int) {
	w.op("%s $%d, %s, %s", w.name(op), n, w.v(a), w.v(d))
}

func (w x86Lane) set(c float64, d int) { w.setBits(math.Float32bits(float32(c)), d) }

func (w x86Lane) setBits(bits uint32, d int) {
	w.op("VBROADCASTSS %s, %s", w.constant(bits), w.v(d))
}

// predicates are those of VCMPPS, quiet.
var predicates = map[predicate]int{lessThan: 0x11, notGreaterOrEq: 0x19, equal: 0x00, greaterOrEq: 0x1d}

func (w x86Lane) choose(p predicate, x int, c float64, a, d int) {
	bits := math.Float32bits(float32(c))
	if w.lanes == 16 {
		w.op("VCMPPS.BCST $%d, %s, %s, K2", predicates[p], w.constant(bits), w.v(x))
		w.op("VMOVAPS %s, K2, %s", w.v(a), w.v(d))
		return
	}
	w.op("VBROADCASTSS %s, %s", w.constant(bits), w.v(scratch2))
	w.op("VCMPPS $%d, %s, %s, %s", predicates[p], w.v(scratch2), w.v(x), w.v(scratch2))
	w.op("VBLENDVPS %s, %s, %s, %s", w.v(scratch2), w.v(a), w.v(d), w.v(d))
}

func (w x86Lane) chooseNegative(x, a, d int) {
	if w.lanes == 16 {
		w.op("VPMOVD2M %s, K2", w.v(x))
		w.op("VMOVAPS %s, K2, %s", w.v(a), w.v(d))
		return
	}
	w.op("VBLENDVPS %s, %s, %s, %s", w.v(x), w.v(a), w.v(d), w.v(d))
}
