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

func TestMismatchedShapesPanicWithAMessageThatContainsThem(t *testing.T) {
	m := func(r, c int) Matrix[float64] { return New[float64](r, c) }
	x := make([]float64, 4)
	for name, f := range map[string]func(){
		"[2×3] and [3×2]":          func() { Add(m(2, 3), m(2, 3), m(3, 2)) },
		"Sub: operands [2×3]":      func() { Sub(m(2, 2), m(2, 3), m(2, 1)) },
		"Div: operands [2×3]":      func() { Div(m(2, 2), m(2, 3), m(2, 1)) },
		"to [5×5]":                 func() { Mul(m(5, 5), m(2, 3), m(2, 3)) },
		"[2×3], [2×1], [4×3]":      func() { MulAdd(m(2, 3), m(2, 3), m(2, 1), m(4, 3)) },
		"cannot sum [2×3] to [3":   func() { Sum(m(3, 1), m(2, 3)) },
		"[2×3] and [2×1] to [2×":   func() { MulSum(m(2, 2), m(2, 3), m(2, 1)) },
		"[2×3] · [2×3]":            func() { MatMul(m(2, 3), m(2, 3), m(2, 3)) },
		"[2×3]ᵀ · [3×3]":           func() { MatMulTA(m(3, 3), m(2, 3), m(3, 3)) },
		"[2×3] · [2×2]ᵀ":           func() { MatMulTB(m(2, 2), m(2, 3), m(2, 2), nil) },
		"· [3×2] + [3×1] does":     func() { Affine(m(2, 2), m(2, 3), m(3, 2), m(3, 1)) },
		"Affine: [2×3] · [3×2]":    func() { Affine(m(2, 3), m(2, 3), m(3, 2), m(2, 1)) },
		"does not give [2×3]":      func() { MatMul(m(2, 3), m(2, 3), m(3, 2)) },
		"MatMulTB: [2×3] · [4×":    func() { AddMatMulTB(m(2, 3), m(2, 3), m(4, 3), make([]float64, 12)) },
		"blocks of 2 rows":         func() { TransposeBlocks(m(3, 2), m(3, 2), 2) },
		"blocks of 0 rows":         func() { TransposeBlocks(m(3, 2), m(3, 2), 0) },
		"transposes in [2×3]":      func() { TransposeBlocks(m(2, 3), m(3, 2), 1) },
		"4, 2, 4 and 4":            func() { Adamax(x[:4], x[:2], x[:4], x[:4], 0.9, 0.999, 1, 0) },
		"4, 4, 2 and 4":            func() { Adamax(x[:4], x[:4], x[:2], x[:4], 0.9, 0.999, 1, 0) },
		"4, 4, 4 and 2":            func() { Adamax(x[:4], x[:4], x[:4], x[:2], 0.9, 0.999, 1, 0) },
		"operand is [2×2]":         func() { Exp(m(2, 3), m(2, 2)) },
		"RowRange(1, 5)":           func() { m(3, 2).RowRange(1, 5) },
		"viewed as [2×2]":          func() { Of(2, 2, []float64{1, 2, 3}) },
		"New(-1, 2)":               func() { m(-1, 2) },
		"Copy: [2×3]":              func() { Copy(m(2, 2), m(2, 3)) },
		"rows of [2×3] to [3×1]":   func() { AddSum(m(3, 1), m(2, 3)) },
		"[2×3] to [2×2]":           func() { AddMulSum(m(2, 2), m(2, 3), m(2, 3)) },
		"[2×3] and [2×1] to [2×1]": func() { AddMulSum(m(2, 1), m(2, 3), m(2, 1)) },
	} {
		func() {
			defer func() {
				if msg := fmt.Sprint(recover()); !strings.Contains(msg, name) {
					t.Errorf("the message of the panic is %q, want it to contain %q", msg, name)
				}
			}()
			f()
		}()
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
