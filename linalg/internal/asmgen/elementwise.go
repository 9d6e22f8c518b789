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

	// formula returns the outputs for the inputs and the scalars.
	formula func(f *formula, in, scalar []*value) []*value
}

// elementwiseKernels[i] is the elementwise kernel with index i.
var elementwiseKernels = []elementwiseKernel{
	{"opAdd", 4, "y = a + b", "y", "ab", nil, func(f *formula, in, _ []*value) []*value {
		return []*value{f.add(in[0], in[1])}
	}},
	{"opMul", 4, "y = a·b", "y", "ab", nil, func(f *formula, in, _ []*value) []*value {
		return []*value{f.mul(in[0], in[1])}
	}},
	{"opMulAdd", 4, "y = a·b + c", "y", "abc", nil, func(f *formula, in, _ []*value) []*value {
		return []*value{f.fma(in[0], in[1], in[2])}
	}},
	{"opSoftplus", 4, "y = log(1 + eᵃ)", "y", "a", nil, func(f *formula, in, _ []*value) []*value {
		return []*value{f.softplus(in[0], f.expOfMinusAbs(in[0]))}
	}},
	{"opSoftplusSigmoid", 4, "y = log(1 + eᵃ), b = 1/(1 + e⁻ᵃ)", "yb", "a", nil, func(f *formula, in, _ []*value) []*value {
		e := f.expOfMinusAbs(in[0])
		return []*value{f.softplus(in[0], e), f.sigmoid(in[0], e)}
	}},
	{"opSigmoidGradient", 4, "y = a ⊙ (b − b²)", "y", "ab", nil, func(f *formula, in, _ []*value) []*value {
		return []*value{f.mul(f.fnma(in[1], in[1], in[1]), in[0])}
	}},
	{"opAdamax", 4, "a step of Adamax for parameters y, moving averages b and c and gradient a", "ybc", "ybca",
		[]string{"beta1", "rest1", "beta2", "rate", "epsilon"}, adamax},
}

// adamax returns the results of a step of the optimiser Adamax; see Adamax in package linalg.
func adamax(f *formula, in, scalar []*value) []*value {
	p, m, u, g := in[0], in[1], in[2], in[3]
	beta1, rest1, beta2, rate, epsilon := scalar[0], scalar[1], scalar[2], scalar[3], scalar[4]
	m = f.fma(rest1, g, f.mul(m, beta1))
	u = f.max(f.mul(u, beta2), f.abs(g))
	return []*value{f.fma(rate, f.div(m, f.add(u, epsilon)), p), m, u}
}

// operands returns the names of all operands of k: the outputs, followed by the inputs that are not also outputs.
func (k elementwiseKernel) operands() string {
	operands := k.outputs
	for _, in := range k.inputs {
		if !strings.ContainsRune(operands, in) {
			operands += string(in)
		}
	}
	return operands
}

// elementwise returns the assembly file with the elementwise kernels.
func elementwise(arch *architecture) string {
	w := newFile(arch, "elementwise", "These kernels compute elementwise functions; see elementwise.go and elementwiseArgs.",
		"y: address of y", "a: address of a", "b: address of b", "c: address of c",
		"done: number of bytes done", "left: number of elements left", "constants, temp: address of the constants (arm64), temporary (amd64)")
	for _, w.isa = range arch.sets {
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
// vector. On arm64, the last elements are computed one by one. The arithmetic code is the same for full and partial
// vectors, but loads and stores are separate, because masked stores delay later loads.
func (w *assembler) elementwiseKernel(k elementwiseKernel) {
	lanes := w.bytes / k.size
	w.begin(k.name+w.name, "%s", k.doc)
	w.setVectors(k.size, lanes)
	for _, name := range k.operands() {
		w.code("MOVE @%c, %[1]c", name)
	}
	w.code("MOVE @n, left; MOVE $0, done")
	if w.architecture == arm64 {
		w.op("MOVD $constants<>(SB), %s", w.operand("constants"))
	}
	f := newFormula(w)
	var in, scalar []*value
	for i, name := range k.scalars {
		w.broadcast(address{base: "@" + name}, i)
		scalar = append(scalar, f.loaded(i, true))
	}
	for i := range k.inputs {
		in = append(in, f.loaded(len(scalar)+i, false))
	}
	// The functions below load the inputs and store the outputs, whole vectors or parts of vectors.
	at := func(name rune) address { return address{base: string(name), index: "done", scale: 1} }
	load := func() {
		for i, name := range k.inputs {
			w.load(at(name), len(scalar)+i)
		}
	}
	w.code("JLESS left, $%d, partial; loop:", lanes)
	load()
	w.code("compute:")
	outputs := k.formula(f, in, scalar)
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
	if w.masked = false; w.architecture == arm64 {
		w.code("ADD $%d, done; SUB $1, left; JUMP partial", k.size)
	}
	w.code("finish:; RETURN")
}
