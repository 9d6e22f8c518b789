package hvae

import (
	"fmt"

	"hvae/ad"
	"hvae/linalg"
)

// A Tempering multiplies the momentum of a flow by α_k ∈ (0, 1) after leapfrog step k. The
// inverse temperature therefore increases from β₀ = Π α_k² < 1 to β_K = 1. FixedTempering sets only
// InvSqrtBeta0, FreeTempering sets only Alpha, and Schedule computes the other field. The zero value means
// no tempering, with α_k = 1 and β₀ = 1.
//
// Tempering helps if the posterior is far from the variational prior or has several modes.
// Good initial values are 1/√β₀ between 1.2 and 2, or α_k = 0.9.
type Tempering[T linalg.Float] struct {
	Alpha        *ad.Var[T] // α₁ … α_K, [K×1]
	InvSqrtBeta0 *ad.Var[T] // 1/√β₀, the standard deviation of ρ₀, [1×1]
}

// FixedTempering returns the quadratic tempering of Algorithm 1 with the given 1/√β₀ [1×1]:
//
//	1/√β_k = (1 − 1/√β₀)·k²/K² + 1/√β₀,   α_k = √(β_{k−1}/β_k).
func FixedTempering[T linalg.Float](invSqrtBeta0 *ad.Var[T]) Tempering[T] {
	if s := invSqrtBeta0.Value.Shape(); s != (linalg.Shape{Rows: 1, Cols: 1}) {
		panic(fmt.Sprintf("hvae: FixedTempering: 1/√β₀ is %v; it must be [1×1]", s))
	}
	return Tempering[T]{InvSqrtBeta0: invSqrtBeta0}
}

// FreeTempering returns the tempering with the given α = (α₁, …, α_K) [K×1]. Then β₀ = Π α_k².
func FreeTempering[T linalg.Float](alpha *ad.Var[T]) Tempering[T] { return Tempering[T]{Alpha: alpha} }

// Schedule returns a copy of t for a flow of K steps, with both fields set. It returns the zero value if t
// is the zero value. For K = 0, FixedTempering also gives the zero value, because β₀ = β_K = 1.
func (t Tempering[T]) Schedule(K int) Tempering[T] {
	switch {
	case t.Alpha != nil:
		if s, want := t.Alpha.Value.Shape(), (linalg.Shape{Rows: K, Cols: 1}); s != want {
			panic(fmt.Sprintf("hvae: FreeTempering: α is %v for a flow of K = %d steps; it must be %v", s, K, want))
		}
		return Tempering[T]{t.Alpha, ad.Exp(ad.Neg(ad.Sum(ad.Log(t.Alpha))))}
	case t.InvSqrtBeta0 == nil || K == 0:
		return Tempering[T]{}
	}
	tape := t.InvSqrtBeta0.Tape()
	rest, done := tape.Matrix(K+1, 1), tape.Matrix(K+1, 1) // 1 − k²/K² and k²/K²
	for k := range K + 1 {
		done.Data[k] = T(k*k) / T(K*K)
		rest.Data[k] = 1 - done.Data[k]
	}
	invSqrtBeta := ad.MulAdd(tape.Const(rest), t.InvSqrtBeta0, tape.Const(done))
	return Tempering[T]{ad.Div(ad.RowRange(invSqrtBeta, 1, K+1), ad.RowRange(invSqrtBeta, 0, K)), t.InvSqrtBeta0}
}
