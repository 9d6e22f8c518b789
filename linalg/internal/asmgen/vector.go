package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// vectorInstructions maps names to vector instructions d = a ∘ b. The fields are the amd64 name of the instruction for
// float32 or int32, its arm64 name and its arm64 code. Go's assembler lacks most of the arm64 instructions
// (golang/go#41092). So the generator emits every arm64 instruction of the table as a WORD directive with its code,
// followed by a comment. A test checks that the comment is the output of the GNU disassembler for this code.
var vectorInstructions = map[string]struct {
	amd64, arm64 string
	code         uint32
}{
	"add":  {"VADDPS", "fadd", 0x4e20d400},
	"sub":  {"VSUBPS", "fsub", 0x4ea0d400},
	"mul":  {"VMULPS", "fmul", 0x6e20dc00},
	"div":  {"VDIVPS", "fdiv", 0x6e20fc00},
	"max":  {"VMAXPS", "fmax", 0x4e20f400}, // if b is NaN, the result is NaN; if only a is NaN, it is unspecified
	"min":  {"VMINPS", "fmin", 0x4ea0f400},
	"fma":  {"VFMADD231PS", "fmla", 0x4e20cc00},  // d = d + a·b
	"fnma": {"VFNMADD231PS", "fmls", 0x4ea0cc00}, // d = d − a·b

	"addInt": {"VPADDD", "add", 0x4ea08400},
	"subInt": {"VPSUBD", "sub", 0x6ea08400},
	"and":    {"VANDPS", "and", 0x4e201c00},
	"or":     {"VORPS", "orr", 0x4ea01c00},
	"xor":    {"VXORPS", "eor", 0x6e201c00},

	// These operations interleave elements of a and b: d = a₀ b₀ a₁ b₁ …. From each 16-byte part of a and b,
	// interleaveLow uses the first half of the elements, and interleaveHigh uses the second half.
	"interleaveLow":  {"VUNPCKLPS", "zip1", 0x4e803800},
	"interleaveHigh": {"VUNPCKHPS", "zip2", 0x4e807800},

	"greater": {arm64: "fcmgt", code: 0x6ea0e400}, // d = all bits set where a > b
	"select":  {arm64: "bsl", code: 0x6e601c00},   // d = a where the bits of d are set, else b
}

// setVectors sets the vector type for the instructions emitted from now on: size is the number of bytes per element,
// and lanes is the number of elements per vector.
func (w *assembler) setVectors(size, lanes int) { w.size, w.lanes = size, lanes }

func (w *assembler) v(i int) string {
	if i < 0 || i >= w.count {
		panic(fmt.Sprintf("%s has no register %d", w.name, i))
	}
	prefix := "X"
	switch {
	case w.architecture == arm64:
		prefix = "V"
	case w.size*w.lanes > 32:
		prefix = "Z"
	case w.size*w.lanes > 16:
		prefix = "Y"
	}
	return fmt.Sprintf("%s%d", prefix, i)
}

// typed returns the name of an amd64 instruction for the current vector type, given its name for float32 or int32.
func (w *assembler) typed(name string) string {
	switch stem, ok := strings.CutSuffix(name, "PS"); {
	case ok:
		return stem + map[bool]string{true: "S", false: "P"}[w.lanes == 1] + map[int]string{4: "S", 8: "D"}[w.size]
	case w.size == 8:
		return strings.TrimSuffix(name, "D") + "Q"
	}
	return name
}

// vector emits the instruction d = a ∘ b with the given name in the table vectorInstructions.
func (w *assembler) vector(name string, a, b, d int) {
	i := vectorInstructions[name]
	if w.architecture == amd64 {
		w.op("%s %s, %s, %s", w.typed(i.amd64), w.v(b), w.v(a), w.v(d))
		return
	}
	lanes := "4s"
	switch {
	case slices.Contains([]string{"and", "or", "xor", "select"}, name):
		lanes = "16b"
	case w.size == 8:
		lanes = "2d"
		i.code |= 1 << 22
	}
	w.word(i.code|uint32(b<<16|a<<5|d), "%s v%d.%[3]s, v%[4]d.%[3]s, v%[5]d.%[3]s", i.arm64, d, lanes, a, b)
}

// word emits a WORD directive with the code of an arm64 instruction, and a comment formatted with fmt.Sprintf. The
// comment must equal the output of the GNU disassembler for this code.
func (w *assembler) word(code uint32, format string, args ...any) {
	w.op("WORD $0x%08x // %s", code, fmt.Sprintf(format, args...))
}

// vectorMemory emits the named instruction d = a ∘ b for registers d and a and the vector b at an address. On arm64, it
// first loads b into vector register temp.
func (w *assembler) vectorMemory(name string, a int, b address, d, temp int) {
	if w.architecture == amd64 {
		w.op("%s %s, %s, %s", w.typed(vectorInstructions[name].amd64), w.memory(b), w.v(a), w.v(d))
		return
	}
	w.load(b, temp)
	w.vector(name, a, temp, d)
}

func (w *assembler) copy(a, d int) {
	if w.architecture == amd64 {
		w.op("VMOVAPS %s, %s", w.v(a), w.v(d))
		return
	}
	w.op("VMOV V%d.B16, V%d.B16", a, d)
}

// shift emits an instruction that shifts the elements of vector register a by n bits to the left. If n is negative, it
// shifts them by −n bits to the right and inserts zeros.
func (w *assembler) shift(a, n, d int) {
	name, bits := "VPSLLD", n
	if n < 0 {
		name, bits = "VPSRLD", -n
	}
	if w.architecture == amd64 {
		w.op("%s $%d, %s, %s", w.typed(name), bits, w.v(a), w.v(d))
		return
	}
	name = map[bool]string{true: "VSHL", false: "VUSHR"}[n > 0]
	w.op("%s $%d, V%d.%[4]s, V%[5]d.%[4]s", name, bits, a, w.arrangement(), d)
}

// arrangement returns the suffix of an arm64 vector register, such as S4 for four float32 elements.
func (w *assembler) arrangement() string { return map[int]string{4: "S4", 8: "D2"}[w.size] }

// maskRegister is the number of the AVX2 register that holds the mask for partial vectors. The AVX-512 mask is in K1.
const maskRegister = 15

// load emits an instruction that loads a vector from an address into register r. If w.masked is set, elements outside
// the mask become zero. On arm64, elements after the first w.lanes become zero.
func (w *assembler) load(from address, r int) { w.move(from, r, true) }

// store emits an instruction that stores register r at an address. If w.masked is set, it stores only the elements that
// the mask selects.
func (w *assembler) store(r int, to address) { w.move(to, r, false) }

func (w *assembler) move(a address, r int, load bool) {
	from, to := w.memory(a), w.v(r)
	name, mask := w.typed("VMOVUPS"), ""
	if w.architecture == arm64 {
		bytes := w.size * w.lanes
		if bytes == 16 && a.index != "" { // Go's assembler lacks this instruction
			base, _ := strconv.Atoi(w.operand(a.base)[1:]) // R1 has the number 1
			index, _ := strconv.Atoi(w.operand(a.index)[1:])
			code, name := uint32(0x3ca06800), "str"
			if load {
				code, name = 0x3ce06800, "ldr"
			}
			w.word(code|uint32(index<<16|base<<5|r), "%s q%d, [x%d, x%d]", name, r, base, index)
			return
		}
		to = fmt.Sprintf("F%d", r)
		name = "FMOV" + map[int]string{4: "S", 8: "D", 16: "Q"}[bytes]
	}
	switch {
	case w.masked && w.isa == avx512 && load:
		name, mask = name+".Z", "K1, "
	case w.masked && w.isa == avx512:
		mask = "K1, "
	case w.masked:
		name, mask = w.typed("VMASKMOVPS"), w.v(maskRegister)+", "
	case w.lanes == 1 && w.architecture == amd64:
		name = w.typed("VMOVPS") // VMOVSS or VMOVSD
	}
	if !load {
		from, to = to, from
	}
	w.op("%s %s, %s%s", name, from, mask, to)
}

// broadcast emits code that loads one number from an address into all elements of register r.
func (w *assembler) broadcast(from address, r int) {
	switch element := map[int]string{4: "S", 8: "D"}[w.size]; {
	case w.architecture == amd64:
		w.op("VBROADCASTS%s %s, %s", element, w.memory(from), w.v(r))
	case from == address{base: from.base} && from.base[0] != '@': // VLD1R supports no other addresses
		w.op("VLD1R (%s), [V%d.%s]", w.operand(from.base), r, w.arrangement())
	default:
		w.op("FMOV%s %s, F%d", element, w.memory(from), r)
		w.op("VDUP V%d.%s[0], V%[1]d.%[3]s", r, element, w.arrangement())
	}
}

// parts contains the suffixes of the instructions that insert or extract a 16-byte part of a vector.
var parts = map[*isa]string{avx2: "F128", avx512: "F32X4"}

// insert emits an amd64 instruction that loads a 16-byte part of register r from an address. It keeps the other parts.
func (w *assembler) insert(part int, from address, r int) {
	w.op("VINSERT%s $%d, %s, %s, %s", parts[w.isa], part, w.memory(from), w.v(r), w.v(r))
}

// setMask emits amd64 code that makes the mask select the first k elements, where the register named n holds k. The
// register named temp is for temporary values. The code may overwrite both registers.
func (w *assembler) setMask(n, temp string) {
	n, temp = w.operand(n), w.operand(temp)
	if w.isa == avx512 {
		w.op("MOVL $-1, %s; BZHIL %s, %[1]s, %[1]s; KMOVW %[1]s, K1", temp, n)
		return
	}
	w.op("LEAQ ones<>+32(SB), %s; SHLQ $%d, %s; SUBQ %[3]s, %[1]s", temp, w.size/4+1, n)
	w.op("VMOVDQU (%s), %s", temp, w.v(maskRegister))
}

// maskData emits a table from which AVX2 kernels load masks: 32 bytes with the value 255, then 32 zero bytes.
func (w *assembler) maskData() {
	w.WriteByte('\n')
	for i := range 8 {
		fmt.Fprintf(w, "DATA ones<>+%d(SB)/8, $%s\n", 8*i, [...]string{"0xffffffffffffffff", "0"}[i/4])
	}
	w.WriteString("GLOBL ones<>(SB), NOPTR|RODATA, $64\n")
}

// A constant holds the bits and the size in bytes of a number that vector instructions use.
type constant struct {
	bits uint64
	size int
}

// constantOperand returns the assembly operand for a constant, and adds the constant to w.constants if it is new. In
// the table of constants, each constant occupies 8 bytes on amd64 and a whole vector on arm64. On arm64, the register
// named constants holds the address of the table.
func (w *assembler) constantOperand(c constant) string {
	if !slices.Contains(w.constants, c) {
		w.constants = append(w.constants, c)
	}
	i := slices.Index(w.constants, c)
	if w.architecture == arm64 {
		return fmt.Sprintf("%d(%s)", 16*i, w.operand("constants"))
	}
	return fmt.Sprintf("constants<>+%d(SB)", 8*i)
}

func (w *assembler) constantData() {
	w.WriteByte('\n')
	size := map[*architecture]int{amd64: 8, arm64: 16}[w.architecture]
	for i, c := range w.constants {
		bits, value := c.bits, math.Float64frombits(c.bits)
		if c.size == 4 {
			bits, value = bits|bits<<32, float64(math.Float32frombits(uint32(bits)))
		}
		for offset := 0; offset < size; offset += 8 {
			fmt.Fprintf(w, "DATA constants<>+%d(SB)/8, $0x%016x // %v\n", size*i+offset, bits, value)
		}
	}
	fmt.Fprintf(w, "GLOBL constants<>(SB), NOPTR|RODATA, $%d\n", size*len(w.constants))
}
