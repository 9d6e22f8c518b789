package hvae

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"hvae/ad"
	"hvae/linalg"
	"hvae/linalg/random"
)

// An AIS runs annealed importance sampling (section 2.2; Neal, 2001) with B parallel chains, which start at z₀ ~ q⁰.
// Kernel k (1 ≤ k < K) then draws z_k by Hamiltonian Monte Carlo and leaves the bridging density p^k invariant:
//
//	log p^k(z) = (1 − β_k) log q⁰(z) + β_k log p_θ(x, z),   β_k = k/K,
//	p̂_θ(x)    = Π_k p^(k+1)(z_k) / p^k(z_k),   k = 0, …, K − 1.
//
// Each kernel is reversible, so p̂_θ(x) is a special case of equation 3 (eq:generalizedJarzynski). Memory use does not
// depend on K or Leapfrogs. An AIS is safe for concurrent use.
type AIS[T linalg.Float] struct {
	Target    func(t *ad.Tape[T]) Target[T] // returns the target of the B columns on tape t
	Mean, SD  linalg.Matrix[T]              // of q⁰ = N(Mean, diag(SD²)): [ℓ×B], or [ℓ×1] if all columns are equal
	Steps     int                           // K, at least 1; for K = 1, p̂_θ(x) = p_θ(x, z₀)/q⁰(z₀)
	Leapfrogs int                           // leapfrog steps per kernel, for example 5; each step needs one gradient
	StepSizes []float64                     // leapfrog step size of each kernel [K−1] in units of SD, from Tune
}

// Forward starts the chains at draws from q⁰ and runs them. It returns their final states and their estimates log
// p̂_θ(x) [B]. The expectation of log p̂_θ(x) is at most log p_θ(x). Chain j uses the random numbers of streams[j].
//
// Forward, Reverse and Tune check ctx before each kernel and return ctx.Err() if it is done. Forward and Reverse also
// return an error if log p_θ(x, z) or log q⁰(z) is NaN at the start of a chain, for example because SD contains 0.
func (a *AIS[T]) Forward(ctx context.Context, streams []*rand.Rand) (end *Particles[T], logs []float64, err error) {
	a.check(ctx, streams)
	return a.run(ctx, a.draw(streams), streams, func(i int) int { return i })
}

// Reverse runs the chains backwards from exact draws z [ℓ×B] from the posterior p_θ(z|x), such as the z from which x
// was simulated. It returns the chains' final states and estimates log p̂_θ(x) [B], whose expectation is at least log
// p_θ(x), because E[1/p̂_θ(x)] = 1/p_θ(x) (bidirectional Monte Carlo: Grosse, Ghahramani and Adams, 2015).
func (a *AIS[T]) Reverse(ctx context.Context, z linalg.Matrix[T], streams []*rand.Rand) (
	end *Particles[T], logs []float64, err error) {
	a.check(ctx, streams)
	if z.Rows != a.Mean.Rows || z.Cols != len(streams) {
		misuse("AIS.Reverse: z is %v; it must be [%d×%d] for %d streams", z.Shape(), a.Mean.Rows, len(streams), len(streams))
	}
	return a.run(ctx, z, streams, func(i int) int { return a.Steps - i })
}

func (a *AIS[T]) check(ctx context.Context, streams []*rand.Rand) {
	mustNotBeNil("the context", ctx == nil)
	mustNotBeNil("AIS.Target", a.Target == nil)
	if len(a.StepSizes) != a.Steps-1 || a.Steps > 1 && a.Leapfrogs < 1 {
		misuse("AIS has Steps = %d, Leapfrogs = %d and %d StepSizes; they must be at least 1, at least 1 and Steps − 1 (from Tune)",
			a.Steps, a.Leapfrogs, len(a.StepSizes))
	}
	mustBeAtLeast("AIS: the number of streams", len(streams), 1)
	mustNotBeNil("AIS: a stream", slices.Contains(streams, nil))
	z, _ := linalg.Broadcast(a.Mean.Shape(), a.SD.Shape())
	if z.Rows != a.Mean.Rows || z.Rows != a.SD.Rows || z.Cols != 1 && z.Cols != len(streams) {
		misuse("AIS has Mean %v and SD %v; both must be [ℓ×1] or [ℓ×%d]", a.Mean.Shape(), a.SD.Shape(), len(streams))
	}
}

// run starts chains at z and applies the kernels in the order kernel(1), …, kernel(K−1). At the start and after each
// kernel, it adds log p^(k+1)(z)/p^k(z) = (log p_θ(x, z) − log q⁰(z))/K to log p̂_θ(x).
func (a *AIS[T]) run(ctx context.Context, z linalg.Matrix[T], streams []*rand.Rand, kernel func(i int) int) (
	*Particles[T], []float64, error) {
	p := a.at(new(ad.Tape[T]), z.Clone())
	logEstimates := make([]float64, z.Cols)
	for i := range a.Steps {
		if i > 0 {
			rate, err := a.move(ctx, p, kernel(i), streams)
			if err != nil {
				return nil, nil, err
			}
			p.Acceptance += rate
		}
		for j := range logEstimates {
			logEstimates[j] += (float64(p.logJoint[j]) - float64(p.logPrior[j])) / float64(a.Steps)
		}
		if j := slices.IndexFunc(logEstimates, math.IsNaN); j >= 0 {
			return nil, nil, fmt.Errorf("AIS: at the start of chain %d, counted from 0, log p(x, z) is %v and log q⁰(z) is %v; "+
				"neither may be NaN, and SD must be positive", j, p.logJoint[j], p.logPrior[j])
		}
	}
	p.Acceptance /= float64(a.Steps - 1)
	return p, logEstimates, nil
}

// Tune returns step sizes for which each kernel accepts about 65 % of its proposals (Neal, 2011, section 4.4). A pass
// runs all kernels once, and for K ≤ 50, there are several. Use other streams for Forward and Reverse to avoid bias.
func (a *AIS[T]) Tune(ctx context.Context, streams []*rand.Rand) (stepSizes []float64, err error) {
	const first, target, least = 0.5, 0.65, 50 // each chain applies at least about this many kernels
	tuned := *a
	tuned.StepSizes = slices.Repeat([]float64{first}, max(0, a.Steps-1))
	tuned.check(ctx, streams)
	for pass := 1; pass <= 1+least/a.Steps; pass++ {
		p := tuned.at(new(ad.Tape[T]), tuned.draw(streams))
		for i := range tuned.StepSizes {
			if pass == 1 && i > 0 {
				tuned.StepSizes[i] = tuned.StepSizes[i-1]
			}
			rate, err := tuned.move(ctx, p, i+1, streams)
			if err != nil {
				return nil, err
			}
			tuned.StepSizes[i] *= math.Exp((rate - target) / math.Sqrt(float64(pass)))
		}
	}
	return tuned.StepSizes, nil
}

// Evidence estimates the evidence of a single target from n independent chains, with step sizes that Tune finds with n
// other chains. The seed determines their random numbers. If the estimate is infinite, Evidence returns an error.
func (a *AIS[T]) Evidence(ctx context.Context, n int, seed uint64) (e Evidence, err error) {
	mustBeAtLeast("AIS.Evidence: n", n, 1)
	streams := make([]*rand.Rand, 2*n)
	for j := range streams {
		streams[j] = random.Stream(seed, "annealed importance sampling", j)
	}
	tuned := *a
	tuned.StepSizes, err = a.Tune(ctx, streams[n:])
	if err != nil {
		return e, err
	}
	_, logs, err := tuned.Forward(ctx, streams[:n])
	if err != nil {
		return e, err
	}
	e = ImportanceEstimate(logs)
	if infinite(e.Log) {
		return e, fmt.Errorf("AIS: the estimate is %v; p(x, z) is zero or infinite at the starts of the chains", e.Log)
	}
	return e, nil
}

// Particles holds the current states of B chains.
type Particles[T linalg.Float] struct {
	Z          linalg.Matrix[T] // [ℓ×B]
	Acceptance float64          // mean acceptance probability of the kernels, or NaN for K = 1

	gradU              linalg.Matrix[T] // ∇U(z) = −∇ log p_θ(x, z) [ℓ×B]
	logPrior, logJoint []T              // log q⁰(z) and log p_θ(x, z) [B]
	tape               *ad.Tape[T]      // for the computation of the next states
}

// at returns chains with states z. It resets the tape t, computes the densities and gradients on it, and copies them.
func (a *AIS[T]) at(t *ad.Tape[T], z linalg.Matrix[T]) *Particles[T] {
	t.Reset()
	gradU, logJoint := evaluate(a.Target(t), t.Const(z), true)
	logPrior := DiagonalNormal[T]{Mean: t.Const(a.Mean), SD: t.Const(a.SD)}.LogDensity(t.Const(z))
	return &Particles[T]{
		Z: z, gradU: gradU.Value.Clone(), tape: t,
		logPrior: slices.Clone(logPrior.Value.Data), logJoint: slices.Clone(logJoint.Value.Data),
	}
}

func (a *AIS[T]) draw(streams []*rand.Rand) linalg.Matrix[T] {
	z := normals[T](streams, a.Mean.Rows)
	linalg.Mul(z, a.SD, z)
	linalg.Add(z, a.Mean, z)
	return z
}

// normals returns a matrix [rows×B] of draws from N(0, 1). Column j uses the random numbers of streams[j].
func normals[T linalg.Float](streams []*rand.Rand, rows int) linalg.Matrix[T] {
	m := linalg.New[T](rows, len(streams))
	for j, rng := range streams {
		random.FillNormalColumn(rng, m, j)
	}
	return m
}

// move applies kernel k to the chains p and returns the mean acceptance probability. The kernel draws a momentum ρ ~
// N(0, I) and takes leapfrog steps from (z, ρ) to (z′, ρ′). It accepts z′ with probability min(1, exp(H(z, ρ) − H(z′,
// ρ′))), where H(z, ρ) = −log p^k(z) + ½ρᵀρ.
func (a *AIS[T]) move(ctx context.Context, p *Particles[T], k int, streams []*rand.Rand) (rate float64, err error) {
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	rho, epsilon := normals[T](streams, p.Z.Rows), linalg.New[T](a.SD.Rows, a.SD.Cols)
	linalg.Scale(epsilon, T(a.StepSizes[k-1]), a.SD)
	before, q := a.energies(p, rho, k), p
	for range a.Leapfrogs {
		a.kick(q, rho, epsilon, k)
		z := linalg.New[T](q.Z.Rows, q.Z.Cols)
		linalg.MulAdd(z, epsilon, rho, q.Z)
		q = a.at(p.tape, z)
		a.kick(q, rho, epsilon, k)
	}
	for j, after := range a.energies(q, rho, k) {
		accept := math.Exp(min(0, before[j]-after))
		if math.IsNaN(accept) { // the leapfrog steps diverged
			accept = 0
		}
		rate += accept
		if streams[j].Float64() < accept {
			for i := range p.Z.Rows {
				p.Z.Row(i)[j] = q.Z.At(i, j)
				p.gradU.Row(i)[j] = q.gradU.At(i, j)
			}
			p.logPrior[j], p.logJoint[j] = q.logPrior[j], q.logJoint[j]
		}
	}
	return rate / float64(p.Z.Cols), nil
}

// energies returns H = −log p^k(z) + ½ρᵀρ for each chain [B].
func (a *AIS[T]) energies(p *Particles[T], rho linalg.Matrix[T], k int) []float64 {
	energies, beta := make([]float64, p.Z.Cols), float64(k)/float64(a.Steps)
	for j := range energies {
		for i := range rho.Rows {
			r := float64(rho.At(i, j))
			energies[j] += 0.5 * r * r
		}
		energies[j] -= (1-beta)*float64(p.logPrior[j]) + beta*float64(p.logJoint[j])
	}
	return energies
}

// kick adds −ε/2 ⊙ ∇Uᵏ(z) to the momenta rho, where Uᵏ = −log p^k is the potential of kernel k:
//
//	∇Uᵏ(z) = (1 − β_k)(z − μ)/σ² + β_k ∇U(z).
func (a *AIS[T]) kick(p *Particles[T], rho, epsilon linalg.Matrix[T], k int) {
	t, beta := p.tape, T(float64(k)/float64(a.Steps))
	prior := ad.Div(ad.Sub(t.Const(p.Z), t.Const(a.Mean)), ad.Square(t.Const(a.SD)))
	gradU := ad.Add(ad.Scale(prior, 1-beta), ad.Scale(t.Const(p.gradU), beta))
	linalg.MulAdd(rho, ad.Scale(t.Const(epsilon), -0.5).Value, gradU.Value, rho)
}
