package hvae

import (
	"hvae/ad"
)

// Path returns the phases (z_0, ρ_0) … (z_K, ρ_K) through which Forward carries s.
func (f *Flow[T]) Path(s Phase[T]) []Phase[T] {
	schedule := f.Tempering.Schedule(f.K)
	path := []Phase[T]{f.begin(s)}
	for k := 1; k <= f.K; k++ {
		s = leapfrog(f.Target, f.stepSize(k), path[k-1])
		if schedule.Alpha != nil {
			s.Rho = ad.Mul(ad.RowRange(schedule.Alpha, k-1, k), s.Rho)
		}
		path = append(path, s)
	}
	return path
}

// Energy returns the Hamiltonian H(z, ρ) = U(z) + ½ρᵀρ [1×B].
func (s Phase[T]) Energy(target Target[T]) *ad.Var[T] {
	return ad.Sub(ad.Scale(squaredNorms(s.Rho), 0.5), s.LogJoint(target))
}
