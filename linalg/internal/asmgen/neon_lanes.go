package main

import (
	"fmt"
	"math"
	"slices"
)

// neonLane has the operations of elementwise kernels on arm64. Constants come from a table at
// R7 and go through V30; V31 is for what an operation needs meanwhile.
type neonLane struct{ *lane }

const neonConst, neonTemp = 30, 31

// neonThree are the codes of instructions with three registers that the assembler lacks,
// neonOwn the names of those that it has.
var (
	neonThree = map[string]uint32{"fadd": 0x4e20d400, "fsub": 0x4ea0d400, "fmul": 0x6e20dc00, "fdiv": 0x6e20fc00,
		"fcmgt": 0x6ea0e400, "fcmge": 0x6e20e400, "fcmeq": 0x4e20e400}
	neonNames = map[string]string{"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
	neonOwn   = map[string]string{"fma": "VFMLA %s.S4, %s.S4, %s.S4", "fms": "VFMLS %s.S4, %s.S4, %s.S4", "addInt": "VADD %s.S4, %s.S4, %s.S4",
		"subInt": "VSUB %s.S4, %s.S4, %s.S4", "and": "VAND %s.B16, %s.B16, %s.B16", "or": "VORR %s.B16, %s.B16, %s.B16"}
	neonUnary = map[string]uint32{"fcvtns": 0x4e21a800, "scvtf": 0x4e21d800, "frintn": 0x4e218800}
)

func (w neonLane) vec(op string, d, a, b int) {
	if name, ok := neonNames[op]; ok {
		w.three(neonThree[name], name, "4s", d, a, b)
		return
	}
	if op == "max" || op == "min" { // b unless a is greater, or less, as amd64 has it: fmax and fmin are NaN if a is
		greater, less := a, b
		if op == "min" {
			greater, less = b, a
		}
		w.three(neonThree["fcmgt"], "fcmgt", "4s", neonTemp, greater, less)
		if d == a {
			w.op("VBIF V%d.B16, V%d.B16, V%d.B16", neonTemp, b, d)
			return
		}
		if d != b {
			w.unary("move", d, b)
		}
		w.op("VBIT V%d.B16, V%d.B16, V%d.B16", neonTemp, a, d)
		return
	}
	w.op(neonOwn[op], w.v(b), w.v(a), w.v(d))
}

func (w neonLane) vecConst(op string, d, a int, c float64) {
	w.vecBits(op, d, a, math.Float32bits(float32(c)))
}

func (w neonLane) vecBits(op string, d, a int, bits uint32) {
	w.setBits(bits, neonConst)
	w.vec(op, d, a, neonConst)
}

func (w neonLane) horner(c, x, d int) {
	w.unary("move", neonTemp, c)
	w.vec("fma", neonTemp, d, x)
	w.unary("move", d, neonTemp)
}

func (w neonLane) hornerConst(c float64, x, d int) {
	w.set(c, neonTemp)
	w.vec("fma", neonTemp, d, x)
	w.unary("move", d, neonTemp)
}

func (w neonLane) unary(op string, d, a int) {
	if op == "move" {
		w.op("VMOV %s.B16, %s.B16", w.v(a), w.v(d))
		return
	}
	name := map[string]string{"toInt": "fcvtns", "toFloat": "scvtf", "round": "frintn"}[op]
	w.word(neonUnary[name]|uint32(a)<<5|uint32(d), "%s v%d.4s, v%d.4s", name, d, a)
}

func (w neonLane) shift(op string, d, a, n int) {
	if op == "left" {
		w.op("VSHL $%d, %s.S4, %s.S4", n, w.v(a), w.v(d))
		return
	}
	w.word(0x4f000400|uint32(64-n)<<16|uint32(a)<<5|uint32(d), "sshr v%d.4s, v%d.4s, #%d", d, a, n)
}

func (w neonLane) set(c float64, d int) { w.setBits(math.Float32bits(float32(c)), d) }

func (w neonLane) setBits(bits uint32, d int) {
	if !slices.Contains(*w.constants, bits) {
		*w.constants = append(*w.constants, bits)
	}
	w.op("FMOVQ %d(R7), F%d", 16*slices.Index(*w.constants, bits), d)
}

func (w neonLane) choose(p predicate, x int, c float64, a, d int) {
	w.set(c, neonConst)
	name, l, r := "fcmge", x, neonConst
	switch p {
	case lessThan:
		name, l, r = "fcmgt", neonConst, x
	case equal:
		name = "fcmeq"
	}
	w.three(neonThree[name], name, "4s", neonTemp, l, r)
	insert := "VBIT"
	if p == notGreaterOrEq {
		insert = "VBIF"
	}
	w.op("%s V%d.B16, V%d.B16, V%d.B16", insert, neonTemp, a, d)
}

func (w neonLane) chooseNegative(x, a, d int) {
	w.shift("right", neonTemp, x, 31)
	w.op("VBIT V%d.B16, V%d.B16, V%d.B16", neonTemp, a, d)
}

// neonLanes returns the file of the elementwise kernels of arm64.
func neonLanes() string {
	w := neonWriter("Elementwise kernels; see lanes.go and laneArgs. In each of them:",
		"",
		"	R1-R4    the operands",
		"	R5, R6   bytes done, elements left after this vector",
		"	R7       constants",
		"	V30, V31 a constant, and what an operation needs meanwhile")
	var constants []uint32
	t := &table{door: "lane", args: "laneArgs"}
	for _, k := range kernels {
		w.neonLane(k, &constants)
		t.add(k.name + w.name)
	}
	w.WriteByte('\n')
	for i, c := range constants {
		fmt.Fprintf(w, "DATA constants<>+%d(SB)/8, $0x%08[2]x%08[2]x // %v\n", 16*i, c, math.Float32frombits(c))
		fmt.Fprintf(w, "DATA constants<>+%d(SB)/8, $0x%08[2]x%08[2]x\n", 16*i+8, c)
	}
	fmt.Fprintf(w, "GLOBL constants<>(SB), NOPTR|RODATA, $%d\n", 16*len(constants))
	w.neonTable(t)
	return w.String()
}

// neonLane writes a kernel: a loop over vectors, then one over what is left, an element at a
// time, between whose loads and stores lies the same code.
func (w *writer) neonLane(k kernel, constants *[]uint32) {
	fmt.Fprintf(w, "\n// %s\n", k.doc)
	w.local(k.name + w.name)
	args := k.pointers()
	for i, arg := range args {
		w.op("MOVD laneArgs_%s(R0), R%d", arg, 1+i)
	}
	w.op("MOVD laneArgs_n(R0), R6")
	w.op("MOVD $constants<>(SB), R7")
	l := &lane{writer: w, constants: constants}
	l.operations = neonLane{l}
	for _, s := range k.scalars {
		r := l.register()
		w.op("ADD $laneArgs_%s, R0, R8", s)
		w.op("VLD1R (R8), [V%d.S4]", r)
		l.scalar = append(l.scalar, r)
	}
	where := func(arg string) int { return 1 + slices.Index(args, arg) }
	loads := func(load func(v, base int)) {
		l.in, l.next = nil, len(l.scalar)
		for _, in := range k.inputs {
			r := l.register()
			load(r, where(in))
			l.in = append(l.in, r)
		}
	}
	stores := func(store func(v, base int)) {
		for i, out := range k.outputs {
			store(l.out[i], where(out))
		}
	}
	w.op("MOVD $0, R5")
	w.op("SUBS $4, R6")
	w.op("BLT part")
	w.label("loop")
	loads(func(v, base int) { w.loadQ(v, base, 5) })
	w.label("compute")
	l.out = make([]int, len(k.outputs))
	k.body(l)
	w.op("TBNZ $63, R6, storePart")
	stores(func(v, base int) { w.storeQ(v, base, 5) })
	w.op("ADD $16, R5")
	w.op("SUBS $4, R6")
	w.op("BGE loop")
	w.remark("What is left is three elements at most: R6 goes from −1 to −4.")
	w.label("part")
	w.op("CMP $-4, R6")
	w.op("BEQ done")
	loads(func(v, base int) { w.op("FMOVS (R%d)(R5), F%d", base, v) })
	w.op("JMP compute")
	w.label("storePart")
	stores(func(v, base int) { w.op("FMOVS F%d, (R%d)(R5)", v, base) })
	w.op("ADD $4, R5")
	w.op("SUB $1, R6")
	w.op("JMP part")
	w.label("done")
	w.op("RET")
}
