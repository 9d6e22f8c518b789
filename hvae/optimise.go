package hvae

import (
	"math"

	"hvae/linalg"
)

// An Optimiser climbs an objective along stochastic gradients: the lines UpdateTheta and
// UpdatePhi of Algorithm 2. The caller keeps the state of a run: its step and averages.
type Optimiser[T linalg.Float] interface {
	// Start returns the value of the elements of each running average before the first step.
	Start() []T
	// Ascend takes a step, from number 1: it moves theta [n] to increase an objective with
	// the given gradient [n], and updates the averages, each [n].
	Ascend(step int, theta, gradient []T, averages [][]T)
}

// RMSProp divides the gradient by its running root mean square (Tieleman and Hinton, lecture
// 6.5, 2012), in the form of TensorFlow 1's ApplyRMSProp without momentum:
//
//	v ← decay·v + (1 − decay)·g²,   θ ← θ + rate·g/√(v + ε).
//
// v starts at 1, as in TensorFlow, which keeps the first steps short.
type RMSProp[T linalg.Float] struct{ Rate, Decay, Epsilon T }

// NewRMSProp returns RMSProp with TensorFlow 1's constants, decay = 0.9 and ε = 1e-10.
func NewRMSProp[T linalg.Float](rate T) *RMSProp[T] { return &RMSProp[T]{rate, 0.9, 1e-10} }

// Start implements Optimiser.
func (*RMSProp[T]) Start() []T { return []T{1} }

// Ascend implements Optimiser.
func (o *RMSProp[T]) Ascend(_ int, theta, gradient []T, averages [][]T) {
	g, v := gradient[:len(theta)], averages[0][:len(theta)]
	for j := range theta {
		v[j] = o.Decay*v[j] + (1-o.Decay)*g[j]*g[j]
		theta[j] += o.Rate * g[j] / T(math.Sqrt(float64(v[j]+o.Epsilon)))
	}
}

// Adamax is the variant of Adam with the infinity norm (Kingma and Ba, 2014, algorithm 2):
//
//	m ← β₁m + (1 − β₁)g,   u ← max(β₂u, |g|),   θ ← θ + rate/(1 − β₁ᵗ)·m/(u + ε).
//
// Epsilon keeps a parameter in its place if all its gradients have been zero.
type Adamax[T linalg.Float] struct {
	Rate, Beta1, Beta2, Epsilon T

	// The step that runs; the body of its loop, made once, so that a step does not allocate.
	theta, gradient, mean, norm linalg.Matrix[T]
	rate                        T
	body                        func(lo, hi int)
}

// NewAdamax returns Adamax with the constants of its paper, β₁ = 0.9 and β₂ = 0.999.
func NewAdamax[T linalg.Float](rate T) *Adamax[T] {
	return &Adamax[T]{Rate: rate, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8}
}

// Start implements Optimiser.
func (*Adamax[T]) Start() []T { return []T{0, 0} }

// Ascend implements Optimiser.
func (o *Adamax[T]) Ascend(step int, theta, gradient []T, averages [][]T) {
	o.theta, o.gradient = linalg.Column(theta...), linalg.Column(gradient...)
	o.mean, o.norm = linalg.Column(averages[0]...), linalg.Column(averages[1]...)
	o.rate = o.Rate / T(1-math.Pow(float64(o.Beta1), float64(step)))
	if o.body == nil {
		o.body = func(lo, hi int) {
			linalg.Adamax(o.theta.RowRange(lo, hi), o.mean.RowRange(lo, hi), o.norm.RowRange(lo, hi), o.gradient.RowRange(lo, hi),
				o.Beta1, o.Beta2, o.rate, o.Epsilon)
		}
	}
	linalg.For(len(theta), grain, o.body)
}

// grain is the number of elements of θ that outweigh starting a goroutine.
const grain = 1 << 15
