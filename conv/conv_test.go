package conv

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"hvae/ad"
	"hvae/linalg"
	"hvae/linalg/numeric"
)

type matrix = linalg.Matrix[float64]

func random[T linalg.Float](rng *rand.Rand, rows, cols int) linalg.Matrix[T] {
	m := linalg.New[T](rows, cols)
	for i := range m.Data {
		m.Data[i] = T(rng.NormFloat64())
	}
	return m
}

// randomGeometry returns a random geometry with small sizes. The kernel may be larger than the image, the padding may
// be asymmetric, and some input pixels may not affect the output.
func randomGeometry(rng *rand.Rand) Geometry {
	one := func(n int) int { return 1 + rng.IntN(n) }
	g := Geometry{InH: one(5), InW: one(5), InC: one(3), OutC: one(5), KernelH: one(5), KernelW: one(5), Stride: one(3)}
	g.PadTop, g.PadLeft = rng.IntN(g.KernelH), rng.IntN(g.KernelW)
	g.OutH, g.OutW = one((g.InH-1+g.PadTop)/g.Stride+1), one((g.InW-1+g.PadLeft)/g.Stride+1)
	return g
}

// oblong is a geometry without symmetries. The image, kernel and output are not square. The numbers of input and output
// channels differ. All four paddings differ: 1 row at the top, 3 at the bottom, 2 columns on the left, 0 on the right.
var oblong = Geometry{
	InH: 6, InW: 5, InC: 2, OutH: 4, OutW: 3, OutC: 3, KernelH: 4, KernelW: 3, Stride: 2, PadTop: 1, PadLeft: 2,
}

// geometries returns n + 2 geometries: oblong, a copy of oblong with one input channel, and n random geometries.
func geometries(rng *rand.Rand, n int) []Geometry {
	one := oblong
	one.InC = 1
	all := []Geometry{oblong, one}
	for range n {
		all = append(all, randomGeometry(rng))
	}
	return all
}

// visit calls f for each product in the sums that define the convolution: element (tap, co) of the weight matrix times
// element x of the input image is a term of element y of the output image.
func visit(g Geometry, f func(y, co, tap, x int)) {
	for oy := range g.OutH {
		for ox := range g.OutW {
			for co := range g.OutC {
				for ky := range g.KernelH {
					for kx := range g.KernelW {
						iy, ix := oy*g.Stride+ky-g.PadTop, ox*g.Stride+kx-g.PadLeft
						if iy < 0 || iy >= g.InH || ix < 0 || ix >= g.InW {
							continue
						}
						for ci := range g.InC {
							f((oy*g.OutW+ox)*g.OutC+co, co, (ky*g.KernelW+kx)*g.InC+ci, (iy*g.InW+ix)*g.InC+ci)
						}
					}
				}
			}
		}
	}
}

// operands contains the operands of Conv, Transpose and WeightGradient.
type operands[T linalg.Float] struct{ w, x, delta, outBias, inBias linalg.Matrix[T] }

func randomOperands[T linalg.Float](rng *rand.Rand, g Geometry, batch int) operands[T] {
	return operands[T]{random[T](rng, g.Taps(), g.OutC), random[T](rng, g.In(), batch), random[T](rng, g.Out(), batch),
		random[T](rng, g.OutC, 1), random[T](rng, g.InC, 1)}
}

func (o operands[T]) run(g Geometry) (y, in, weight linalg.Matrix[T]) {
	y, in, weight = linalg.New[T](g.Out(), o.x.Cols), linalg.New[T](g.In(), o.x.Cols), linalg.New[T](g.Taps(), g.OutC)
	for _, m := range []linalg.Matrix[T]{y, in, weight} {
		m.Fill(T(math.NaN())) // the results must not depend on the old elements
	}
	conv(&g, y, o.w, o.x, o.outBias)
	transpose(&g, in, o.w, o.delta, o.inBias)
	weightGradient(&g, weight, o.delta, o.x, make([]T, len(o.delta.Data)))
	return y, in, weight
}

func TestOperationsMatchNestedLoops(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, g := range geometries(rng, 300) {
		batch := 1 + rng.IntN(6)
		op := randomOperands[float64](rng, g, batch)
		y, in, weight := op.run(g)
		wantY, wantIn := linalg.New[float64](g.Out(), batch), linalg.New[float64](g.In(), batch)
		wantW := linalg.New[float64](g.Taps(), g.OutC)
		products := 0
		visit(g, func(_, _, _, _ int) { products++ })
		if got := g.MultiplyAdds(); got != products {
			t.Fatalf("%+v: MultiplyAdds returns %d, want %d", g, got, products)
		}
		for b := range batch {
			for i := range g.Out() {
				wantY.Row(i)[b] = op.outBias.Data[i%g.OutC]
			}
			for i := range g.In() {
				wantIn.Row(i)[b] = op.inBias.Data[i%g.InC]
			}
			visit(g, func(o, co, tap, i int) {
				wantY.Row(o)[b] += op.w.At(tap, co) * op.x.At(i, b)
				wantIn.Row(i)[b] += op.w.At(tap, co) * op.delta.At(o, b)
				wantW.Row(tap)[co] += op.delta.At(o, b) * op.x.At(i, b)
			})
		}
		for name, m := range map[string][2]matrix{
			"Conv": {y, wantY}, "Transpose": {in, wantIn}, "WeightGradient": {weight, wantW},
		} {
			if !(numeric.SquaredDistance(m[0].Data, m[1].Data) <= 1e-22) {
				t.Fatalf("%+v: the result of %s is %v, want %v", g, name, m[0], m[1])
			}
		}
	}
}

func TestSameIsTensorFlowsPadding(t *testing.T) {
	for _, c := range []struct{ in, kernel, stride, out, before int }{
		{28, 5, 2, 14, 1}, // pads 1 before and 2 after
		{14, 5, 2, 7, 1},
		{7, 5, 2, 4, 2}, // pads 2 before and 2 after
		{10, 3, 1, 10, 1},
		{10, 1, 3, 4, 0},
		{9, 1, 3, 3, 0}, // the kernel does not reach the last two pixels, so there is no padding
		{4, 5, 4, 1, 0}, // pads 0 before and 1 after
		{1, 3, 2, 1, 1},
	} {
		g := Same(c.in, c.in, 2, 3, c.kernel, c.stride)
		if g.OutH != c.out || g.OutW != c.out || g.PadTop != c.before || g.PadLeft != c.before {
			t.Errorf("for %d pixels, kernel size %d and stride %d, Same returns %d output pixels and padding %d, want %d and %d",
				c.in, c.kernel, c.stride, g.OutH, g.PadTop, c.out, c.before)
		}
	}
	// If the image is not square, Same must pad each axis separately.
	g := Same(7, 14, 2, 3, 5, 2)
	want := Geometry{
		InH: 7, InW: 14, InC: 2, OutH: 4, OutW: 7, OutC: 3,
		KernelH: 5, KernelW: 5, Stride: 2, PadTop: 2, PadLeft: 1,
	}
	if g != want {
		t.Errorf("Same(7, 14, 2, 3, 5, 2) = %+v, want %+v", g, want)
	}
}

// A testCase is an operation of the package, such as Conv, with the shapes of its operands.
type testCase struct {
	name   string
	shapes func(g *Geometry) []linalg.Shape
	op     func(g *Geometry, x []*ad.Var[float64]) *ad.Var[float64]
}

var testCases = []testCase{
	{"Conv", func(g *Geometry) []linalg.Shape {
		return []linalg.Shape{{Rows: g.Taps(), Cols: g.OutC}, {Rows: g.In(), Cols: 2}, {Rows: g.OutC, Cols: 1}}
	}, func(g *Geometry, x []*ad.Var[float64]) *ad.Var[float64] { return Conv(g, x[0], x[1], x[2]) }},
	{"Transpose", func(g *Geometry) []linalg.Shape {
		return []linalg.Shape{{Rows: g.Taps(), Cols: g.OutC}, {Rows: g.Out(), Cols: 2}, {Rows: g.InC, Cols: 1}}
	}, func(g *Geometry, x []*ad.Var[float64]) *ad.Var[float64] { return Transpose(g, x[0], x[1], x[2]) }},
	{"WeightGradient", func(g *Geometry) []linalg.Shape {
		return []linalg.Shape{{Rows: g.Out(), Cols: 2}, {Rows: g.In(), Cols: 2}}
	}, func(g *Geometry, x []*ad.Var[float64]) *ad.Var[float64] { return WeightGradient(g, x[0], x[1]) }},
}

func TestDerivativesOfTheOperationsAgainstFiniteDifferences(t *testing.T) {
	// For each operation with result y, the test differentiates F = Σ tanh(y/5) along a line in the space of the
	// operands. Because tanh is nonlinear, the second derivative of F depends on the first and second derivatives of y.
	rng := rand.New(rand.NewPCG(3, 1))
	for _, f := range testCases {
		for _, g := range geometries(rng, 12) {
			var point, direction []matrix // the line is point + h·direction
			for _, s := range f.shapes(&g) {
				point = append(point, random[float64](rng, s.Rows, s.Cols))
				direction = append(direction, random[float64](rng, s.Rows, s.Cols))
			}
			var tape ad.Tape[float64]
			// at returns F and its first two derivatives with respect to h, all evaluated at point + h·direction.
			at := func(h float64) []float64 {
				tape.Reset()
				p := tape.Leaf(linalg.Column(h))
				var x []*ad.Var[float64]
				for i, m := range point {
					x = append(x, ad.MulAdd(p, tape.Const(direction[i]), tape.Const(m)))
				}
				y := ad.Sum(ad.Tanh(ad.Scale(f.op(&g, x), 0.2)))
				d := ad.Grad(y, p)
				return []float64{y.Scalar(), d.Scalar(), ad.Grad(d, p).Scalar()}
			}
			values, differences := at(0), numeric.Derivative(at, 1e-3)
			for order := 1; order <= 2; order++ {
				got, want := values[order], differences[order-1]
				if !(math.Abs(got-want) <= 1e-7*max(1, math.Abs(want))) {
					t.Errorf("%s, %+v: derivative %d is %v, want %v (finite differences)", f.name, g, order, got, want)
				}
			}
		}
	}
}

func TestBitsDoNotDependOnGOMAXPROCS(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 1))
	for batch, g := range map[int]Geometry{7: Same(14, 14, 16, 32, 5, 2), 150: Same(28, 28, 1, 16, 5, 2)} {
		op := randomOperands[float32](rng, g, batch)
		op.outBias = linalg.Matrix[float32]{} // no bias
		run := func(procs int) []float32 {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
			y, in, weight := op.run(g)
			return slices.Concat(y.Data, in.Data, weight.Data)
		}
		want := run(1)
		for _, procs := range []int{2, 3, 8} {
			if !slices.Equal(run(procs), want) {
				t.Errorf("%+v: the results with GOMAXPROCS = %d and 1 are not bit-identical", g, procs)
			}
		}
	}
}

func TestASampleDoesNotDependOnItsBatch(t *testing.T) {
	// For each sample, Conv and Transpose must compute bit-identical results from the whole batch and from part of it.
	// The batch size 37 is not a multiple of any vector length.
	const batch = 37
	rng := rand.New(rand.NewPCG(6, 1))
	for _, g := range geometries(rng, 20) {
		op := randomOperands[float32](rng, g, batch)
		y, in, _ := op.run(g)
		for _, part := range [][2]int{{0, 16}, {16, 17}, {17, 20}, {20, batch}} {
			columns := func(m linalg.Matrix[float32]) linalg.Matrix[float32] {
				p := linalg.New[float32](m.Rows, part[1]-part[0])
				for i := range m.Rows {
					copy(p.Row(i), m.Row(i)[part[0]:part[1]])
				}
				return p
			}
			py, pin, _ := operands[float32]{op.w, columns(op.x), columns(op.delta), op.outBias, op.inBias}.run(g)
			if !slices.Equal(py.Data, columns(y).Data) || !slices.Equal(pin.Data, columns(in).Data) {
				t.Errorf("%+v: samples %d to %d give different bits without the other samples", g, part[0], part[1]-1)
			}
		}
	}
}

// Each operation must refuse a geometry with an impossible field, and an operand with a wrong shape or of another tape.
func TestMisusePanics(t *testing.T) {
	var tape, other ad.Tape[float64]
	refuses := func(want string, f func()) {
		defer func() {
			if msg := fmt.Sprint(recover()); !strings.Contains(msg, want) {
				t.Errorf("panic %q does not contain %q", msg, want)
			}
		}()
		f()
	}
	good := oblong
	good.OutH, good.OutW = 1, 1 // possible with any padding and stride, so that only the changed field is wrong
	for _, f := range testCases {
		run := func(g *Geometry, wrong int, change linalg.Shape, on *ad.Tape[float64]) func() {
			return func() {
				var x []*ad.Var[float64]
				for i, s := range f.shapes(&good) {
					v := tape.Fill(s.Rows, s.Cols, 0)
					if i == wrong {
						v = on.Fill(s.Rows+change.Rows, s.Cols+change.Cols, 0)
					}
					x = append(x, v)
				}
				f.op(g, x)
			}
		}
		for i := range reflect.TypeFor[Geometry]().NumField() {
			for _, value := range []int{-1, 0, 9} {
				bad := good
				reflect.ValueOf(&bad).Elem().Field(i).SetInt(int64(value))
				name := reflect.TypeFor[Geometry]().Field(i).Name
				padding, out := strings.HasPrefix(name, "Pad"), name == "OutH" || name == "OutW"
				if value < 0 || value == 0 && !padding || value > 0 && (padding || out) {
					refuses("conv: "+f.name+": invalid geometry", run(&bad, -1, linalg.Shape{}, nil))
				}
			}
		}
		for i, s := range f.shapes(&good) {
			refuses(fmt.Sprintf(" [%d×%d]", s.Rows+1, s.Cols), run(&good, i, linalg.Shape{Rows: 1}, &tape))
			if i != 1 || f.name == "WeightGradient" { // other operands may have any number of columns
				refuses(fmt.Sprintf(" [%d×%d]", s.Rows, s.Cols+1), run(&good, i, linalg.Shape{Cols: 1}, &tape))
			}
			refuses("variable used on another tape", run(&good, i, linalg.Shape{}, &other))
		}
	}
	for i := range 6 {
		n := [6]int{4, 4, 1, 1, 3, 2}
		n[i] = 0
		refuses("all arguments must be positive", func() { Same(n[0], n[1], n[2], n[3], n[4], n[5]) })
	}
}
