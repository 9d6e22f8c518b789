package hvae

import (
	"math"

	"hvae/linalg"
)

// An Optimiser is a method of stochastic gradient ascent. It implements the lines UpdateTheta and UpdatePhi
// of Algorithm 2. The caller stores the state, which consists of the step number and running averages.
type Optimiser[T linalg.Float] interface {
	// Start returns, for each running average, the initial value of all its elements.
	Start() []T
	// Ascend updates the elements theta of one parameter and their running averages. The slices
	// theta, gradient and averages[i] have the same length. Steps are numbered from 1.
	Ascend(step int, theta, gradient []T, averages [][]T)
}

// Adamax is the variant of Adam with the infinity norm (Kingma and Ba, 2014, algorithm 2):
//
//	m ← β₁m + (1 − β₁)g,   u ← max(β₂u, |g|),   θ ← θ + rate/(1 − β₁ᵗ)·m/(u + ε).
//
// Here t is the step number. Without ε, the update would be 0/0 = NaN for a parameter whose
// gradients are all zero. An Adamax is not safe for concurrent use.
type Adamax[T linalg.Float] struct {
	Rate, Beta1, Beta2, Epsilon T

	// The loop body of Ascend is created only once, because each new closure allocates memory. Ascend
	// passes its arguments to the body in the other fields.
	theta, gradient, mean, norm []T
	rate                        T
	body                        func(lo, hi int)
}

// NewAdamax returns Adamax with β₁ = 0.9, β₂ = 0.999 (Kingma and Ba, 2014) and ε = 1e-8.
func NewAdamax[T linalg.Float](rate T) *Adamax[T] {
	return &Adamax[T]{Rate: rate, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8}
}

// Start implements Optimiser.
func (*Adamax[T]) Start() []T { return []T{0, 0} }

// Ascend implements Optimiser.
func (o *Adamax[T]) Ascend(step int, theta, gradient []T, averages [][]T) {
	o.theta, o.gradient, o.mean, o.norm = theta, gradient, averages[0], averages[1]
	o.rate = o.Rate / T(1-math.Pow(float64(o.Beta1), float64(step)))
	if o.body == nil {
		o.body = func(lo, hi int) {
			linalg.Adamax(o.theta[lo:hi], o.mean[lo:hi], o.norm[lo:hi], o.gradient[lo:hi], o.Beta1, o.Beta2, o.rate, o.Epsilon)
		}
	}
	linalg.For(len(theta), grain, o.body)
}

// grain is the smallest number of parameter elements that is worth a separate goroutine.
const grain = 1 << 15
