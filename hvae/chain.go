package hvae

import "slices"

// A Kernel is step k of the Markov chain of section 2.2. It has a forward kernel
// q^k(z_k|z_{k−1}) and a reverse kernel r^{k−1}(z_{k−1}|z_k). A value of type S holds the states
// of B parallel chains, for example a matrix or a Phase.
//
// Forward draws z_k given z_{k−1}, and Reverse draws z_{k−1} given z_k. Both add
//
//	log r^{k−1}(z_{k−1}|z_k) − log q^k(z_k|z_{k−1})
//
// to logRatio [B]. The ratio can exist even if the densities do not. It is log |det ∇Φ| for a
// map z_k = Φ(z_{k−1}) and its inverse. It is log p^k(z_{k−1}) − log p^k(z_k) for a kernel that
// leaves p^k invariant and its reversal.
type Kernel[S any] interface {
	Forward(z S, logRatio []float64) S
	Reverse(z S, logRatio []float64) S
}

// A Chain estimates the evidence by importance sampling of whole Markov chains (equation 3,
// eq:generalizedJarzynski):
//
//	p̂_θ(x) = p_θ(x, z_K) Π_k r^{k−1}(z_{k−1}|z_k) / q⁰(z₀) Π_k q^k(z_k|z_{k−1}).
type Chain[S any] struct {
	Kernels  []Kernel[S]         // k = 1, …, K
	LogPrior func(z S) []float64 // log q⁰(z) [B]
	LogJoint func(z S) []float64 // log p_θ(x, z) [B]
}

// Forward runs the chains from z₀ ~ q⁰ and returns z_K and log p̂_θ(x) [B]. Because
// E[p̂_θ(x)] = p_θ(x), the expectation of log p̂_θ(x) is at most log p_θ(x).
func (c Chain[S]) Forward(z0 S) (zK S, logEstimates []float64) {
	logPrior := c.LogPrior(z0)
	logEstimates = addScaled(make([]float64, len(logPrior)), -1, logPrior)
	zK = z0
	for _, k := range c.Kernels {
		zK = k.Forward(zK, logEstimates)
	}
	return zK, addScaled(logEstimates, 1, c.LogJoint(zK))
}

// Reverse runs the reverse kernels from draws z_K of the posterior p_θ(z|x), and returns z₀ and
// log p̂_θ(x) [B]. Because E[1/p̂_θ(x)] = 1/p_θ(x), the expectation of log p̂_θ(x) is at least
// log p_θ(x) (bidirectional Monte Carlo: Grosse, Ghahramani and Adams, 2015).
func (c Chain[S]) Reverse(zK S) (z0 S, logEstimates []float64) {
	logEstimates = slices.Clone(c.LogJoint(zK))
	z0 = zK
	for _, k := range slices.Backward(c.Kernels) {
		z0 = k.Reverse(z0, logEstimates)
	}
	return z0, addScaled(logEstimates, -1, c.LogPrior(z0))
}

// addScaled adds s·x to y and returns y.
func addScaled(y []float64, s float64, x []float64) []float64 {
	for i, v := range x {
		y[i] += s * v
	}
	return y
}
