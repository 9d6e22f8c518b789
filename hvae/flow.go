package hvae

import (
	"fmt"

	"hvae/ad"
	"hvae/linalg"
)

// A Flow is the deterministic map H = Φ^K ∘ … ∘ Φ¹ of section 2.3, where Φ^k is a
// leapfrog step followed by the multiplication of the momentum by α_k.
type Flow[T linalg.Float] struct {
	Target    Target[T]
	K         int         // number of steps; with none, H is the identity
	StepSize  *ad.Var[T]  // ε: one row [1×ℓ] for all steps, or a row for each [K×ℓ]
	Tempering Schedule[T] // α and β₀

	// Recompute, if not nil, makes the memory of the flow independent of K.
	Recompute *Recompute[T]
}

// Forward returns (z_K, ρ_K) = H(z₀, ρ₀), with K+1 evaluations of ∇U, or none for
// K = 0.
func (f *Flow[T]) Forward(s Phase[T]) Phase[T] {
	f.check(s)
	var e stepSize[T]
	for k := 1; k <= f.K; k++ {
		if k == 1 || f.StepSize.Rows() > 1 {
			e = newStepSize(f.epsilon(k))
		}
		if r := f.Recompute; r != nil && r.Tape != nil {
			s = r.leapfrog(e, s)
		} else {
			s = leapfrog(f.Target, e, s)
		}
		if f.Tempering.alpha != nil {
			s.Rho = ad.Mul(f.Tempering.at(k), s.Rho)
		}
	}
	return s
}

// Inverse returns (z₀, ρ₀) = H⁻¹(z_K, ρ_K).
func (f *Flow[T]) Inverse(s Phase[T]) Phase[T] {
	f.check(s)
	for k := f.K; k >= 1; k-- {
		if f.Tempering.alpha != nil {
			s.Rho = ad.Div(s.Rho, f.Tempering.at(k))
		}
		s = LeapfrogInverse(f.Target, f.epsilon(k), s)
	}
	return s
}

// LogDet returns log |det ∇H| = log Π α_k^ℓ = (ℓ/2) log β₀ [1×1] for ℓ dimensions: the
// leapfrog steps have unit Jacobian, and tempering step k has α_k^ℓ.
func (f *Flow[T]) LogDet(tape *ad.Tape[T], dims int) *ad.Var[T] {
	if f.Tempering.invSqrtBeta0 == nil {
		return tape.Scalar(0)
	}
	return ad.Scale(ad.Log(f.Tempering.invSqrtBeta0), -T(dims))
}

// epsilon returns the step sizes of step k as a column [ℓ×1].
func (f *Flow[T]) epsilon(k int) *ad.Var[T] {
	row := min(k, f.StepSize.Rows()) - 1
	return ad.Reshape(ad.RowRange(f.StepSize, row, row+1), f.StepSize.Cols(), 1)
}

func (f *Flow[T]) check(s Phase[T]) {
	if s.Z.Value.Shape() != s.Rho.Value.Shape() {
		panic(fmt.Sprintf("hvae: position %v and momentum %v differ in shape", s.Z.Value.Shape(), s.Rho.Value.Shape()))
	}
	f.Tempering.mustHave(f.K)
	if f.K == 0 {
		return
	}
	if e := f.StepSize; e.Cols() != s.Z.Rows() || e.Rows() != 1 && e.Rows() != f.K {
		panic(fmt.Sprintf("hvae: step sizes %v do not fit %d steps of %v", e.Value.Shape(), f.K, s.Z.Value.Shape()))
	}
}
