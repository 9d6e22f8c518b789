package kernel

import "fmt"

// A Contraction computes sums of products of matrices; see linalg.Contraction.
type Contraction[T Float] struct {
	Rows, Cols, Steps, Groups int

	C                    []T // element (i, j) of C_g is C[CStart + g·CGroup + i·CRow + j]
	CStart, CRow, CGroup int

	A           []T // element (i, p) of A_s is A[Segments[s].A + i·ARow + p·AStep]
	ARow, AStep int

	B             []T // element (p, j) of B_{s,g} is B[Segments[s].B + g·BGroup + p·BStep + j]
	BStep, BGroup int

	Segments []Segment

	Bias []T  // one element for each row of C; nil for zero
	Add  bool // whether the result is added to C instead of replacing C

	continues bool // whether the sums start with the partial sums in C; only in blocks
}

// A Segment is described in package linalg. The assembly relies on its layout.
type Segment = struct{ A, B int }

// Run computes the contraction on the calling goroutine. It panics if an operand is too short, or if an index or a
// stride is negative.
func (c *Contraction[T]) Run() {
	if min(c.Rows, c.Cols, c.Groups) <= 0 {
		return
	}
	c.check()
	if simd32[T]() && c.Steps > 0 && len(c.Segments) > 0 {
		c.blocks()
	} else {
		c.plain()
	}
}

func (c *Contraction[T]) check() {
	lastA, lastB := 0, 0
	for _, s := range c.Segments {
		if s.A < 0 || s.B < 0 {
			panic(fmt.Sprintf("linalg: Contraction: segment %+v has a negative index", s))
		}
		lastA, lastB = max(lastA, s.A), max(lastB, s.B)
	}
	lastC := c.CStart + (c.Groups-1)*c.CGroup + (c.Rows-1)*c.CRow + c.Cols - 1
	lastA += (c.Rows-1)*c.ARow + (c.Steps-1)*c.AStep
	lastB += (c.Groups-1)*c.BGroup + (c.Steps-1)*c.BStep + c.Cols - 1
	negative := min(c.CStart, c.CRow, c.CGroup, c.ARow, c.AStep, c.BStep, c.BGroup) < 0
	short := lastC >= len(c.C) || c.Bias != nil && len(c.Bias) < c.Rows
	if c.Steps > 0 && len(c.Segments) > 0 {
		short = short || lastA >= len(c.A) || lastB >= len(c.B)
	}
	if negative || short {
		panic(fmt.Sprintf("linalg: Contraction: an operand is too short or a stride is negative: "+
			"%d groups [%d×%d], %d steps, %d segments; C has %d elements, A has %d, B has %d, and the bias has %d",
			c.Groups, c.Rows, c.Cols, c.Steps, len(c.Segments), len(c.C), len(c.A), len(c.B), len(c.Bias)))
	}
}

// plain computes the contraction in plain Go. It computes up to 64 elements of a row of C at a time.
func (c *Contraction[T]) plain() {
	var sums [64]T
	for g := range c.Groups {
		for i := range c.Rows {
			var bias T
			if c.Bias != nil {
				bias = c.Bias[i]
			}
			for lo := 0; lo < c.Cols; lo += len(sums) {
				y := sums[:min(len(sums), c.Cols-lo)]
				for j := range y {
					y[j] = bias
				}
				for _, s := range c.Segments {
					if c.Steps > 0 {
						AddMulRows(y, c.A[s.A+i*c.ARow:], c.AStep, 0, c.B[s.B+g*c.BGroup+lo:], c.BStep, c.Steps)
					}
				}
				out := c.C[c.CStart+g*c.CGroup+i*c.CRow+lo:][:len(y)]
				if c.Add {
					Add(out, out, y)
				} else {
					copy(out, y)
				}
			}
		}
	}
}
