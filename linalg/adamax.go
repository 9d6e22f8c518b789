package linalg

import (
	"fmt"

	"hvae/linalg/internal/kernel"
)

// Adamax performs a step of the optimiser Adamax (Kingma and Ba, 2014, algorithm 2) on
// parameters p with averages m and u and gradient g, all of the same shape:
//
//	m ← β₁m + (1 − β₁)g,   u ← max(β₂u, |g|),   p ← p + rate·m/(u + ε).
//
// It runs on the calling goroutine.
func Adamax[T Float](p, m, u, g Matrix[T], beta1, beta2, rate, epsilon T) {
	if p.Shape() != m.Shape() || p.Shape() != u.Shape() || p.Shape() != g.Shape() {
		panic(fmt.Sprintf("linalg: Adamax: shapes %v, %v, %v and %v differ", p.Shape(), m.Shape(), u.Shape(), g.Shape()))
	}
	kernel.Adamax(p.Data, m.Data, u.Data, g.Data, beta1, beta2, rate, epsilon)
}
