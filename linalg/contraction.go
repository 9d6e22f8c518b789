package linalg

import "hvae/linalg/internal/kernel"

// A Contraction is a sum of products of matrices, which are parts of larger matrices:
//
//	C_g [Rows×Cols] = Bias + Σ_s A_s [Rows×Steps] · B_{s,g} [Steps×Cols]
//
// for each group g with 0 ≤ g < Groups, where s runs over the segments. Dense layers, convolutions
// and their gradients have this form. A dense layer has one segment and one group. In a convolution,
// the groups are neighbouring pixels of the result, which share the weights A, and the segments are parts
// of the convolution kernel. In the gradient of its weights, the groups are rows of the convolution kernel,
// and the segments are pixels.
//
// The terms of each element of C are added in a fixed order: the bias, then the products in the order
// of the segments and, within a segment, of the steps. If Add is set, the complete sum is then added to the
// old element. The bits of C therefore depend neither on the division of C into tiles nor on the vector
// width.
type Contraction[T Float] struct {
	Rows, Cols, Steps, Groups int

	C                    []T // element (i, j) of C_g is C[CStart + g·CGroup + i·CRow + j]
	CStart, CRow, CGroup int // only CGroup may be negative

	A           []T // element (i, p) of A_s is A[Segments[s].A + i·ARow + p·AStep]
	ARow, AStep int

	B             []T // element (p, j) of B_{s,g} is B[Segments[s].B + g·BGroup + p·BStep + j]
	BStep, BGroup int

	Segments []Segment

	Bias []T  // one number for each row of C; nil for zero
	Add  bool // whether the result is added to C instead of replacing C
}

// A Segment of a Contraction holds the indices at which A_s and B_{s,0} start in the slices A and B.
type Segment = struct{ A, B int }

// Run computes the contraction on the calling goroutine. It panics if an operand is too short, an
// index is negative, or a stride other than CGroup is negative.
func (c *Contraction[T]) Run() { (*kernel.Contraction[T])(c).Run() }
