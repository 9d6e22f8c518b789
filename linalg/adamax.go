package linalg

import "fmt"

// adamaxGrain is how many parameters outweigh starting a goroutine.
const adamaxGrain = 1 << 15

// Adamax moves parameters p and averages m and u by a step of that optimiser (Kingma and
// Ba, 2014, algorithm 2) for the gradient g, all of one shape:
//
//	m ← β₁m + (1 − β₁)g,   u ← max(β₂u, |g|),   p ← p + rate·m/(u + ε).
func Adamax[T Float](p, m, u, g Matrix[T], beta1, beta2, rate, epsilon T) {
	if p.Shape() != m.Shape() || p.Shape() != u.Shape() || p.Shape() != g.Shape() {
		panic(fmt.Sprintf("linalg: Adamax: shapes %v, %v, %v and %v differ", p.Shape(), m.Shape(), u.Shape(), g.Shape()))
	}
	n := len(p.Data)
	if Serial(n, adamaxGrain) {
		adamax(p.Data, m.Data, u.Data, g.Data, beta1, beta2, rate, epsilon)
		return
	}
	For(n, adamaxGrain, func(lo, hi int) {
		adamax(p.Data[lo:hi], m.Data[lo:hi], u.Data[lo:hi], g.Data[lo:hi], beta1, beta2, rate, epsilon)
	})
}

func adamax[T Float](p, m, u, g []T, beta1, beta2, rate, epsilon T) {
	if vectors(p) {
		vectorAdamax(single(p), single(m), single(u), single(g), len(p), float32(beta1), float32(1-beta1), float32(beta2), float32(rate), float32(epsilon))
		return
	}
	m, u, g = m[:len(p)], u[:len(p)], g[:len(p)]
	for i := range p {
		m[i] = beta1*m[i] + (1-beta1)*g[i]
		u[i] = max(beta2*u[i], g[i], -g[i])
		p[i] += rate * m[i] / (u[i] + epsilon)
	}
}
