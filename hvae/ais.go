package hvae

import (
	"fmt"
	"math"
	"math/rand/v2"

	"hvae/ad"
	"hvae/linalg"
)

// AIS is annealed importance sampling (Neal, 2001) by B chains side by side: the Chain of
// K−1 kernels that are Hamiltonian Monte Carlo with Metropolis correction, each invariant
// with respect to its bridge p^k from the variational prior to the posterior (section 2.2),
//
//	log p^k(z) = (1 − β_k) log q⁰(z) + β_k log p_θ(x, z),   β_k = k/K,
//
// and its own reversal. (A kernel for p^K would cancel out of the estimate.) A kernel costs as
// many gradients of the target as it has leapfrog steps, and memory grows with neither these
// nor K. An AIS serves one goroutine.
type AIS[T linalg.Float] struct {
	// Tape is where densities and gradients are computed. It is reset again and again.
	Tape *ad.Tape[T]
	// Target puts log p_θ(x, ·) for the B columns on the tape.
	Target func(t *ad.Tape[T]) Target[T]
	// Mean and SD, [ℓ×B], or [ℓ×1] for all columns, are those of the variational prior q⁰, a
	// DiagonalNormal.
	Mean, SD linalg.Matrix[T]
	// Streams are where the noise of each column comes from [B].
	Streams []*rand.Rand
	// Steps is K, at least 1; with K = 1, p̂_θ(x) = p_θ(x, z₀)/q⁰(z₀).
	Steps int
	// Leapfrogs is the number of leapfrog steps that make a proposal.
	Leapfrogs int
	// StepSizes has the step size of each kernel [K−1], in units of SD. Tune finds them. For
	// an unbiased estimate they must not depend on the noise of its chains.
	StepSizes []float64

	proposal *Particles[T]
	momentum linalg.Matrix[T]
	rates    []float64 // with which the kernels accepted
}

// Forward runs the chains from draws of q⁰ and returns the last z [ℓ×B] and log p̂_θ(x) of
// each chain [B], which is at most log p_θ(x) in expectation.
func (a *AIS[T]) Forward() (z linalg.Matrix[T], logEstimates []float64) {
	end, logEstimates := a.Chain().Forward(a.At(a.drawPrior()))
	return end.Z, logEstimates
}

// Reverse runs the chains backwards from exact draws z [ℓ×B] of the posterior p_θ(z|x) and
// returns log p̂_θ(x) of each chain [B], which is at least log p_θ(x) in expectation. Such a
// draw is at hand where x itself was drawn from the model: the z that it was drawn for.
func (a *AIS[T]) Reverse(z linalg.Matrix[T]) (logEstimates []float64) {
	_, logEstimates = a.Chain().Reverse(a.At(z.Clone()))
	return logEstimates
}

// Acceptance returns the mean probability with which the kernels of the last Forward or
// Reverse accepted their proposals, NaN if there were none.
func (a *AIS[T]) Acceptance() float64 {
	sum := 0.0
	for _, r := range a.rates {
		sum += r
	}
	return sum / float64(len(a.rates))
}

// Tune sets StepSizes so that each kernel accepts about 65 % of its proposals (Neal, 2011,
// section 4.4), in some passes forward over all of them, at least one. The first carries the
// step size on from kernel to kernel; where there are few of them, it takes several passes.
// The chains that estimate something need Streams other than these.
func (a *AIS[T]) Tune(passes int) {
	const start, rate = 0.5, 0.65
	a.StepSizes = make([]float64, max(0, a.Steps-1))
	for i := range a.StepSizes {
		a.StepSizes[i] = start
	}
	logRatio := make([]float64, len(a.Streams))
	for pass := 1; pass <= passes; pass++ {
		p := a.At(a.drawPrior())
		for i, k := range a.Chain().Kernels {
			if pass == 1 && i > 0 {
				a.StepSizes[i] = a.StepSizes[i-1]
			}
			k.Forward(p, logRatio)
			a.StepSizes[i] *= math.Exp((a.rates[i] - rate) / math.Sqrt(float64(pass)))
		}
	}
}

// Chain returns the chains as those of equation 3, with states from At.
func (a *AIS[T]) Chain() Chain[*Particles[T]] {
	if a.Steps < 1 || len(a.StepSizes) != a.Steps-1 {
		panic(fmt.Sprintf("hvae: AIS of %d steps with %d step sizes: it needs one less than steps, from Tune", a.Steps, len(a.StepSizes)))
	}
	a.rates = a.rates[:0]
	kernels := make([]Kernel[*Particles[T]], a.Steps-1)
	for i := range kernels {
		kernels[i] = hmc[T]{a, i + 1}
	}
	return Chain[*Particles[T]]{
		Kernels:  kernels,
		LogPrior: func(p *Particles[T]) []float64 { return p.logPrior },
		LogJoint: func(p *Particles[T]) []float64 { return p.logJoint },
	}
}

// Particles are the states of B chains.
type Particles[T linalg.Float] struct {
	Z linalg.Matrix[T] // [ℓ×B]

	// What was computed at Z on the way there.
	logPrior, logJoint []float64        // log q⁰(z) and log p_θ(x, z) [B]
	gradU              linalg.Matrix[T] // ∇U(z) = −∇ log p_θ(x, z) [ℓ×B]
}

// At returns particles at z [ℓ×B], which then belongs to them.
func (a *AIS[T]) At(z linalg.Matrix[T]) *Particles[T] {
	if z.Rows != a.Mean.Rows || z.Cols != len(a.Streams) {
		panic(fmt.Sprintf("hvae: AIS at z %v with the mean %v and %d streams", z.Shape(), a.Mean.Shape(), len(a.Streams)))
	}
	p := newParticles(z)
	b := a.bridge(0)
	at := a.Tape.Const(z)
	b.PotentialGradient(at)
	b.leave(at, p)
	return p
}

func newParticles[T linalg.Float](z linalg.Matrix[T]) *Particles[T] {
	return &Particles[T]{z, make([]float64, z.Cols), make([]float64, z.Cols), linalg.New[T](z.Rows, z.Cols)}
}

// copy sets all particles to those of q.
func (p *Particles[T]) copy(q *Particles[T]) {
	linalg.Copy(p.Z, q.Z)
	linalg.Copy(p.gradU, q.gradU)
	copy(p.logPrior, q.logPrior)
	copy(p.logJoint, q.logJoint)
}

// copyColumn sets particle j to that of q.
func (p *Particles[T]) copyColumn(q *Particles[T], j int) {
	for i := j; i < len(p.Z.Data); i += p.Z.Cols {
		p.Z.Data[i], p.gradU.Data[i] = q.Z.Data[i], q.gradU.Data[i]
	}
	p.logPrior[j], p.logJoint[j] = q.logPrior[j], q.logJoint[j]
}

// drawPrior returns draws of q⁰ [ℓ×B].
func (a *AIS[T]) drawPrior() linalg.Matrix[T] {
	z := linalg.New[T](a.Mean.Rows, len(a.Streams))
	a.fillNormal(z)
	linalg.Mul(z, a.SD, z)
	linalg.Add(z, a.Mean, z)
	return z
}

// fillNormal fills each column of m with draws from N(0, 1), from its stream.
func (a *AIS[T]) fillNormal(m linalg.Matrix[T]) {
	for j, rng := range a.Streams {
		FillNormalColumn(rng, m, j)
	}
}

// hmc is the kernel of Hamiltonian Monte Carlo that leaves p^k invariant. It is reversible:
// its reversal is itself.
type hmc[T linalg.Float] struct {
	ais *AIS[T]
	k   int
}

// Forward implements Kernel.
func (h hmc[T]) Forward(p *Particles[T], logRatio []float64) *Particles[T] {
	addScaled(logRatio, 1, h.logDensity(p))
	h.move(p)
	addScaled(logRatio, -1, h.logDensity(p))
	return p
}

// Reverse implements Kernel.
func (h hmc[T]) Reverse(p *Particles[T], logRatio []float64) *Particles[T] {
	addScaled(logRatio, -1, h.logDensity(p))
	h.move(p)
	addScaled(logRatio, 1, h.logDensity(p))
	return p
}

func (h hmc[T]) beta() float64 { return float64(h.k) / float64(h.ais.Steps) }

// logDensity returns log p^k(z) [B].
func (h hmc[T]) logDensity(p *Particles[T]) []float64 {
	log := make([]float64, len(p.logPrior))
	addScaled(log, 1-h.beta(), p.logPrior)
	addScaled(log, h.beta(), p.logJoint)
	return log
}

// move draws a momentum ρ ~ N(0, I), follows it for some leapfrog steps, and accepts where
// that led with probability min(1, exp(H − H′)), H = −log p^k(z) + ½ρᵀρ.
func (h hmc[T]) move(p *Particles[T]) {
	a := h.ais
	if a.proposal == nil || a.proposal.Z.Shape() != p.Z.Shape() {
		a.proposal, a.momentum = newParticles(p.Z.Clone()), p.Z.Clone()
	}
	q, rho := a.proposal, a.momentum
	q.copy(p)
	a.fillNormal(rho)
	before := h.energy(p, rho)
	for range a.Leapfrogs {
		h.leapfrog(q, rho)
	}
	after := h.energy(q, rho)
	sum := 0.0
	for j, rng := range a.Streams {
		rate := math.Exp(min(0, before[j]-after[j]))
		if math.IsNaN(rate) { // where the leapfrog diverges
			rate = 0
		}
		sum += rate
		if rng.Float64() < rate {
			p.copyColumn(q, j)
		}
	}
	a.rates = append(a.rates, sum/float64(len(a.Streams)))
}

// energy returns H [B].
func (h hmc[T]) energy(p *Particles[T], rho linalg.Matrix[T]) []float64 {
	energy := make([]float64, rho.Cols)
	for i, r := range rho.Data {
		energy[i%rho.Cols] += 0.5 * float64(r) * float64(r)
	}
	addScaled(energy, -1, h.logDensity(p))
	return energy
}

// leapfrog takes a step from p and ρ on a fresh tape.
func (h hmc[T]) leapfrog(p *Particles[T], rho linalg.Matrix[T]) {
	t, b := h.ais.Tape, h.ais.bridge(h.beta())
	epsilon := ad.Scale(b.prior.SD, T(h.ais.StepSizes[h.k-1]))
	z := t.Const(p.Z)
	s := leapfrog(b, newStepSize(epsilon), Phase[T]{Z: z, Rho: t.Const(rho), gradU: b.gradient(z, t.Const(p.gradU))})
	linalg.Copy(rho, s.Rho.Value)
	b.leave(s.Z, p)
}

// A bridge is the target p^k.
type bridge[T linalg.Float] struct {
	prior DiagonalNormal[T]
	joint Target[T]
	beta  T

	logJoint, gradU *ad.Var[T] // of joint, at the z of the last gradient
}

// bridge puts the bridge at inverse temperature β on a fresh tape.
func (a *AIS[T]) bridge(beta float64) *bridge[T] {
	a.Tape.Reset()
	prior := DiagonalNormal[T]{Mean: a.Tape.Const(a.Mean), SD: a.Tape.Const(a.SD)}
	return &bridge[T]{prior: prior, joint: a.Target(a.Tape), beta: T(beta)}
}

// LogJoint implements Target.
func (b *bridge[T]) LogJoint(z *ad.Var[T]) *ad.Var[T] {
	return b.mix(b.prior.LogDensity(z), b.joint.LogJoint(z))
}

// PotentialGradient implements ClosedForm.
func (b *bridge[T]) PotentialGradient(z *ad.Var[T]) *ad.Var[T] {
	b.gradU, b.logJoint = PotentialGradient(b.joint, z)
	return b.gradient(z, b.gradU)
}

// gradient returns −∇ log p^k(z), given ∇U(z).
func (b *bridge[T]) gradient(z, gradU *ad.Var[T]) *ad.Var[T] {
	return b.mix(ad.Div(ad.Sub(z, b.prior.Mean), ad.Square(b.prior.SD)), gradU)
}

func (b *bridge[T]) mix(prior, joint *ad.Var[T]) *ad.Var[T] {
	return ad.Add(ad.Scale(prior, 1-b.beta), ad.Scale(joint, b.beta))
}

// leave leaves what is known at z, that of the last gradient, to particles there.
func (b *bridge[T]) leave(z *ad.Var[T], p *Particles[T]) {
	if b.logJoint == nil { // the target has a closed form
		b.logJoint = b.joint.LogJoint(z)
	}
	for j, l := range b.prior.LogDensity(z).Value.Data {
		p.logPrior[j], p.logJoint[j] = float64(l), float64(b.logJoint.Value.Data[j])
	}
	linalg.Copy(p.Z, z.Value)
	linalg.Copy(p.gradU, b.gradU.Value)
}
