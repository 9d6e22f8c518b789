package hvae

import (
	"math"

	"hvae/ad"
	"hvae/linalg"
)

// A Tempering holds the factors α_k by which a flow multiplies the momentum after each leapfrog step, and the standard
// deviation s of the initial momentum ρ₀ = s·γ₀. The zero value means no tempering: α_k = 1, s = 1. Tempering helps if
// the posterior is far from q⁰ or has several modes. A good start of the whole flow is s = Π 1/α_k = 1/√β₀ from 1.2 to
// 2, so α_k = 1.5^(−1/K) for any K. For comparison, α_k = 0.9 means s = 1.7 for K = 5, but 8.2 for K = 20.
//
// The paper ties s to the α_k: s = 1/√β₀ and Π α_k = √β₀ < 1 (FixedTempering, FreeTempering). The flow then multiplies
// volumes by Π α_k^ℓ = s^−ℓ, so the entropy H is constant: H(z_K, ρ_K) = H(q⁰) + H(N(0, I)). A tied flow cannot narrow
// q⁰ without widening ρ_K. If the posterior is normal and ΔH = H(q⁰) − H(p_θ(z|x)), every tied flow, of any K, satisfies
//
//	log p_θ(x) − ELBO ≥ ℓ(exp(ΔH/ℓ) − 1) − ΔH.
//
// With UntiedTempering, s is free, and there is no such limit.
type Tempering[T linalg.Float] struct {
	alpha      *ad.Var[T] // α₁ … α_K, [K×1], or [K×ℓ] with one element per dimension; nil if α_k = 1
	momentumSD *ad.Var[T] // s, [1×1], or [1×ℓ] with one element per dimension; nil if s = 1
	untied     bool       // whether s·Π α_k may differ from 1
}

// FixedTempering returns the quadratic tempering of Algorithm 1 for K steps with the given 1/√β₀ ≥ 1 [1×1]:
//
//	1/√β_k = (1 − 1/√β₀)·k²/K² + 1/√β₀,   α_k = √(β_{k−1}/β_k).
//
// For K = 0, it returns no tempering, because β₀ = β_K = 1.
func FixedTempering[T linalg.Float](K int, invSqrtBeta0 *ad.Var[T]) Tempering[T] {
	mustBe("FixedTempering: 1/√β₀", invSqrtBeta0, 1, 1)
	mustBeFactors("FixedTempering", "1/√β₀, the momentum's standard deviation,", invSqrtBeta0, 1, T(math.Inf(1)))
	if K == 0 {
		return Tempering[T]{}
	}
	tape := invSqrtBeta0.Tape()
	rest, done := tape.Matrix(K+1, 1), tape.Matrix(K+1, 1) // 1 − k²/K² and k²/K²
	for k := range K + 1 {
		done.Data[k] = T(k*k) / T(K*K)
		rest.Data[k] = 1 - done.Data[k]
	}
	invSqrtBeta := ad.MulAdd(tape.Const(rest), invSqrtBeta0, tape.Const(done))
	alpha := ad.Div(ad.RowRange(invSqrtBeta, 1, K+1), ad.RowRange(invSqrtBeta, 0, K))
	return Tempering[T]{alpha: alpha, momentumSD: invSqrtBeta0}
}

// FreeTempering returns the tempering with the given α_k ∈ (0, 1], which is [K×1], or [K×ℓ] with one element
// per dimension. Then s = 1/√β₀ = Π 1/α_k.
func FreeTempering[T linalg.Float](alpha *ad.Var[T]) Tempering[T] {
	mustBeFactors("FreeTempering", "α", alpha, 0, 1)
	return Tempering[T]{alpha: alpha, momentumSD: ad.Exp(ad.Neg(ad.SumTo(ad.Log(alpha), 1, alpha.Cols())))}
}

// UntiedTempering returns the tempering with the given α_k > 0 and s > 0, which do not depend on each other. The
// shape of alpha is [K×1] or [K×ℓ], and the shape of momentumSD is [1×1] or [1×ℓ]. Training by the ELBO can make untied
// flows so narrow that they give a better ELBO but a worse estimate of the evidence (see ImportanceBound).
func UntiedTempering[T linalg.Float](alpha, momentumSD *ad.Var[T]) Tempering[T] {
	inf := T(math.Inf(1))
	mustBeFactors("UntiedTempering", "α", alpha, 0, inf)
	mustBeFactors("UntiedTempering", "s", momentumSD, 0, inf)
	if momentumSD.Rows() != 1 {
		misuse("UntiedTempering: s is %v; it must have one row", momentumSD.Value.Shape())
	}
	return Tempering[T]{alpha, momentumSD, true}
}

// mustBeFactors panics if v is nil, or if an element is less than smallest or greater than largest. It accepts NaN, and
// 0 if smallest is 0: these values occur if training diverges, and Trainer.Step then returns an error.
func mustBeFactors[T linalg.Float](function, name string, v *ad.Var[T], smallest, largest T) {
	if v == nil {
		misuse("%s: %s is nil", function, name)
	}
	for _, x := range v.Value.Data {
		if x < smallest || x > largest {
			misuse("%s: %s contains %v; all elements must be in [%v, %v]", function, name, x, smallest, largest)
		}
	}
}

// Alpha returns α₁ … α_K, or nil without tempering.
func (t Tempering[T]) Alpha() *ad.Var[T] { return t.alpha }

// MomentumSD returns the standard deviation s of ρ₀, or nil without tempering.
func (t Tempering[T]) MomentumSD() *ad.Var[T] { return t.momentumSD }

// check panics unless t fits a flow of K steps in the given number of dimensions.
func (t Tempering[T]) check(K, dims int) {
	if t.alpha == nil {
		return
	}
	a, s := t.alpha.Value.Shape(), t.momentumSD.Cols()
	if a.Rows != K || a.Cols != 1 && a.Cols != dims || s != 1 && s != dims {
		misuse("α is %v and s is [1×%d] for a flow of K = %d steps and ℓ = %d dimensions; "+
			"α must be [%d×1] or [%d×%d], and s [1×1] or [1×%d]", a, s, K, dims, K, K, dims, dims)
	}
}
