package hvae

import (
	"hvae/ad"
	"hvae/linalg"
)

// Recompute lets a Flow keep only (z_k, ρ_k), ∇U(z_k) and log p_θ(x, z_k) of each leapfrog
// step: the backward sweep runs the step again. The memory does not depend on K, the gradients
// are bit-identical, and each ∇U is evaluated once more.
type Recompute[T linalg.Float] struct {
	Tape   *ad.Tape[T]                         // for the steps, such as Block.Scratch; nil to keep everything
	Params []*ad.Var[T]                        // everything on the flow's tape that its target depends on
	Target func(params []*ad.Var[T]) Target[T] // returns the target for copies of Params on Tape

	in []*ad.Var[T]
}

// leapfrog takes a leapfrog step from s, where ∇U is known, and keeps only its result.
func (r *Recompute[T]) leapfrog(e stepSize[T], s Phase[T]) Phase[T] {
	n := s.Z.Rows()
	r.in = append(append(r.in[:0], s.Z, s.Rho, s.gradU, e.epsilon, e.minusHalf), r.Params...)
	y := ad.Recomputed(r.Tape, (*leapfrogProgram[T])(r), r.in)
	return Phase[T]{Z: ad.RowRange(y, 0, n), Rho: ad.RowRange(y, n, 2*n), gradU: ad.RowRange(y, 2*n, 3*n), logJoint: ad.RowRange(y, 3*n, 3*n+1)}
}

// A leapfrogProgram takes a step and stacks the rows of z, ρ, ∇U(z) and log p_θ(x, z).
type leapfrogProgram[T linalg.Float] Recompute[T]

func (r *leapfrogProgram[T]) Run(in []*ad.Var[T]) *ad.Var[T] {
	target := r.Target(in[5:])
	s := leapfrog(target, stepSize[T]{in[3], in[4]}, Phase[T]{Z: in[0], Rho: in[1], gradU: in[2]})
	return ad.Stack(ad.Stack(s.Z, s.Rho), ad.Stack(s.gradU, s.LogJoint(target)))
}
