package linalg

import "hvae/linalg/internal/kernel"

// A Contraction is a sum of products of matrices. Dense layers, convolutions and their gradients are
// contractions. The fields are documented in internal/kernel/contraction.go. The method Run computes
// the contraction on the calling goroutine. It panics if an operand is too short, an index is negative,
// or a stride other than CGroup is negative.
type Contraction[T Float] = kernel.Contraction[T]

// A Segment describes a term A_s·B_s of a Contraction. It holds the indices at which the matrices A_s
// and B_s start in the slices A and B.
type Segment = kernel.Segment
