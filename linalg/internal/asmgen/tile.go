package main

import (
	"fmt"
	"math/bits"
	"strings"
)

// A tile is rows × vectors of C that stay in registers while all products are added to
// them (linalg's Contraction): each step loads the vectors of B, and for each row
// broadcasts an element of A and multiplies.
//
//	                  B at a step:  x0   x1   x2
//	                               ┌────┬────┬────┐
//	A at a step, one lane each: a0 │ s0 │ s1 │ s2 │
//	                            a1 │ s3 │ s4 │ s5 │   s += a·x
//	                               └────┴────┴────┘
//
// In a tile of quads, the one vector is put together from four columns of each of several
// groups.

// A shape is a kind of tile.
type shape struct{ rows, vectors int }

// widest lists, by rows, how many vectors the tiles of an instruction set have at most: up
// to 25 sums of 32 registers, or 12 of 16. There is a tile for each number of vectors up to
// that. NEON's four vectors are the sixteen columns of a block.
//
// In a step of training of the HVAE (K = 5, minibatches of 100), 92 % of the multiply-adds
// of AVX-512 are in the tiles 8×3, 8×2 and 16×1 and 4 % in those of five rows, which the last
// upsampling layer has for five kernel rows; they are wide because it takes many vectors to
// keep the processor busy. The rest is for what is left over at the edges, 0.6 %, and for
// other people's layers: 3, 6 or 7 rows are made up of the others.
func (a isa) widest() []shape {
	switch a {
	case avx2:
		return []shape{{1, 3}, {2, 3}, {4, 3}}
	case avx512:
		return []shape{{1, 8}, {2, 7}, {4, 6}, {5, 5}, {8, 3}}
	}
	return []shape{{1, 8}, {2, 8}, {4, 5}, {6, 4}}
}

// tall is the tile of one vector that beats several shorter ones: it loads B half as often.
// It takes a sixth of the multiply-adds above. AVX2 has no registers for it.
var tall = shape{16, 1}

// ahead is how many steps before its use the tall tile of amd64 fetches A, where that goes
// down a matrix, from cache line to cache line. Wᵀ·δ for W of 512×450 and 16 columns takes
// 60 µs like this if W comes from the third cache, as if it lay in the second; with eight
// steps, which are too few for a line to come from there, 64 to 82.
const ahead = 64

// shapes lists the tiles of an instruction set.
func (a isa) shapes() (shapes []shape) {
	for _, w := range a.widest() {
		for v := range w.vectors {
			if s := (shape{w.rows, v + 1}); a != neon || s.rows != 6 || s.vectors == w.vectors {
				shapes = append(shapes, s)
			}
		}
	}
	switch a {
	case avx512:
		shapes = append(shapes, tall)
	case neon: // fewer than four vectors have eight rows, not six
		shapes = append(shapes, shape{8, 1}, shape{8, 2}, shape{8, 3}, tall)
	}
	return shapes
}

// parts lists the tiles for vectors that are not full, as the last in matrices of odd widths
// are: 1 % of the multiply-adds above, all in minibatches' last columns. The mask costs an
// instruction for each load, on the units that multiply; full vectors do without.
// NEON has no masks; a part of a vector is a column there.
func (a isa) parts() []shape {
	if a == avx2 {
		return []shape{{1, 1}, {2, 1}, {4, 1}}
	}
	return []shape{{1, 1}, {4, 1}, {8, 1}, tall}
}

// part is how many columns the tiles of parts take at most.
func (a isa) part() int {
	if a == neon {
		return 1
	}
	return a.lanes - 1
}

// quads lists the tiles of quads. A minibatch of 100 is six blocks of 16 columns and one of
// four, which would take as long as the others in its convolutions, a seventh of a step:
// with quads it takes a quarter of that.
// To NEON four columns are a vector as any other.
func (a isa) quads() []shape {
	switch a {
	case avx2:
		return []shape{{1, 1}, {4, 1}}
	case avx512:
		return []shape{{1, 1}, {4, 1}, tall}
	}
	return nil
}

// name returns the symbol of a tile.
func (s shape) name(kind string, a isa) string {
	if kind != "tile" {
		return fmt.Sprintf("%s%d%s", kind, s.rows, a.name)
	}
	return fmt.Sprintf("tile%dx%d%s", s.rows, s.vectors, a.name)
}

// tileNumbers returns the table of the tiles and the Go text of their numbers.
func tileNumbers(sets []isa) (*table, string) {
	t := &table{door: "tile", args: "tileArgs"}
	var b strings.Builder
	b.WriteString("// tileSets are the tiles of each level: rows, vectors and number.\nvar tileSets = [levels]*tileSet{\n")
	for _, a := range sets {
		fmt.Fprintf(&b, "level%s: newTileSet(%d, %d, [][2]int{", a.name, a.lanes, a.part())
		for _, s := range a.widest() {
			fmt.Fprintf(&b, "{%d, %d}, ", s.rows, s.vectors)
		}
		b.WriteString("}")
		for _, k := range []struct {
			kind   string
			shapes []shape
		}{{"tile", a.shapes()}, {"part", a.parts()}, {"quad", a.quads()}} {
			fmt.Fprintf(&b, ",\n[]tileKernel{ // %s", map[string]string{"tile": "full vectors", "part": "part of one", "quad": "quads"}[k.kind])
			rows := 0
			for _, s := range k.shapes {
				if s.rows != rows {
					b.WriteString("\n")
					rows = s.rows
				}
				fmt.Fprintf(&b, "{%d, %d, %d}, ", s.rows, s.vectors, t.add(s.name(k.kind, a)))
			}
			b.WriteString("\n}")
		}
		b.WriteString("),\n")
	}
	b.WriteString("}\n")
	return t, b.String()
}

// tables returns the Go file of what Go must know of the kernels of a machine.
func tables(sets []isa) string {
	_, tiles := tileNumbers(sets)
	_, bands := bandNumbers(sets)
	return goFile("kernel", "!purego", tiles+"\n"+bands)
}

// tiles returns the file of the tiles.
func tiles() string {
	var w writer
	w.header(
		"Tiles of products; see tiles.go and tileArgs. In each of them, where there is a register for it:",
		"",
		"	SI, BX      A and B at this step",
		"	R8-R11      1, 3, 5 and 7 times the distance of rows of A, later of C",
		"	DX          that of vectors of B, later of C",
		"	R12, R13    how far A and B go from step to step",
		"	R14, CX     the next segment, and the steps that are left",
		"	K1, Y15     the lanes that are columns",
		"",
		"Sums and operands lie in the vector registers as each tile says.")
	w.maskData()
	for _, a := range x86 {
		w.isa = a
		for _, s := range a.shapes() {
			w.tile(s, false)
		}
		for _, s := range a.parts() {
			w.tile(s, true)
		}
		for _, s := range a.quads() {
			w.quadTile(s)
		}
	}
	t, _ := tileNumbers(x86)
	w.writeTable(t)
	return w.String()
}

// arg returns an argument of a tile.
func arg(field string) string { return "tileArgs_" + field + "(DI)" }

// at returns the address base + i·stride of the i-th of up to eight, where the registers
// of s hold 1, 3, 5 and 7 times the stride.
func at(base string, i int, s [4]string) string {
	switch i {
	case 0:
		return "(" + base + ")"
	case 1, 2, 4:
		return fmt.Sprintf("(%s)(%s*%d)", base, s[0], i)
	case 3, 6:
		return fmt.Sprintf("(%s)(%s*%d)", base, s[1], i/3)
	}
	return fmt.Sprintf("(%s)(%s*1)", base, s[i/2]) // 5 and 7
}

// odd sets up the registers of at for indices below n.
func (w *writer) odd(s [4]string, n int) {
	if n > 3 {
		w.op("LEAQ (%s)(%s*2), %s", s[0], s[0], s[1])
	}
	if n > 5 {
		w.op("LEAQ (%s)(%s*4), %s", s[0], s[0], s[2])
	}
	if n > 7 {
		w.op("LEAQ (%s)(%s*4), %s", s[1], s[0], s[3])
	}
}

var rowStrides = [4]string{"R8", "R9", "R10", "R11"}

// vectorStrides returns the registers for up to eight vectors in tiles of so many rows.
// Beyond three vectors there are five rows at most, which leave some of theirs.
func vectorStrides(rows int) [4]string {
	if rows > 3 {
		return [4]string{"DX", "R10", "R11"}
	}
	return [4]string{"DX", "R9", "R10", "R11"}
}

// tile writes the tile of a shape. Masked, it is for part of a vector: the loads under a mask
// take the place of multiplications in the processor, and such tiles have one vector only.
func (w *writer) tile(s shape, masked bool) {
	kind := "tile"
	if masked {
		kind = "part"
	}
	w.masked = masked
	sums, strides := s.rows*s.vectors, vectorStrides(s.rows)
	fmt.Fprintf(w, "\n// %s: row i, vector v of C in %s, i·%d + v; B in %s, A in the next.\n", s.name(kind, w.isa), w.vs(0, sums), s.vectors, w.vs(sums, s.vectors))
	w.local(s.name(kind, w.isa))
	w.begin(s, strides)
	if masked {
		w.op("MOVQ %s, CX", arg("lanes"))
		w.setMask()
	}
	w.op("MOVQ %s, AX", arg("segmentCount"))
	w.products(s, "AX", func(v, r int) { w.load(at("BX", v, strides), r) })

	w.note("Add the sums to C if asked to, and store them.")
	w.op("MOVQ %s, R8", arg("cRow"))
	w.op("MOVQ %s, DX", arg("cVector"))
	w.odd(strides, s.vectors)
	w.op("MOVQ %s, SI", arg("c"))
	w.op("CMPQ %s, $0", arg("add"))
	w.op("JEQ store")
	w.each(s, func(i int, mem string) {
		switch {
		case !masked:
			w.op("VADDPS %s, %s, %s", mem, w.v(i), w.v(i))
		case w.lanes == 16:
			w.op("VADDPS %s, %s, K1, %s", mem, w.v(i), w.v(i))
		default:
			w.load(mem, sums)
			w.op("VADDPS %s, %s, %s", w.v(sums), w.v(i), w.v(i))
		}
	})
	w.op("MOVQ %s, SI", arg("c"))
	w.label("store")
	w.each(s, func(i int, mem string) { w.store(i, mem) })
	w.op("VZEROUPPER")
	w.op("RET")
}

// begin reads the strides and sets the sums to the bias.
func (w *writer) begin(s shape, strides [4]string) {
	w.note("C comes while products are added up.")
	w.op("MOVQ %s, R8", arg("cRow"))
	w.op("MOVQ %s, DX", arg("cVector"))
	w.odd(strides, s.vectors)
	w.op("MOVQ %s, SI", arg("c"))
	w.each(s, func(_ int, mem string) { w.op("PREFETCHT0 %s", mem) })
	w.note("Strides.")
	w.op("MOVQ %s, R8", arg("aRow"))
	w.op("MOVQ %s, DX", arg("bVector"))
	w.odd(rowStrides, min(s.rows, 8))
	w.odd(strides, s.vectors)
	w.op("MOVQ %s, R12", arg("aStep"))
	if s.rows > 8 { // from the ninth row of a step to the first of the next
		w.op("MOVQ R12, R15")
		w.op("SHLQ $%d, R15", bits.TrailingZeros(ahead))
		w.op("LEAQ (R8*8), AX")
		w.op("SUBQ AX, R12")
	}
	w.op("MOVQ %s, R13", arg("bStep"))
	w.op("MOVQ %s, R14", arg("segments"))
	w.note("Sums begin at the bias of their row.")
	w.op("MOVQ %s, BX", arg("bias"))
	for i := range s.rows {
		w.op("VBROADCASTSS %d(BX), %s", 4*i, w.v(i*s.vectors))
		for v := 1; v < s.vectors; v++ {
			w.op("VMOVAPS %s, %s", w.v(i*s.vectors), w.v(i*s.vectors+v))
		}
	}
}

// quadTile writes the tile of a shape, a vector of four columns of each of several
// groups, which begin at the distances DX, AX and R15 from the first.
func (w *writer) quadTile(s shape) {
	w.masked = false
	rows := s.rows
	name := s.name("quad", w.isa)
	distances := []string{"", "(DX*1)", "(AX*1)", "(R15*1)"}[:w.lanes/4]
	load := func(base string, r int) {
		w.op("VMOVUPS (%s), X%d", base, r)
		for g, d := range distances[1:] {
			w.insert(g+1, "("+base+")"+d, r)
		}
	}
	set := func(operand string) {
		w.op("MOVQ %s, DX", arg(operand+"Vector"))
		if w.lanes == 16 {
			w.op("MOVQ %s, AX", arg(operand+"Quad2"))
			w.op("MOVQ %s, R15", arg(operand+"Quad3"))
		}
	}
	x := rows
	fmt.Fprintf(w, "\n// %s: row i of C in %s; B in %s, A in the next; a quarter or half of a vector is a group.\n", name, w.vs(0, rows), w.v(x))
	w.local(name)
	w.begin(s, [4]string{"DX"})
	set("b")
	w.op("MOVQ %s, BX", arg("segmentCount"))
	w.op("MOVQ BX, %s", arg("left"))
	w.products(s, arg("left"), func(v, r int) { load("BX", r) })

	w.note("Add the sums to C if asked to, and store them.")
	w.op("MOVQ %s, R8", arg("cRow"))
	set("c")
	w.op("MOVQ %s, SI", arg("c"))
	w.op("MOVQ %s, CX", arg("add"))
	for i := range rows {
		w.op("TESTQ CX, CX")
		w.op("JEQ store%d", i)
		load("SI", x)
		w.op("VADDPS %s, %s, %s", w.v(x), w.v(i), w.v(i))
		w.label(fmt.Sprintf("store%d", i))
		w.op("VMOVUPS X%d, (SI)", i)
		for g, d := range distances[1:] {
			w.extract(g+1, i, "(SI)"+d)
		}
		if i < rows-1 {
			w.op("ADDQ R8, SI")
		}
	}
	w.op("VZEROUPPER")
	w.op("RET")
}

// products adds up all products; counter has the number of segments. load fills register r
// with vector v of B.
func (w *writer) products(s shape, counter string, load func(v, r int)) {
	x := s.rows * s.vectors // registers of B
	factors := x + s.vectors
	spare := w.regs - factors // registers for elements of A
	if w.masked && w.lanes == 8 {
		spare--
	}
	w.note("The next segment.")
	w.label("segment")
	w.op("MOVQ Segment_A(R14), SI")
	w.op("MOVQ Segment_B(R14), BX")
	w.op("ADDQ $Segment__size, R14")
	w.op("SHLQ $2, SI")
	w.op("ADDQ %s, SI", arg("a"))
	w.op("SHLQ $2, BX")
	w.op("ADDQ %s, BX", arg("b"))
	w.op("MOVQ %s, CX", arg("steps"))
	w.remark("A step: the vectors of B, and for each row an element of A.")
	w.label("step")
	if s.rows > 8 && counter == "AX" {
		w.op("PREFETCHT0 (SI)(R15*1)")
	}
	for v := range s.vectors {
		load(v, x+v)
	}
	for i := range s.rows {
		if i == 8 { // R12 takes this back
			w.op("LEAQ (SI)(R8*8), SI")
		}
		f := factors + i%min(spare, 4)
		w.op("VBROADCASTSS %s, %s", at("SI", i%8, rowStrides), w.v(f))
		for v := range s.vectors {
			w.op("VFMADD231PS %s, %s, %s", w.v(f), w.v(x+v), w.v(i*s.vectors+v))
		}
	}
	w.op("ADDQ R12, SI")
	w.op("ADDQ R13, BX")
	w.op("DECQ CX")
	w.op("JNZ step")
	w.op("DECQ %s", counter)
	w.op("JNZ segment")
}

// each visits the sums with their place in C, from SI on.
func (w *writer) each(s shape, f func(i int, mem string)) {
	for i := range s.rows {
		for v := range s.vectors {
			f(i*s.vectors+v, at("SI", v, vectorStrides(s.rows)))
		}
		if i < s.rows-1 {
			w.op("ADDQ R8, SI")
		}
	}
}
