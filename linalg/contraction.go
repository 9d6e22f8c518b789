package linalg

import "hvae/linalg/internal/kernel"

// A Contraction is the one loop nest behind dense layers, convolutions and all their
// gradients: a sum of products of matrices that are blocks of larger ones,
//
//	C_g [Rows×Cols] = Bias + Σ_s A_s [Rows×Steps] · B_{s,g} [Steps×Cols],
//
// for each group g < Groups and over the segments s. Its fields and their layout are
// described in internal/kernel/contraction.go; its method Run computes it on the calling
// goroutine and panics if an operand is too short.
type Contraction[T Float] = kernel.Contraction[T]

// A Segment says where A_s and B_{s,0} of a Contraction begin.
type Segment = kernel.Segment
