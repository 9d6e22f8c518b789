package hvae

import (
	"hvae/ad"
)

// Path returns the phases (z_0, ρ_0) … (z_K, ρ_K) through which Forward carries s.
func (f *Flow[T]) Path(s Phase[T]) []Phase[T] {
	f.check(s)
	path := []Phase[T]{s}
	for k := 1; k <= f.K; k++ {
		s = Leapfrog(f.Target, f.epsilon(k), s)
		if f.Tempering.alpha != nil {
			s.Rho = ad.Mul(f.Tempering.at(k), s.Rho)
		}
		path = append(path, s)
	}
	return path
}

// Energy returns the Hamiltonian H(z, ρ) = U(z) + ½ρᵀρ [1×B].
func (s Phase[T]) Energy(target Target[T]) *ad.Var[T] {
	return ad.Sub(ad.Scale(squaredNorms(s.Rho), 0.5), s.LogJoint(target))
}
