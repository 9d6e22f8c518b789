package hvae

import (
	"hvae/ad"
	"hvae/linalg"
)

// Recompute says how a Flow can forget what lies between its leapfrog steps: of a step it
// keeps (z_k, ρ_k), ∇U(z_k) and log p_θ(x, z_k), and the sweep back runs the step again.
// Its memory is that of one step, however many there are, and its gradients are the same
// to the bit; it costs another evaluation of each ∇U.
type Recompute[T linalg.Float] struct {
	Tape   *ad.Tape[T]  // where steps run; the flow resets it. If it is nil, all is kept.
	Params []*ad.Var[T] // parameters of the flow's target

	// Target returns the flow's target with its parameters on another tape, in the order of
	// Params.
	Target func(params []*ad.Var[T]) Target[T]

	in []*ad.Var[T]
}

// leapfrog takes a leapfrog step and keeps its result only.
func (r *Recompute[T]) leapfrog(e stepSize[T], s Phase[T]) Phase[T] {
	n := s.Z.Rows()
	if s.gradU == nil {
		r.in = append(append(r.in[:0], s.Z), r.Params...)
		y := ad.Recomputed(r.Tape, (*gradientProgram[T])(r), r.in)
		s.gradU = ad.RowRange(y, 0, n)
	}
	r.in = append(append(r.in[:0], s.Z, s.Rho, s.gradU, e.epsilon, e.minusHalf), r.Params...)
	y := ad.Recomputed(r.Tape, (*leapfrogProgram[T])(r), r.in)
	return Phase[T]{Z: ad.RowRange(y, 0, n), Rho: ad.RowRange(y, n, 2*n), gradU: ad.RowRange(y, 2*n, 3*n), logJoint: ad.RowRange(y, 3*n, 3*n+1)}
}

// A gradientProgram computes ∇U at z.
type gradientProgram[T linalg.Float] Recompute[T]

func (r *gradientProgram[T]) Run(in []*ad.Var[T]) *ad.Var[T] {
	gradU, _ := PotentialGradient(r.Target(in[1:]), in[0])
	return gradU
}

// A leapfrogProgram takes a step and puts the rows of z, ρ, ∇U(z) and log p_θ(x, z) below
// each other.
type leapfrogProgram[T linalg.Float] Recompute[T]

func (r *leapfrogProgram[T]) Run(in []*ad.Var[T]) *ad.Var[T] {
	target := r.Target(in[5:])
	s := leapfrog(target, stepSize[T]{in[3], in[4]}, Phase[T]{Z: in[0], Rho: in[1], gradU: in[2]})
	return ad.Stack(ad.Stack(s.Z, s.Rho), ad.Stack(s.gradU, s.LogJoint(target)))
}
