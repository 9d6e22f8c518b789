package hvae

import (
	"fmt"

	"hvae/ad"
	"hvae/linalg"
)

// A Flow is the deterministic map H = Φ^K ∘ … ∘ Φ¹ of section 2.3, where Φ^k is a leapfrog
// step followed by the multiplication of the momentum by α_k.
type Flow[T linalg.Float] struct {
	Target    Target[T]
	K         int           // number of steps; without steps H is the identity
	StepSize  *ad.Var[T]    // ε: one row [1×ℓ] for all steps, or a row for each [K×ℓ]; see Constrain
	Tempering Tempering[T]  // of the momentum; none by default
	Recompute *Recompute[T] // if not nil, makes the memory of the flow independent of K
}

// Forward returns (z_K, ρ_K) = H(z₀, ρ₀) with K + 1 evaluations of ∇U, or none for K = 0.
func (f *Flow[T]) Forward(s Phase[T]) Phase[T] { return f.forward(s, f.Tempering.Schedule(f.K), nil) }

// Path returns the phases (z_0, ρ_0) … (z_K, ρ_K) through which Forward carries s.
func (f *Flow[T]) Path(s Phase[T]) (path []Phase[T]) {
	f.forward(s, f.Tempering.Schedule(f.K), &path)
	return path
}

// forward is Forward with a schedule. It appends all phases to path, if that is not nil.
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
		if r := f.Recompute; r != nil && r.Tape != nil {
			s = r.leapfrog(e, s)
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

// Inverse returns (z₀, ρ₀) = H⁻¹(z_K, ρ_K). The leapfrog is reversible: its inverse is itself
// between two flips of the momentum.
func (f *Flow[T]) Inverse(s Phase[T]) Phase[T] {
	s = f.begin(s)
	schedule := f.Tempering.Schedule(f.K)
	for k := f.K; k >= 1; k-- {
		if schedule.Alpha != nil {
			s.Rho = ad.Div(s.Rho, ad.RowRange(schedule.Alpha, k-1, k))
		}
		s.Rho = ad.Neg(s.Rho)
		s = leapfrog(f.Target, f.stepSize(k), s)
		s.Rho = ad.Neg(s.Rho)
	}
	return s
}

// LogDet returns log |det ∇H| = log Π α_k^ℓ = (ℓ/2) log β₀ [1×1] for ℓ dimensions: leapfrog
// steps have unit Jacobian, and tempering step k has α_k^ℓ.
func (f *Flow[T]) LogDet(tape *ad.Tape[T], dims int) *ad.Var[T] {
	return f.Tempering.Schedule(f.K).logDet(tape, dims)
}

// stepSize returns the step sizes of step k as columns [ℓ×1].
func (f *Flow[T]) stepSize(k int) stepSize[T] {
	row := min(k, f.StepSize.Rows()) - 1
	return newStepSize(ad.Reshape(ad.RowRange(f.StepSize, row, row+1), f.StepSize.Cols(), 1))
}

// begin returns s with ∇U(z), if f has steps. It panics if shapes do not fit.
func (f *Flow[T]) begin(s Phase[T]) Phase[T] {
	z, rho := s.Z.Value.Shape(), s.Rho.Value.Shape()
	if z != rho {
		panic(fmt.Sprintf("hvae: position %v and momentum %v differ in shape", z, rho))
	}
	if f.K == 0 {
		return s
	}
	if e := f.StepSize; e == nil || e.Cols() != z.Rows || e.Rows() != 1 && e.Rows() != f.K {
		is := "nil"
		if e != nil {
			is = e.Value.Shape().String()
		}
		panic(fmt.Sprintf("hvae: Flow.StepSize is %s for K = %d steps of z %v: it needs one row [1×%d], or a row for each step [%d×%d]",
			is, f.K, z, z.Rows, f.K, z.Rows))
	}
	if s.gradU == nil {
		s.gradU, _ = PotentialGradient(f.Target, s.Z)
	}
	return s
}
