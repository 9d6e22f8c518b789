package linalg

import "fmt"

// Adamax moves parameters p and averages m and u by a step of that optimiser (Kingma and
// Ba, 2014, algorithm 2) for the gradient g, all of one shape:
//
//	m ← β₁m + (1 − β₁)g,   u ← max(β₂u, |g|),   p ← p + rate·m/(u + ε).
//
// It runs on the calling goroutine.
func Adamax[T Float](p, m, u, g Matrix[T], beta1, beta2, rate, epsilon T) {
	if p.Shape() != m.Shape() || p.Shape() != u.Shape() || p.Shape() != g.Shape() {
		panic(fmt.Sprintf("linalg: Adamax: shapes %v, %v, %v and %v differ", p.Shape(), m.Shape(), u.Shape(), g.Shape()))
	}
	if vectors(p.Data) {
		n := len(p.Data)
		vectorAdamax(single(p.Data), single(m.Data[:n]), single(u.Data[:n]), single(g.Data[:n]), n, float32(beta1), float32(1-beta1), float32(beta2), float32(rate), float32(epsilon))
		return
	}
	for i, g := range g.Data {
		m.Data[i] = beta1*m.Data[i] + (1-beta1)*g
		u.Data[i] = max(beta2*u.Data[i], g, -g)
		p.Data[i] += rate * m.Data[i] / (u.Data[i] + epsilon)
	}
}
