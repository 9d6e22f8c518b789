package hvae

import (
	"math"

	"hvae/linalg"
)

// An Optimiser is a method of stochastic gradient ascent: UpdateTheta and UpdatePhi of Algorithm 2. To change the
// learning rate between steps, pass NewTrainer a pointer to an Adamax or RMSProp, and change its Rate.
type Optimiser[T linalg.Float] interface {
	// Ascend updates a parameter with n elements. The matrix averages [2×n] holds two running averages for each
	// element. A Trainer keeps them between steps; they are 0 before the first step. Steps are numbered from 1. Ascend
	// panics, and writes nothing, unless its learning rate is positive and finite.
	Ascend(step int, theta, gradient []T, averages linalg.Matrix[T])
}

// Adamax is the variant of Adam based on the infinity norm (Kingma and Ba, 2014, algorithm 2):
//
//	m ← β₁m + (1 − β₁)g,   u ← max(β₂u, |g|),   θ ← θ + rate/(1 − β₁ᵗ)·m/(u + ε).
//
// Here t is the step number, β₁ = 0.9, β₂ = 0.999 and ε = 1e-8. Without ε, zero gradients would give 0/0 = NaN.
type Adamax[T linalg.Float] struct{ Rate T }

// Ascend implements Optimiser.
func (o Adamax[T]) Ascend(step int, theta, gradient []T, averages linalg.Matrix[T]) {
	beta1, beta2, epsilon := T(0.9), T(0.999), T(1e-8)
	rate := mustBeRate(o.Rate) / T(1-math.Pow(float64(beta1), float64(step)))
	linalg.Adamax(theta, averages.Row(0), averages.Row(1), gradient, beta1, beta2, rate, epsilon)
}

// RMSProp divides the gradient by its running root mean square (Tieleman and Hinton, lecture 6.5, 2012), like
// ApplyRMSProp in TensorFlow 1 without momentum:
//
//	v ← 0.9v + 0.1g²,   θ ← θ + rate·g/√(v + 1e-10),   where v starts at 1.
type RMSProp[T linalg.Float] struct{ Rate T }

// Ascend implements Optimiser.
func (o RMSProp[T]) Ascend(step int, theta, gradient []T, averages linalg.Matrix[T]) {
	rate, decay, epsilon := mustBeRate(o.Rate), T(0.9), T(1e-10) // not constants, so that 1 − decay is rounded to T
	if step == 1 {
		averages.Fill(1) // v starts at 1
	}
	v := averages.Row(0)
	for j, g := range gradient {
		v[j] = decay*v[j] + (1-decay)*g*g + 1e-31 // never subnormal, which is slow; 10⁻³⁰ + 10⁻¹⁰ is rounded to 10⁻¹⁰
		theta[j] += rate * g / T(math.Sqrt(float64(v[j]+epsilon)))
	}
}

// mustBeRate returns rate. It panics unless rate is positive and finite.
func mustBeRate[T linalg.Float](rate T) T {
	if !(rate > 0) || infinite(float64(rate)) {
		misuse("the learning rate is %v; it must be positive and finite", rate)
	}
	return rate
}
