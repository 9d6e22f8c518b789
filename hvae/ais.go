package hvae

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"hvae/ad"
	"hvae/linalg"
	"hvae/linalg/random"
)

// AIS is annealed importance sampling (Neal, 2001) with B parallel chains. Its kernels are
// Hamiltonian Monte Carlo with a Metropolis correction. Kernel k = 1, …, K − 1 is its own
// reversal and leaves a bridge p^k from the variational prior to the posterior invariant
// (section 2.2):
//
//	log p^k(z) = (1 − β_k) log q⁰(z) + β_k log p_θ(x, z),   β_k = k/K.
//
// A kernel for p^K would not change the estimate. Memory depends neither on K nor on Leapfrogs.
// An AIS is not safe for concurrent use.
type AIS[T linalg.Float] struct {
	Tape      *ad.Tape[T]                   // for densities and gradients; AIS resets it
	Target    func(t *ad.Tape[T]) Target[T] // returns the target of the B columns on tape t
	Mean, SD  linalg.Matrix[T]              // of q⁰, a DiagonalNormal: [ℓ×B], or [ℓ×1] for all columns
	Steps     int                           // K, at least 1; for K = 1, p̂_θ(x) = p_θ(x, z₀)/q⁰(z₀)
	Leapfrogs int                           // leapfrog steps per kernel, for example 5; each needs one gradient
	StepSizes []float64                     // leapfrog step size of each kernel [K−1] in units of SD, from Tune
}

// Forward runs the chains from draws of q⁰ and returns their ends and log p̂_θ(x) [B], whose
// expectation is at most log p_θ(x). Chain j uses the noise of streams[j].
func (a *AIS[T]) Forward(streams []*rand.Rand) (end *Particles[T], logEstimates []float64) {
	return a.Chain(streams).Forward(a.start(streams))
}

// Reverse runs the chains backwards from exact draws z [ℓ×B] of the posterior p_θ(z|x). It
// returns their ends and log p̂_θ(x) [B], whose expectation is at least log p_θ(x). If x was
// simulated from the model, the z that it was simulated with is such a draw.
func (a *AIS[T]) Reverse(z linalg.Matrix[T], streams []*rand.Rand) (end *Particles[T], logEstimates []float64) {
	return a.Chain(streams).Reverse(a.At(z.Clone()))
}

// Tune returns step sizes for which each kernel accepts about 65 % of its proposals (Neal,
// 2011, section 4.4). It makes the given number of passes over all kernels. One is enough for
// large K. Forward and Reverse must use other streams, or their estimates are biased.
func (a *AIS[T]) Tune(streams []*rand.Rand, passes int) (stepSizes []float64) {
	const start, rate = 0.5, 0.65
	tuned := *a
	tuned.StepSizes = slices.Repeat([]float64{start}, max(0, a.Steps-1))
	kernels, logRatio := tuned.Chain(streams).Kernels, make([]float64, len(streams))
	for pass := 1; pass <= passes; pass++ {
		p := a.start(streams)
		for i, k := range kernels {
			if pass == 1 && i > 0 {
				tuned.StepSizes[i] = tuned.StepSizes[i-1]
			}
			k.Forward(p, logRatio)
			tuned.StepSizes[i] *= math.Exp((p.rates[i] - rate) / math.Sqrt(float64(pass)))
		}
	}
	return tuned.StepSizes
}

// Chain returns the Markov chain as a Chain whose states come from At. Column j uses the noise
// of streams[j]. It panics unless there are K − 1 step sizes.
func (a *AIS[T]) Chain(streams []*rand.Rand) Chain[*Particles[T]] {
	if len(a.StepSizes) != a.Steps-1 {
		panic(fmt.Sprintf("hvae: AIS with Steps = %d and %d StepSizes: it needs at least one step and Steps − 1 step sizes, from Tune", a.Steps, len(a.StepSizes)))
	}
	c := Chain[*Particles[T]]{
		LogPrior: func(p *Particles[T]) []float64 { return p.logPrior },
		LogJoint: func(p *Particles[T]) []float64 { return p.logJoint },
	}
	for i := range a.StepSizes {
		c.Kernels = append(c.Kernels, hmc[T]{a, streams, &a.StepSizes[i], float64(i+1) / float64(a.Steps)})
	}
	return c
}

// Particles are the states of B chains.
type Particles[T linalg.Float] struct {
	Z linalg.Matrix[T] // [ℓ×B]

	logPrior, logJoint []float64        // log q⁰(z) and log p_θ(x, z) [B]
	gradU              linalg.Matrix[T] // ∇U(z) = −∇ log p_θ(x, z) [ℓ×B]
	rates              []float64        // mean acceptance probability of each kernel so far
}

// Acceptance returns the mean acceptance probability of the kernels that led to p, or NaN if
// there were none.
func (p *Particles[T]) Acceptance() float64 {
	sum := 0.0
	for _, r := range p.rates {
		sum += r
	}
	return sum / float64(len(p.rates))
}

// At returns particles at z [ℓ×B]. It takes ownership of z.
func (a *AIS[T]) At(z linalg.Matrix[T]) *Particles[T] {
	if z.Rows != a.Mean.Rows {
		panic(fmt.Sprintf("hvae: AIS with z %v and mean %v, which differ in rows", z.Shape(), a.Mean.Shape()))
	}
	p := &Particles[T]{Z: z, logPrior: make([]float64, z.Cols), logJoint: make([]float64, z.Cols), gradU: linalg.New[T](z.Rows, z.Cols)}
	b, at := a.bridge(0), a.Tape.Const(z)
	b.PotentialGradient(at)
	b.store(at, p)
	return p
}

// start returns particles at draws of q⁰.
func (a *AIS[T]) start(streams []*rand.Rand) *Particles[T] {
	z := normals[T](streams, a.Mean.Rows)
	linalg.Mul(z, a.SD, z)
	linalg.Add(z, a.Mean, z)
	return a.At(z)
}

// normals returns draws from N(0, 1) [rows×B]. Column j comes from streams[j].
func normals[T linalg.Float](streams []*rand.Rand, rows int) linalg.Matrix[T] {
	m := linalg.New[T](rows, len(streams))
	for j, rng := range streams {
		random.FillNormalColumn(rng, m, j)
	}
	return m
}

// hmc is the Hamiltonian Monte Carlo kernel of p^k. It is its own reversal.
type hmc[T linalg.Float] struct {
	ais      *AIS[T]
	streams  []*rand.Rand
	stepSize *float64
	beta     float64 // β_k
}

func (h hmc[T]) Forward(p *Particles[T], logRatio []float64) *Particles[T] {
	return h.move(p, logRatio, 1)
}
func (h hmc[T]) Reverse(p *Particles[T], logRatio []float64) *Particles[T] {
	return h.move(p, logRatio, -1)
}

// move draws a momentum ρ ~ N(0, I), takes leapfrog steps from (z, ρ) to (z′, ρ′) and accepts
// z′ with probability min(1, exp(H − H′)), where H = −log p^k(z) + ½ρᵀρ. It adds
// sign·(log p^k(z) − log p^k(new z)) to logRatio.
func (h hmc[T]) move(p *Particles[T], logRatio []float64, sign float64) *Particles[T] {
	if len(h.streams) != p.Z.Cols {
		panic(fmt.Sprintf("hvae: AIS with %d streams for z %v; it needs %d", len(h.streams), p.Z.Shape(), p.Z.Cols))
	}
	q := &Particles[T]{p.Z.Clone(), slices.Clone(p.logPrior), slices.Clone(p.logJoint), p.gradU.Clone(), nil}
	rho, before := normals[T](h.streams, p.Z.Rows), make([]float64, p.Z.Cols)
	for j := range before {
		logRatio[j] += sign * h.logDensity(p, j)
		before[j] = h.energy(p, rho, j)
	}
	for range h.ais.Leapfrogs {
		h.leapfrog(q, rho)
	}
	sum := 0.0
	for j, rng := range h.streams {
		rate := math.Exp(min(0, before[j]-h.energy(q, rho, j)))
		if math.IsNaN(rate) { // the leapfrog diverged
			rate = 0
		}
		sum += rate
		if rng.Float64() < rate {
			p.logPrior[j], p.logJoint[j] = q.logPrior[j], q.logJoint[j]
			for i := j; i < len(p.Z.Data); i += p.Z.Cols {
				p.Z.Data[i], p.gradU.Data[i] = q.Z.Data[i], q.gradU.Data[i]
			}
		}
		logRatio[j] -= sign * h.logDensity(p, j)
	}
	p.rates = append(p.rates, sum/float64(p.Z.Cols))
	return p
}

// logDensity returns log p^k(z) of particle j.
func (h hmc[T]) logDensity(p *Particles[T], j int) float64 {
	return (1-h.beta)*p.logPrior[j] + h.beta*p.logJoint[j]
}

// energy returns H of particle j.
func (h hmc[T]) energy(p *Particles[T], rho linalg.Matrix[T], j int) (energy float64) {
	for i := range rho.Rows {
		r := float64(rho.At(i, j))
		energy += 0.5 * r * r
	}
	return energy - h.logDensity(p, j)
}

// leapfrog moves p and ρ by one leapfrog step. It resets the tape.
func (h hmc[T]) leapfrog(p *Particles[T], rho linalg.Matrix[T]) {
	t, b := h.ais.Tape, h.ais.bridge(h.beta)
	epsilon := ad.Scale(b.prior.SD, T(*h.stepSize))
	z := t.Const(p.Z)
	s := leapfrog(b, stepSize[T]{epsilon, ad.Scale(epsilon, -0.5)}, Phase[T]{Z: z, Rho: t.Const(rho), gradU: b.gradient(z, t.Const(p.gradU))})
	linalg.Copy(rho, s.Rho.Value)
	b.store(s.Z, p)
}

// A bridge is the target whose PotentialGradient belongs to p^k. Its LogJoint is log p_θ(x, z).
type bridge[T linalg.Float] struct {
	Target[T]
	prior DiagonalNormal[T]
	beta  T // β_k

	logJoint, gradU *ad.Var[T] // log p_θ(x, z) and ∇U(z) at the last gradient's z
}

// bridge resets the tape and returns the bridge for β on it.
func (a *AIS[T]) bridge(beta float64) *bridge[T] {
	a.Tape.Reset()
	prior := DiagonalNormal[T]{a.Tape.Const(a.Mean), a.Tape.Const(a.SD)}
	return &bridge[T]{Target: a.Target(a.Tape), prior: prior, beta: T(beta)}
}

func (b *bridge[T]) PotentialGradient(z *ad.Var[T]) *ad.Var[T] {
	b.gradU, b.logJoint = PotentialGradient(b.Target, z)
	return b.gradient(z, b.gradU)
}

// gradient returns −∇ log p^k(z), given ∇U(z).
func (b *bridge[T]) gradient(z, gradU *ad.Var[T]) *ad.Var[T] {
	prior := ad.Div(ad.Sub(z, b.prior.Mean), ad.Square(b.prior.SD))
	return ad.Add(ad.Scale(prior, 1-b.beta), ad.Scale(gradU, b.beta))
}

// store sets p to the particles at z, the argument of the last PotentialGradient.
func (b *bridge[T]) store(z *ad.Var[T], p *Particles[T]) {
	if b.logJoint == nil { // the target is a ClosedForm
		b.logJoint = b.LogJoint(z)
	}
	for j, l := range b.prior.LogDensity(z).Value.Data {
		p.logPrior[j], p.logJoint[j] = float64(l), float64(b.logJoint.Value.Data[j])
	}
	linalg.Copy(p.Z, z.Value)
	linalg.Copy(p.gradU, b.gradU.Value)
}
