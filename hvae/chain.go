package hvae

// A Kernel is a step of the Markov chain of section 2.2: a forward kernel q^k(z_k|z_{k−1})
// with the reverse kernel r^{k−1}(z_{k−1}|z_k) chosen for it. A value of type S is the state
// of B chains side by side, such as a matrix or a Phase.
//
// Forward draws z_k given z_{k−1}, Reverse z_{k−1} given z_k. Both add to logRatio [B]
//
//	log r^{k−1}(z_{k−1}|z_k) − log q^k(z_k|z_{k−1}),
//
// which can exist where neither density does. For a map z_k = Φ(z_{k−1}) and its inverse it is
// log |det ∇Φ|; for a kernel that leaves p^k invariant and its reversal it is
// log p^k(z_{k−1}) − log p^k(z_k).
type Kernel[S any] interface {
	Forward(z S, logRatio []float64) S
	Reverse(z S, logRatio []float64) S
}

// A Chain estimates the evidence by importance sampling of a whole Markov chain (equation 3,
// eq:generalizedJarzynski),
//
//	p̂_θ(x) = p_θ(x, z_K) Π_k r^{k−1}(z_{k−1}|z_k) / q⁰(z₀) Π_k q^k(z_k|z_{k−1}).
type Chain[S any] struct {
	Kernels  []Kernel[S]         // k = 1, …, K
	LogPrior func(z S) []float64 // log q⁰(z) of each of the B chains
	LogJoint func(z S) []float64 // log p_θ(x, z)
}

// Forward runs the chains from z₀ ~ q⁰ and returns z_K and log p̂_θ(x) of each chain [B]. As
// E[p̂] = p_θ(x), log p̂ is at most log p_θ(x) in expectation.
func (c Chain[S]) Forward(z0 S) (zK S, logEstimates []float64) {
	logPrior := c.LogPrior(z0)
	logEstimates = make([]float64, len(logPrior))
	addScaled(logEstimates, -1, logPrior)
	z := z0
	for _, k := range c.Kernels {
		z = k.Forward(z, logEstimates)
	}
	addScaled(logEstimates, 1, c.LogJoint(z))
	return z, logEstimates
}

// Reverse runs the reverse kernels from z_K, a draw of the posterior p_θ(z|x), and returns z₀
// and log p̂_θ(x) of each chain [B]. As E[1/p̂] = 1/p_θ(x), log p̂ is at least log p_θ(x) in
// expectation (bidirectional Monte Carlo: Grosse, Ghahramani and Adams, 2015).
func (c Chain[S]) Reverse(zK S) (z0 S, logEstimates []float64) {
	logJoint := c.LogJoint(zK)
	logEstimates = make([]float64, len(logJoint))
	addScaled(logEstimates, 1, logJoint)
	z := zK
	for k := len(c.Kernels) - 1; k >= 0; k-- {
		z = c.Kernels[k].Reverse(z, logEstimates)
	}
	addScaled(logEstimates, -1, c.LogPrior(z))
	return z, logEstimates
}

// addScaled adds s·x to y.
func addScaled(y []float64, s float64, x []float64) {
	for i, v := range x {
		y[i] += s * v
	}
}
