package main

import "strings"

// An elementwiseKernel describes a kernel that computes a function of each element of its operands.
// Each operand is a field of elementwiseArgs in package kernel, and its name is a single letter.
type elementwiseKernel struct {
	name    string   // name of the Go constant for the index of the kernel
	size    int      // size of an element in bytes
	doc     string   // formula
	outputs string   // operands that the kernel writes
	inputs  string   // operands that the kernel reads
	scalars []string // fields of elementwiseArgs that hold the scalars that the kernel reads

	// formula adds operations to f and returns the outputs. The slice x contains the inputs and then the scalars.
	formula func(f *formula, x []*value) (outputs []*value)
}

// elementwiseKernels[i] is the elementwise kernel with index i. Package kernel relies on the order of float64 versions.
var elementwiseKernels = []elementwiseKernel{
	{"opAdd", 4, "y = a + b", "y", "ab", nil, func(f *formula, x []*value) []*value { return []*value{f.add(x[0], x[1])} }},
	{"opMul", 4, "y = a·b", "y", "ab", nil, func(f *formula, x []*value) []*value { return []*value{f.mul(x[0], x[1])} }},
	{"opMulAdd", 4, "y = a·b + c", "y", "abc", nil, mulAdd},
	{"opScaleShift", 4, "y = scale·a + shift", "y", "a", []string{"scale", "shift"}, mulAdd},
	{"opSigmoidGradient", 4, "y = a ⊙ (b − b²)", "y", "ab", nil, func(f *formula, x []*value) []*value {
		return []*value{f.mul(f.fnma(x[1], x[1], x[1]), x[0])}
	}},
	{"opAdamax", 4, "a step of Adamax for parameters y, moving averages b and c and gradient a", "ybc", "ybca",
		[]string{"beta1", "rest1", "beta2", "rate", "epsilon"}, adamax},
	{"opExp", 4, "y = eᵃ in float32", "y", "a", nil, exp},
	{"opLog", 4, "y = log a in float32", "y", "a", nil, log},
	{"opTanh", 4, "y = tanh a in float32", "y", "a", nil, tanh},
	{"opSigmoid", 4, "y = 1/(1 + e⁻ᵃ) in float32", "y", "a", nil, sigmoid},
	{"opSoftplusSigmoid", 4, "y = log(1 + eᵃ), b = 1/(1 + e⁻ᵃ) in float32", "by", "a", nil, softplusSigmoid},
	{"opExp64", 8, "y = eᵃ in float64", "y", "a", nil, exp},
	{"opLog64", 8, "y = log a in float64", "y", "a", nil, log},
	{"opTanh64", 8, "y = tanh a in float64", "y", "a", nil, tanh},
	{"opSigmoid64", 8, "y = 1/(1 + e⁻ᵃ) in float64", "y", "a", nil, sigmoid},
	{"opSoftplusSigmoid64", 8, "y = log(1 + eᵃ), b = 1/(1 + e⁻ᵃ) in float64", "by", "a", nil, softplusSigmoid},
}

func mulAdd(f *formula, x []*value) []*value { return []*value{f.fma(x[0], x[1], x[2])} }
func exp(f *formula, x []*value) []*value    { return []*value{f.exp(x[0])} }
func log(f *formula, x []*value) []*value    { return []*value{f.log(x[0])} }
func tanh(f *formula, x []*value) []*value   { return []*value{f.tanh(x[0])} }
func sigmoid(f *formula, x []*value) []*value {
	return []*value{f.sigmoid(x[0], f.expOfMinusAbs(x[0]))}
}

// softplusSigmoid returns the outputs b = 1/(1 + e⁻ᵃ) and y = log(1 + eᵃ). The kernel stores y last, so if b and y
// share memory, the memory ends up holding y.
func softplusSigmoid(f *formula, x []*value) []*value {
	e := f.expOfMinusAbs(x[0])
	return []*value{f.sigmoid(x[0], e), f.softplus(x[0], e)}
}

func adamax(f *formula, x []*value) []*value {
	p, m, u, g, beta1, rest1, beta2, rate, epsilon := x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], x[8]
	m = f.fma(rest1, g, f.mul(m, beta1))
	u = f.max(f.mul(u, beta2), f.abs(g))
	smallest := f.float(smallest[f.size])
	m, u = f.choose(f.abs(m), smallest, f.float(0), m), f.choose(u, smallest, f.float(0), u)
	return []*value{f.fma(rate, f.div(m, f.add(u, epsilon)), p), m, u}
}

func elementwise(arch *architecture) string {
	w := newFile(arch, "elementwise",
		"These kernels compute elementwise functions; see elementwise.go and elementwiseArgs.",
		"y: address of y", "a: address of a", "b: address of b", "c: address of c",
		"done: number of bytes done", "left: number of elements left",
		"constants, temp: address of the constants (arm64), temporary (amd64)")
	for _, set := range arch.sets {
		w.isa = set
		for _, k := range elementwiseKernels {
			w.elementwiseKernel(k)
		}
	}
	if arch == amd64 {
		w.maskData()
	}
	w.constantData()
	return w.finish()
}

// elementwiseKernel emits a kernel that loops over vectors. On amd64, a mask selects the elements of the last, partial
// vector. On arm64, the last elements are computed one by one. Full and partial vectors share the arithmetic code, but
// have separate loads and stores, because masked stores delay later loads.
func (w *assembler) elementwiseKernel(k elementwiseKernel) {
	lanes := w.bytes / k.size
	w.begin(k.name+w.name, "%s", k.doc)
	w.setVectors(k.size, lanes)
	for _, name := range "yabc" {
		if strings.ContainsRune(k.outputs+k.inputs, name) {
			w.code("MOVE @%c, %[1]c", name)
		}
	}
	w.code("MOVE @n, left; MOVE $0, done")
	if w.architecture == arm64 {
		w.op("MOVD $constants<>(SB), %s", w.operand("constants"))
	}
	f := newFormula(w)
	var x []*value
	for range k.inputs {
		x = append(x, f.loaded(len(x), 0))
	}
	for _, name := range k.scalars {
		w.broadcast(address{base: "@" + name}, len(x))
		x = append(x, f.loaded(len(x), 1))
	}
	// The function at returns the address of the next vector of an operand. At first, the functions load and store emit
	// code for full vectors. Once w.masked is set or w.lanes is reduced, they emit code for partial vectors.
	at := func(name rune) address { return address{base: string(name), index: "done", scale: 1} }
	load := func() {
		for i, name := range k.inputs {
			w.load(at(name), i)
		}
	}
	w.code("JLESS left, $%d, partial; loop:", lanes)
	load()
	w.code("compute:")
	outputs := k.formula(f, x)
	f.emit(outputs...)
	store := func() {
		for i, name := range k.outputs {
			w.store(outputs[i].register, at(name))
		}
	}
	w.code("JLESS left, $%d, storePartial", lanes)
	store()
	w.code("ADD $%d, done; SUB $%d, left; JLEAST left, $%[2]d, loop", w.bytes, lanes)
	w.code("partial:; JEQUAL left, $0, finish")
	if w.architecture == amd64 {
		w.setMask("left", "temp")
		w.masked = true
		w.code("MOVE $0, left")
	} else {
		w.setVectors(k.size, 1)
	}
	load()
	w.code("JUMP compute; storePartial:")
	store()
	w.masked = false
	if w.architecture == arm64 {
		w.code("ADD $%d, done; SUB $1, left; JUMP partial", k.size)
	}
	w.code("finish:; RETURN")
}
