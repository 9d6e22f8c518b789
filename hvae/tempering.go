package hvae

import (
	"fmt"

	"hvae/ad"
	"hvae/linalg"
)

// A Schedule is a tempering schedule of K steps: after leapfrog step k the momentum is
// multiplied by α_k ∈ (0, 1), so that a flow that starts hot, with momentum of inverse
// temperature β₀ = Π α_k², ends at temperature one. The zero value does not temper:
// α_k = 1 and β₀ = 1.
type Schedule[T linalg.Float] struct {
	alpha        *ad.Var[T] // α_1 … α_K, [K×1]; nil for all ones
	invSqrtBeta0 *ad.Var[T] // 1/√β₀, [1×1]; nil for one
}

// FixedTempering returns the fixed schedule of Algorithm 1 for 1/√β₀ [1×1], which is
// quadratic in 1/√β:
//
//	1/√β_k = (1 − 1/√β₀)·k²/K² + 1/√β₀,   α_k = √(β_{k−1}/β_k).
//
// For K = 0, where β₀ = β_K = 1, it is the zero Schedule.
func FixedTempering[T linalg.Float](invSqrtBeta0 *ad.Var[T], K int) Schedule[T] {
	if K == 0 {
		return Schedule[T]{}
	}
	t := invSqrtBeta0.Tape()
	rest, done := t.Matrix(K+1, 1), t.Matrix(K+1, 1) // 1 − k²/K² and k²/K²
	for k := range K + 1 {
		done.Data[k] = T(k*k) / T(K*K)
		rest.Data[k] = 1 - done.Data[k]
	}
	invSqrtBeta := ad.MulAdd(t.Const(rest), invSqrtBeta0, t.Const(done))
	return Schedule[T]{
		alpha:        ad.Div(ad.RowRange(invSqrtBeta, 1, K+1), ad.RowRange(invSqrtBeta, 0, K)),
		invSqrtBeta0: invSqrtBeta0,
	}
}

// FreeTempering returns the schedule whose α_1 … α_K [K×1] are all free, with
// β₀ = Π α_k².
func FreeTempering[T linalg.Float](alpha *ad.Var[T]) Schedule[T] {
	return Schedule[T]{
		alpha:        alpha,
		invSqrtBeta0: ad.Exp(ad.Neg(ad.Sum(ad.Log(alpha)))),
	}
}

// InvSqrtBeta0 returns 1/√β₀, or one for a schedule that does not temper.
func (s Schedule[T]) InvSqrtBeta0() T {
	if s.invSqrtBeta0 == nil {
		return 1
	}
	return s.invSqrtBeta0.Scalar()
}

// Alpha returns α_1 … α_K, or nil for a schedule that does not temper.
func (s Schedule[T]) Alpha() []T {
	if s.alpha == nil {
		return nil
	}
	return s.alpha.Value.Data
}

// at returns α_k [1×1] for 1 ≤ k ≤ K.
func (s Schedule[T]) at(k int) *ad.Var[T] { return ad.RowRange(s.alpha, k-1, k) }

// mustHave panics unless the schedule has K steps.
func (s Schedule[T]) mustHave(K int) {
	if s.alpha != nil && s.alpha.Value.Shape() != (linalg.Shape{Rows: K, Cols: 1}) {
		panic(fmt.Sprintf("hvae: a tempering schedule %v for a flow of %d steps, which needs [%d×1]", s.alpha.Value.Shape(), K, K))
	}
}
