package hvae

import (
	"hvae/ad"
	"hvae/linalg"
)

// A Flow is the map H = Φ^K ∘ … ∘ Φ¹ of phase space (section 2.3). Φ^k takes a leapfrog step and sets ρ ← α_k ρ.
type Flow[T linalg.Float] struct {
	Target    Target[T]
	K         int          // number of steps; for K = 0, H is the identity
	StepSize  *ad.Var[T]   // ε: [1×ℓ] for all steps, or [K×ℓ] with one row per step; see Constrain
	Tempering Tempering[T] // supplies α_k

	// If Recompute is true, the tape keeps only z_k, ρ_k, ∇U(z_k) and log p_θ(x, z_k) after each leapfrog step, and
	// ad.Backward recomputes the other values step by step. The results are bit-identical, but each step evaluates ∇U
	// twice, and ad.Grad cannot differentiate the results. The target must not keep variables that it creates.
	Recompute bool
}

// Forward returns (z_K, ρ_K) = H(z₀, ρ₀). It needs K + 1 evaluations of ∇U, or none if K = 0.
func (f *Flow[T]) Forward(s Phase[T]) Phase[T] { return f.Path(s)[f.K] }

// Path returns the phases (z₀, ρ₀), …, (z_K, ρ_K) that Forward computes.
func (f *Flow[T]) Path(s Phase[T]) []Phase[T] {
	path, _ := f.run(s)
	return path
}

// run returns (z₀, ρ₀), …, (z_K, ρ_K) and log p_θ(x, z_K).
func (f *Flow[T]) run(start Phase[T]) (path []Phase[T], logJoint *ad.Var[T]) {
	f.check(start)
	path = append(make([]Phase[T], 0, f.K+1), start)
	if f.K == 0 {
		return path, logJointOf(f.Target, start.Z)
	}
	s := state[T]{Phase: start, gradU: PotentialGradient(f.Target, start.Z)}
	var e stepSize[T]
	for k := 1; k <= f.K; k++ {
		if k == 1 || f.StepSize.Rows() > 1 { // otherwise, all steps have the same ε
			e = stepSizeOf(f.StepSize, k, f.K, s.Z)
		}
		if f.Recompute {
			s = recomputed(f.Target, e, s)
		} else {
			s = leapfrog(f.Target, e, s, k == f.K)
		}
		if f.Tempering.Alpha != nil {
			s.Rho = ad.Mul(row(f.Tempering.Alpha, k-1), s.Rho)
		}
		path = append(path, s.Phase)
	}
	return path, s.logJoint
}

// Inverse returns (z₀, ρ₀) = H⁻¹(z_K, ρ_K). To undo step k, it divides the momentum by α_k and takes a leapfrog step
// with step size −ε. It needs K + 1 evaluations of ∇U, or none if K = 0.
func (f *Flow[T]) Inverse(end Phase[T]) Phase[T] {
	f.check(end)
	if f.K == 0 {
		return end
	}
	s := state[T]{Phase: end, gradU: PotentialGradient(f.Target, end.Z)}
	for k := f.K; k >= 1; k-- {
		if f.Tempering.Alpha != nil {
			s.Rho = ad.Div(s.Rho, row(f.Tempering.Alpha, k-1))
		}
		e := stepSizeOf(f.StepSize, k, f.K, s.Z)
		s = leapfrog(f.Target, stepSize[T]{ad.Neg(e.epsilon), ad.Neg(e.minusHalf)}, s, false)
	}
	return s.Phase
}

func (f *Flow[T]) check(s Phase[T]) {
	mustNotBeNil("the flow", f == nil)
	mustNotBeNil("Flow.Target", f.Target == nil)
	mustBeAtLeast("Flow.K", f.K, 0)
	mustNotBeNil("the position", s.Z == nil)
	dims, t := s.Z.Rows(), f.Tempering
	mustBe("the momentum", s.Rho, dims, s.Z.Cols())
	if t != (Tempering[T]{}) {
		mustNotBeNil("Tempering.Alpha or MomentumSD", t.Alpha == nil || t.MomentumSD == nil)
		mustBe("α", t.Alpha, f.K, min(t.Alpha.Cols(), dims))
		mustBe("s", t.MomentumSD, 1, min(t.MomentumSD.Cols(), dims))
	}
}

// LogDet returns log |det ∇H| = log Π α_k^ℓ [1×1] for ℓ = dims. For fixed and free tempering, this is (ℓ/2) log β₀.
// Leapfrog steps do not contribute, because their Jacobians have determinant 1.
func (f *Flow[T]) LogDet(tape *ad.Tape[T], dims int) *ad.Var[T] {
	if f.Tempering.Alpha == nil {
		return tape.Scalar(0)
	}
	return sumOfLogs(f.Tempering.Alpha, dims)
}

// logVolume returns log(s^ℓ Π α_k^ℓ) [1×1] for ℓ = dims, or the constant 0 if the tempering is tied.
func (f *Flow[T]) logVolume(tape *ad.Tape[T], dims int) *ad.Var[T] {
	if f.Tempering.Alpha == nil || f.Tempering.tied {
		return tape.Scalar(0)
	}
	return ad.Add(sumOfLogs(f.Tempering.MomentumSD, dims), f.LogDet(tape, dims))
}

// sumOfLogs returns the sum [1×1] of the logarithms of v [K×dims]. A column [K×1] stands for dims equal columns.
func sumOfLogs[T linalg.Float](v *ad.Var[T], dims int) *ad.Var[T] {
	return ad.Scale(ad.Sum(ad.Log(v)), T(dims)/T(v.Cols()))
}
