package hvae

import (
	"math"

	"hvae/ad"
	"hvae/linalg"
)

// A Param is a named parameter. Between steps of a Trainer, programs may change the elements of Value.
type Param[T linalg.Float] struct {
	Name  string
	Value linalg.Matrix[T]
}

// Params is a list of parameters. The zero value is an empty list.
type Params[T linalg.Float] []*Param[T]

// Add appends a parameter with the given name, whose value is a copy of start, and returns the new parameter.
func (ps *Params[T]) Add(name string, start linalg.Matrix[T]) *Param[T] {
	p := &Param[T]{Name: name, Value: start.Clone()}
	*ps = append(*ps, p)
	return p
}

// Constrain maps each element x ∈ ℝ of an unconstrained parameter to the interval (lo, hi):
//
//	lo + (hi − lo)·sigmoid(x),   or   lo + exp(x) if hi is +Inf.
//
// By rounding, an end can be reached, for example if |x| > 37 (17 in float32), but not exceeded. Constrain panics
// unless lo is finite and lo < hi. Use (0, 1) for α_k, (1, ∞) for 1/√β₀ and (0, ∞) for standard deviations. Leapfrog
// steps silently diverge if ε > 2/ω, where ω² is the largest curvature of the potential. So use (0, s/2) for ε, and at
// most s/5 at the start, where s is the posterior's smallest standard deviation (1/ω if the posterior is normal). For
// latent variables with bounded support, use Bounded, which also returns the log Jacobian.
func Constrain[T linalg.Float](x *ad.Var[T], lo, hi float64) *ad.Var[T] {
	if !(lo < hi) || math.IsInf(lo, -1) {
		misuse("Constrain: the interval is (%v, %v); lo must be finite and less than hi", lo, hi)
	}
	if math.IsInf(hi, 1) {
		return ad.AddConst(ad.Exp(x), T(lo))
	}
	width := T(hi - lo)
	for shrink := T(1e-17); T(lo)+width > T(hi); shrink *= 2 { // the sum can exceed hi by rounding
		width *= 1 - shrink
	}
	return ad.AddConst(ad.Scale(ad.Sigmoid(x), width), T(lo))
}

// Unconstrain returns the initial value x that Constrain maps to v. It panics unless lo < v < hi.
func Unconstrain(v, lo, hi float64) float64 {
	if !(lo < v && v < hi) || math.IsInf(lo, -1) {
		misuse("Unconstrain: %v is not in the interval (%v, %v), or the interval has no lower end", v, lo, hi)
	}
	if math.IsInf(hi, 1) {
		return math.Log(v - lo)
	}
	p := (v - lo) / (hi - lo)
	return math.Log(p) - math.Log1p(-p) // the inverse of the sigmoid function
}

// Bounded maps each element of y ∈ ℝ [ℓ×B] to v in the interval (lo, hi), as Constrain does. It also returns the log
// Jacobian Σ_j log dv_j/dy_j [1×B]. This turns a variable v with bounded support into an unbounded latent variable y:
// if LogJoint(y) returns log p_θ(x, v) plus the log Jacobian, the evidence does not change.
func Bounded[T linalg.Float](y *ad.Var[T], lo, hi float64) (v, logJacobian *ad.Var[T]) {
	slope := y // log dv/dy for v = lo + exp(y)
	if !math.IsInf(hi, 1) {
		// log sigmoid(y) + log sigmoid(−y), which are −softplus(−y) and −y − softplus(−y)
		slope = ad.Sub(ad.Neg(y), ad.Scale(ad.Softplus(ad.Neg(y)), 2))
		slope = ad.AddConst(slope, T(math.Log(hi-lo)))
	}
	return Constrain(y, lo, hi), ad.SumTo(slope, 1, y.Cols())
}
