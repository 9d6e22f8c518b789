package linalg

import "hvae/linalg/internal/kernel"

// A Contraction is a sum of matrix products. Dense layers, convolutions and all their
// gradients are contractions. Package internal/kernel describes its fields. The method Run
// computes it on the calling goroutine and panics if an operand is too short, an index is
// negative, or a stride other than CGroup is negative.
type Contraction[T Float] = kernel.Contraction[T]

// A Segment holds the indices at which the matrices A_s and B_{s,0} of one term s of a Contraction
// start in its slices A and B.
type Segment = kernel.Segment
