package main

import "strings"

// An operation is an instruction that computes each lane of a vector separately.
type operation int

const (
	add operation = iota // arithmetic on float32
	mul
	div
	maximum // max(a, b), or b if a or b is NaN, as on amd64
	fma     // d + a·b
	fms     // d − a·b
	addInt  // arithmetic on int32
	and
	or
	move
	round // to the nearest integer, ties to even
	toInt // round and convert to int32
)

// The methods of the interface operations emit instructions for one architecture. The parameters a, b, d
// and x are the numbers of vector registers.
type operations interface {
	binary(op operation, d, a, b int)               // d = a ∘ b
	binaryBits(op operation, d, a int, bits uint32) // d = a ∘ c for the constant c with these bits
	horner(c float64, x, d int)                     // d = d·x + c
	unary(op operation, d, a int)                   // d = op(a)
	shiftLeft(d, a, n int)                          // d = a shifted left by n bits
	setBits(bits uint32, d int)                     // d = the constant with these bits
	chooseLess(x int, c float64, a, d int)          // d = a in the lanes where x < c
	chooseNegative(x, a, d int)                     // d = a in the lanes where the sign bit of x is set
}

// A body emits the middle part of an elementwise kernel, which computes the outputs from the inputs.
// Other code loads the inputs and stores the outputs.
type body struct {
	*writer
	operations
	in, scalar []int // numbers of the vector registers that hold the inputs and the scalars
	next       int   // number of the next free vector register
}

// loadOperands allocates a vector register r for each input of kernel k. It calls load to emit an
// instruction that loads the input into r.
func (w *body) loadOperands(k elementwiseKernel, load func(operand rune, r int)) {
	w.in, w.next = nil, len(w.scalar)
	for _, in := range k.inputs {
		r := w.register()
		load(in, r)
		w.in = append(w.in, r)
	}
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

// register allocates a vector register and returns its number. With AVX2, one register is reserved
// for constants and one for the mask.
func (w *body) register() int {
	w.next++
	if w.isa == avx2 && w.next > avx2Const {
		panic("no register left")
	}
	return w.next - 1
}

// release frees register r and all registers after it.
func (w *body) release(r int) { w.next = r }

// binaryConst emits code that computes d = a ∘ c, where ∘ is op and c is a constant.
func (w *body) binaryConst(op operation, d, a int, c float64) { w.binaryBits(op, d, a, bitsOf(c)) }

// set emits code that sets register d to the constant c.
func (w *body) set(c float64, d int) { w.setBits(bitsOf(c), d) }

// one returns the body of a kernel that performs a single operation on two inputs.
func one(op operation) func(w *body) []int {
	return func(w *body) []int {
		w.binary(op, w.in[0], w.in[0], w.in[1])
		return w.in[:1]
	}
}

// adamax emits the computation of a step of the optimiser Adamax; see Adamax in package linalg.
func (w *body) adamax() []int {
	p, m, u, g := w.in[0], w.in[1], w.in[2], w.in[3]
	beta1, rest1, beta2, rate, epsilon := w.scalar[0], w.scalar[1], w.scalar[2], w.scalar[3], w.scalar[4]
	w.binary(mul, m, m, beta1)
	w.binary(fma, m, rest1, g)
	w.binary(mul, u, u, beta2)
	w.binaryBits(and, g, g, 0x7fffffff)
	w.binary(maximum, u, u, g)
	w.binary(add, g, u, epsilon)
	w.binary(div, g, m, g)
	w.binary(fma, p, rate, g)
	return []int{p, m, u}
}
