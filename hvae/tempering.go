package hvae

import (
	"slices"

	"hvae/ad"
	"hvae/linalg"
)

// A Tempering holds the factors α_k by which a flow multiplies the momentum after each leapfrog step, and the standard
// deviation s of the initial momentum ρ₀ = s·γ₀. The zero value means no tempering: α_k = 1 and s = 1. Tempering helps
// paths to reach a posterior that is far from q⁰ or has several modes, so estimates of the evidence miss less, but it
// may lower the ELBO. Start with s = Π 1/α_k between 1.2 and 2, for example 1.5. For K = 20, α_k = 0.9 gives 8.2.
//
// The paper ties s to the α_k: s = 1/√β₀ and Π α_k = √β₀ < 1 (FixedTempering, FreeTempering). README.md explains how
// this limits the ELBO. With UntiedTempering, s is free, and there is no such limit.
type Tempering[T linalg.Float] struct {
	Alpha      *ad.Var[T] // α₁ … α_K, [K×1], or [K×ℓ] with one element per dimension
	MomentumSD *ad.Var[T] // s, [1×1], or [1×ℓ] with one element per dimension
	tied       bool       // whether s·Π α_k = 1
}

// FixedTempering returns the quadratic tempering of Algorithm 1 for K steps with the given 1/√β₀ ≥ 1 [1×1]:
//
//	1/√β_k = (1 − 1/√β₀)·k²/K² + 1/√β₀,   α_k = √(β_{k−1}/β_k).
//
// For K = 0, it returns the zero value (no tempering), because β₀ = β_K = 1.
func FixedTempering[T linalg.Float](K int, invSqrtBeta0 *ad.Var[T]) Tempering[T] {
	if s := mustBe("FixedTempering: 1/√β₀", invSqrtBeta0, 1, 1).Scalar(); s < 1 {
		misuse("FixedTempering: 1/√β₀ is %v; it must be at least 1", s)
	}
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
	return Tempering[T]{alpha, invSqrtBeta0, true}
}

// FreeTempering returns the tempering with s = 1/√β₀ = Π 1/α_k. The matrix alpha [K×1] or [K×ℓ] holds the α_k ∈ (0, 1].
func FreeTempering[T linalg.Float](alpha *ad.Var[T]) Tempering[T] {
	mustNotBeNil("FreeTempering: α", alpha == nil)
	if slices.ContainsFunc(alpha.Value.Data, func(a T) bool { return a > 1 }) {
		misuse("FreeTempering: an element of α is greater than 1")
	}
	return Tempering[T]{alpha, ad.Exp(ad.Neg(ad.SumTo(ad.Log(alpha), 1, alpha.Cols()))), true}
}

// UntiedTempering returns the tempering with the given α_k > 0 and s > 0, which are independent of each other. The
// shape of alpha is [K×1] or [K×ℓ], and the shape of momentumSD is [1×1] or [1×ℓ]. If an element is 0 or negative, log
// p̂ is not finite. Training with the ELBO can make z_K too narrow to estimate the evidence; see ImportanceBound.
func UntiedTempering[T linalg.Float](alpha, momentumSD *ad.Var[T]) Tempering[T] {
	return Tempering[T]{Alpha: alpha, MomentumSD: momentumSD}
}
