package linalg

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestViewsShareElements(t *testing.T) {
	m := New[float64](4, 3)
	m.RowRange(1, 3).Fill(7)
	if want := []float64{0, 0, 0, 7, 7, 7, 7, 7, 7, 0, 0, 0}; !slices.Equal(m.Data, want) {
		t.Errorf("after RowRange(1, 3).Fill(7), the elements are %v, want %v", m.Data, want)
	}
	c := m.Clone()
	c.Row(0)[1] = 5
	if m.At(0, 1) != 0 || c.At(0, 1) != 5 {
		t.Error("a clone shares elements with the original matrix")
	}
}

// Each function must refuse each operand that has two more rows or two more columns than the other operands need. The
// message must contain the wrong shape.
func TestWrongShapesPanicWithAMessageThatContainsThem(t *testing.T) {
	type m = Matrix[float64]
	type function struct {
		name   string
		shapes []Shape // valid shapes
		call   func(x []m)
	}
	full, column, scratch := Shape{2, 4}, Shape{2, 1}, make([]float64, 99)
	functions := []function{
		{"Copy", []Shape{full, full}, func(x []m) { Copy(x[0], x[1]) }},
		{"Sum", []Shape{full, full}, func(x []m) { Sum(x[0], x[1]) }},
		{"MulSum", []Shape{column, full, full}, func(x []m) { MulSum(x[0], x[1], x[2]) }},
		{"AddMulSum", []Shape{column, full, full}, func(x []m) { AddMulSum(x[0], x[1], x[2]) }},
		{"Affine", []Shape{full, {2, 3}, {3, 4}}, func(x []m) { MatMul(x[0], x[1], x[2]) }},
		{"Affine", []Shape{full, {2, 3}, {3, 4}, column}, func(x []m) { Affine(x[0], x[1], x[2], x[3]) }},
		{"MatMulTA", []Shape{full, {3, 2}, {3, 4}}, func(x []m) { MatMulTA(x[0], x[1], x[2]) }},
		{"MatMulTB", []Shape{full, {2, 3}, {4, 3}}, func(x []m) { MatMulTB(x[0], x[1], x[2], scratch) }},
		{"MatMulTB", []Shape{full, {2, 3}, {4, 3}}, func(x []m) { AddMatMulTB(x[0], x[1], x[2], scratch) }},
		{"TransposeBlocks", []Shape{full, full}, func(x []m) { TransposeBlocks(x[0], x[1], 2) }},
	}
	for _, op := range operations[float64]() {
		name, _, _ := strings.Cut(op.name, ",")
		shapes := slices.Repeat([]Shape{full}, 1+op.operands)
		functions = append(functions, function{name, shapes, func(x []m) { op.do(x[0], x[1:]) }})
	}
	for _, c := range functions {
		for wrong := -1; wrong < 2*len(c.shapes); wrong++ {
			var operands []m
			want := "<nil>"
			for i, s := range c.shapes {
				if i == wrong/2 && wrong >= 0 {
					s.Rows += 2 * (wrong % 2)
					s.Cols += 2 * (1 - wrong%2)
					want = s.String()
				}
				operands = append(operands, New[float64](s.Rows, s.Cols))
			}
			if msg := fmt.Sprint(recovered(func() { c.call(operands) })); !strings.Contains(msg, want) ||
				wrong >= 0 && !strings.HasPrefix(msg, "linalg: "+c.name+": ") {
				t.Errorf("%s%v with operand %d of shape %s: the panic is %q", c.name, c.shapes, wrong/2, want, msg)
			}
		}
	}
}

func TestWrongArgumentsPanicWithAMessageThatContainsThem(t *testing.T) {
	m := func(r, c int) Matrix[float64] { return New[float64](r, c) }
	x := make([]float64, 4)
	for want, f := range map[string]func(){
		"blocks of 2 rows":        func() { TransposeBlocks(m(3, 2), m(3, 2), 2) },
		"blocks of 0 rows":        func() { TransposeBlocks(m(3, 2), m(3, 2), 0) },
		"2, 4, 4 and 4":           func() { Adamax(x[:2], x[:4], x[:4], x[:4], 0.9, 0.999, 1, 0) },
		"4, 2, 4 and 4":           func() { Adamax(x[:4], x[:2], x[:4], x[:4], 0.9, 0.999, 1, 0) },
		"4, 4, 2 and 4":           func() { Adamax(x[:4], x[:4], x[:2], x[:4], 0.9, 0.999, 1, 0) },
		"4, 4, 4 and 2":           func() { Adamax(x[:4], x[:4], x[:4], x[:2], 0.9, 0.999, 1, 0) },
		"RowRange(1, 5)":          func() { m(3, 2).RowRange(1, 5) },
		"RowRange(-1, 2)":         func() { m(3, 2).RowRange(-1, 2) },
		"RowRange(2, 1)":          func() { m(3, 2).RowRange(2, 1) },
		"3 elements cannot be":    func() { Of(2, 2, x[:3]) },
		"viewed as [-2×0]":        func() { Of(-2, 0, x[:0]) },
		"viewed as [0×-2]":        func() { Of(0, -2, x[:0]) },
		"New(-1, 2)":              func() { m(-1, 2) },
		"New(2, -1)":              func() { m(2, -1) },
		"sums of the rows of [4×": func() { AddSum(m(2, 1), m(4, 3)) },
		"to [4×1]":                func() { AddSum(m(4, 1), m(2, 3)) },
		"to [2×3]":                func() { AddSum(m(2, 3), m(2, 3)) },
		"cannot sum [2×3] to [3":  func() { Sum(m(3, 1), m(2, 3)) },
		"scratch has 5 elements":  func() { MatMulTB(m(2, 2), m(2, 3), m(2, 3), make([]float64, 5, 9)) },
	} {
		if msg := fmt.Sprint(recovered(f)); !strings.HasPrefix(msg, "linalg: ") || !strings.Contains(msg, want) {
			t.Errorf("the message of the panic is %q, want it to contain %q", msg, want)
		}
	}
}

func TestVectorsNamesTheKernelsInUse(t *testing.T) {
	name, err := Vectors()
	// An iteration performs a multiply-add (two operations) in each lane of 12 vectors (amd64) or 24 vectors (arm64).
	want := map[string]int{"none": 0, "avx2": 2 * 8 * 12, "avx512": 2 * 16 * 12, "neon": 2 * 4 * 24}[name]
	if n := PeakLoop(3); err != nil || n != 3*want {
		t.Errorf("Vectors() = %s, %v; PeakLoop(3) = %d, want %d", name, err, n, 3*want)
	}
}
