package hvae

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"hvae/ad"
	"hvae/linalg"
)

// AIS is annealed importance sampling (Neal, 2001) with B chains side by side: the Chain of
// K − 1 kernels of Hamiltonian Monte Carlo with Metropolis correction, each invariant with
// respect to its bridge p^k from the variational prior to the posterior (section 2.2),
//
//	log p^k(z) = (1 − β_k) log q⁰(z) + β_k log p_θ(x, z),   β_k = k/K,
//
// and its own reversal. (A kernel for p^K would cancel out of the estimate.) Memory depends
// neither on K nor on Leapfrogs. An AIS serves one goroutine.
type AIS[T linalg.Float] struct {
	Tape      *ad.Tape[T]                   // for densities and gradients; AIS resets it
	Target    func(t *ad.Tape[T]) Target[T] // puts log p_θ(x, ·) for the B columns on the tape
	Mean, SD  linalg.Matrix[T]              // of q⁰, a DiagonalNormal: [ℓ×B], or [ℓ×1] for all columns
	Steps     int                           // K, at least 1; with K = 1, p̂_θ(x) = p_θ(x, z₀)/q⁰(z₀)
	Leapfrogs int                           // leapfrog steps of a kernel, such as 5, each with a gradient
	StepSizes []float64                     // of the kernels [K−1], in units of SD, from Tune
}

// Forward runs a chain with the noise of each stream [B] from a draw of q⁰, and returns their
// ends and log p̂_θ(x) of each [B], which is at most log p_θ(x) in expectation.
func (a *AIS[T]) Forward(streams []*rand.Rand) (end *Particles[T], logEstimates []float64) {
	return a.Chain(streams).Forward(a.start(streams))
}

// Reverse runs the chains backwards from exact draws z [ℓ×B] of the posterior p_θ(z|x), and
// returns their ends and log p̂_θ(x) of each [B], which is at least log p_θ(x) in expectation.
// If x was drawn from the model, the z that it was drawn for is such a draw.
func (a *AIS[T]) Reverse(z linalg.Matrix[T], streams []*rand.Rand) (end *Particles[T], logEstimates []float64) {
	return a.Chain(streams).Reverse(a.At(z.Clone()))
}

// Tune returns step sizes for which each kernel accepts about 65 % of its proposals (Neal,
// 2011, section 4.4), from passes forward over all kernels: one, or several if K is small. The
// estimate is unbiased only if the streams of Forward and Reverse are other streams.
func (a *AIS[T]) Tune(streams []*rand.Rand, passes int) (stepSizes []float64) {
	const start, rate = 0.5, 0.65
	stepSizes = slices.Repeat([]float64{start}, max(0, a.Steps-1))
	logRatio := make([]float64, len(streams))
	for pass := 1; pass <= passes; pass++ {
		p := a.start(streams)
		for i, k := range a.kernels(streams, stepSizes) {
			if pass == 1 && i > 0 {
				stepSizes[i] = stepSizes[i-1]
			}
			k.Forward(p, logRatio)
			stepSizes[i] *= math.Exp((p.rates[i] - rate) / math.Sqrt(float64(pass)))
		}
	}
	return stepSizes
}

// Chain returns the chains with the noise of each stream [B], for states from At.
func (a *AIS[T]) Chain(streams []*rand.Rand) Chain[*Particles[T]] {
	return Chain[*Particles[T]]{
		Kernels:  a.kernels(streams, a.StepSizes),
		LogPrior: func(p *Particles[T]) []float64 { return p.logPrior },
		LogJoint: func(p *Particles[T]) []float64 { return p.logJoint },
	}
}

func (a *AIS[T]) kernels(streams []*rand.Rand, stepSizes []float64) (ks []Kernel[*Particles[T]]) {
	if len(stepSizes) != a.Steps-1 {
		panic(fmt.Sprintf("hvae: AIS of %d steps with %d step sizes: it needs at least one step, and one step size less, from Tune", a.Steps, len(stepSizes)))
	}
	for i := range stepSizes {
		ks = append(ks, hmc[T]{a, streams, &stepSizes[i], float64(i+1) / float64(a.Steps)})
	}
	return ks
}

// Particles are the states of B chains.
type Particles[T linalg.Float] struct {
	Z linalg.Matrix[T] // [ℓ×B]

	logPrior, logJoint []float64        // log q⁰(z) and log p_θ(x, z) [B]
	gradU              linalg.Matrix[T] // ∇U(z) = −∇ log p_θ(x, z) [ℓ×B]
	rates              []float64        // with which the kernels so far accepted
}

// Acceptance returns the mean probability with which the kernels on the way to p accepted
// their proposals, NaN without kernels.
func (p *Particles[T]) Acceptance() float64 {
	sum := 0.0
	for _, r := range p.rates {
		sum += r
	}
	return sum / float64(len(p.rates))
}

// At returns particles at z [ℓ×B], whose elements then belong to them.
func (a *AIS[T]) At(z linalg.Matrix[T]) *Particles[T] {
	if z.Rows != a.Mean.Rows {
		panic(fmt.Sprintf("hvae: AIS at z %v with the mean %v", z.Shape(), a.Mean.Shape()))
	}
	p := &Particles[T]{Z: z, logPrior: make([]float64, z.Cols), logJoint: make([]float64, z.Cols), gradU: linalg.New[T](z.Rows, z.Cols)}
	b, at := a.bridge(0), a.Tape.Const(z)
	b.PotentialGradient(at)
	b.store(at, p)
	return p
}

// copyColumn sets particle j to particle j of q.
func (p *Particles[T]) copyColumn(q *Particles[T], j int) {
	for i := j; i < len(p.Z.Data); i += p.Z.Cols {
		p.Z.Data[i], p.gradU.Data[i] = q.Z.Data[i], q.gradU.Data[i]
	}
	p.logPrior[j], p.logJoint[j] = q.logPrior[j], q.logJoint[j]
}

// start returns particles at draws of q⁰.
func (a *AIS[T]) start(streams []*rand.Rand) *Particles[T] {
	z := normals[T](streams, a.Mean.Rows)
	linalg.Mul(z, a.SD, z)
	linalg.Add(z, a.Mean, z)
	return a.At(z)
}

// normals returns draws from N(0, 1) [rows×B], each column from its stream.
func normals[T linalg.Float](streams []*rand.Rand, rows int) linalg.Matrix[T] {
	m := linalg.New[T](rows, len(streams))
	for j, rng := range streams {
		FillNormalColumn(rng, m, j)
	}
	return m
}

// hmc is the kernel of Hamiltonian Monte Carlo for p^k. Its reversal is itself.
type hmc[T linalg.Float] struct {
	ais      *AIS[T]
	streams  []*rand.Rand
	stepSize *float64
	beta     float64
}

func (h hmc[T]) Forward(p *Particles[T], logRatio []float64) *Particles[T] {
	return h.move(p, logRatio, 1)
}

func (h hmc[T]) Reverse(p *Particles[T], logRatio []float64) *Particles[T] {
	return h.move(p, logRatio, -1)
}

// move draws a momentum ρ ~ N(0, I), takes leapfrog steps to (z′, ρ′), accepts z′ with
// probability min(1, exp(H − H′)), H = −log p^k(z) + ½ρᵀρ, and adds log p^k(z) before less
// log p^k(z) after, times sign, to logRatio.
func (h hmc[T]) move(p *Particles[T], logRatio []float64, sign float64) *Particles[T] {
	if len(h.streams) != p.Z.Cols {
		panic(fmt.Sprintf("hvae: AIS with %d streams at z %v, which needs %d", len(h.streams), p.Z.Shape(), p.Z.Cols))
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
		if math.IsNaN(rate) { // where the leapfrog diverges
			rate = 0
		}
		sum += rate
		if rng.Float64() < rate {
			p.copyColumn(q, j)
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

// energy returns H of particle j with its momentum.
func (h hmc[T]) energy(p *Particles[T], rho linalg.Matrix[T], j int) (energy float64) {
	for i := range rho.Rows {
		r := float64(rho.At(i, j))
		energy += 0.5 * r * r
	}
	return energy - h.logDensity(p, j)
}

// leapfrog takes a step from p and ρ on a fresh tape.
func (h hmc[T]) leapfrog(p *Particles[T], rho linalg.Matrix[T]) {
	t, b := h.ais.Tape, h.ais.bridge(h.beta)
	epsilon := ad.Scale(b.prior.SD, T(*h.stepSize))
	z := t.Const(p.Z)
	s := leapfrog(b, newStepSize(epsilon), Phase[T]{Z: z, Rho: t.Const(rho), gradU: b.gradient(z, t.Const(p.gradU))})
	linalg.Copy(rho, s.Rho.Value)
	b.store(s.Z, p)
}

// A bridge is a target with the gradient of p^k; its log joint density is that of p_θ.
type bridge[T linalg.Float] struct {
	Target[T]
	prior DiagonalNormal[T]
	beta  T

	logJoint, gradU *ad.Var[T] // of p_θ at the point of the last gradient
}

// bridge puts the bridge at inverse temperature β on a fresh tape.
func (a *AIS[T]) bridge(beta float64) *bridge[T] {
	a.Tape.Reset()
	prior := DiagonalNormal[T]{Mean: a.Tape.Const(a.Mean), SD: a.Tape.Const(a.SD)}
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

// store stores z, the point of the last gradient, and the densities and gradient there in p.
func (b *bridge[T]) store(z *ad.Var[T], p *Particles[T]) {
	if b.logJoint == nil { // the target has a closed form
		b.logJoint = b.LogJoint(z)
	}
	for j, l := range b.prior.LogDensity(z).Value.Data {
		p.logPrior[j], p.logJoint[j] = float64(l), float64(b.logJoint.Value.Data[j])
	}
	linalg.Copy(p.Z, z.Value)
	linalg.Copy(p.gradU, b.gradU.Value)
}
