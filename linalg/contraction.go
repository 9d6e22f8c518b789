package linalg

import "hvae/linalg/internal/kernel"

// A Contraction is the loop nest behind dense layers, convolutions and all their gradients: a
// sum of matrix products. Its fields are described in internal/kernel/contraction.go. Its
// method Run computes it on the calling goroutine and panics if an operand is too short.
type Contraction[T Float] = kernel.Contraction[T]

// A Segment has the indices of the first elements of A_s and B_{s,0} of a Contraction.
type Segment = kernel.Segment
