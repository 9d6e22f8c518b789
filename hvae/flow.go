package hvae

import (
	"fmt"

	"hvae/ad"
	"hvae/linalg"
)

// A Flow is the deterministic map H = Φ^K ∘ … ∘ Φ¹ of phase space (section 2.3). Φ^k takes one
// leapfrog step and then multiplies the momentum by α_k.
type Flow[T linalg.Float] struct {
	Target    Target[T]
	K         int          // number of steps; for K = 0, H is the identity
	StepSize  *ad.Var[T]   // ε: [1×ℓ] for all steps, or [K×ℓ] with one row per step; see Constrain
	Tempering Tempering[T] // supplies α_k

	// If Recompute is true, the tape keeps only z_k, ρ_k, ∇U(z_k) and log p_θ(x, z_k) after each
	// leapfrog step. ad.Backward recomputes the other values, one step at a time, so each step
	// evaluates ∇U twice. The results are bit-identical with and without Recompute. ad.Grad cannot
	// differentiate them and panics. The target must not keep variables that it creates, and the flow
	// must not change until ad.Backward has returned.
	Recompute bool

	program ad.Program[T] // runLeapfrog, created once so that steps do not allocate
}

// Forward returns (z_K, ρ_K) = H(z₀, ρ₀). It needs K + 1 evaluations of ∇U, or none if K = 0.
func (f *Flow[T]) Forward(s Phase[T]) Phase[T] { return f.forward(s, f.Tempering.Schedule(f.K), nil) }

// Path returns the phases (z₀, ρ₀), …, (z_K, ρ_K) that Forward computes.
func (f *Flow[T]) Path(s Phase[T]) (path []Phase[T]) {
	f.forward(s, f.Tempering.Schedule(f.K), &path)
	return path
}

// forward returns the result of Forward. The argument schedule must be
// f.Tempering.Schedule(f.K). If path is not nil, forward appends all phases to path.
func (f *Flow[T]) forward(s Phase[T], schedule Tempering[T], path *[]Phase[T]) Phase[T] {
	s = f.begin(s)
	if path != nil {
		*path = append(*path, s)
	}
	var e stepSize[T]
	for k := 1; k <= f.K; k++ {
		if k == 1 || f.StepSize.Rows() > 1 {
			e = f.stepSize(k)
		}
		if f.Recompute {
			s = f.recomputedLeapfrog(e, s)
		} else {
			s = leapfrog(f.Target, e, s)
		}
		if schedule.Alpha != nil {
			s.Rho = ad.Mul(ad.RowRange(schedule.Alpha, k-1, k), s.Rho)
		}
		if path != nil {
			*path = append(*path, s)
		}
	}
	return s
}

// LogDet returns log |det ∇H| = log Π α_k^ℓ = (ℓ/2) log β₀ [1×1] for ℓ = dims. Leapfrog steps do
// not contribute, because their Jacobians have determinant 1.
func (f *Flow[T]) LogDet(tape *ad.Tape[T], dims int) *ad.Var[T] {
	invSqrtBeta0 := f.Tempering.Schedule(f.K).InvSqrtBeta0
	if invSqrtBeta0 == nil {
		return tape.Scalar(0)
	}
	return ad.Scale(ad.Log(invSqrtBeta0), -T(dims))
}

// stepSize returns the step size ε of step k and −ε/2, each [ℓ×1].
func (f *Flow[T]) stepSize(k int) stepSize[T] {
	row := min(k, f.StepSize.Rows()) - 1
	epsilon := ad.Reshape(ad.RowRange(f.StepSize, row, row+1), f.StepSize.Cols(), 1)
	return stepSize[T]{epsilon, ad.Scale(epsilon, -0.5)}
}

// begin sets s.gradU if K > 0, and returns s. It panics if s or f.StepSize has a wrong shape.
func (f *Flow[T]) begin(s Phase[T]) Phase[T] {
	z, rho := s.Z.Value.Shape(), s.Rho.Value.Shape()
	if z != rho {
		panic(fmt.Sprintf("hvae: position %v and momentum %v must have the same shape", z, rho))
	}
	if f.K == 0 {
		return s
	}
	if f.StepSize == nil {
		panic(fmt.Sprintf("hvae: Flow.StepSize is nil for K = %d steps; it must be [1×%d]", f.K, z.Rows))
	}
	if e := f.StepSize.Value.Shape(); e.Cols != z.Rows || e.Rows != 1 && e.Rows != f.K {
		panic(fmt.Sprintf("hvae: Flow.StepSize is %v for z %v; it must be [1×%d], or [%d×%d] with one row per step", e, z, z.Rows, f.K, z.Rows))
	}
	if s.gradU == nil {
		s.gradU, _ = PotentialGradient(f.Target, s.Z)
	}
	return s
}
