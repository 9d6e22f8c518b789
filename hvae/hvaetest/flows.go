package hvaetest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
)

// A Scheme says how to temper a flow of K steps.
type Scheme struct {
	Tempering string // "none", "fixed" or "free"
	K         int
	PerLayer  bool // step sizes of their own for each step
}

// Schemes lists every tempering for several K, with step sizes shared and varied.
func Schemes() (all []Scheme) {
	for _, K := range []int{0, 1, 2, 5} {
		for _, tempering := range []string{"none", "fixed", "free"} {
			all = append(all, Scheme{tempering, K, false})
			if K > 1 {
				all = append(all, Scheme{tempering, K, true})
			}
		}
	}
	return all
}

// String returns a name such as "tempering free, K = 2, ε varied".
func (s Scheme) String() string {
	if s.PerLayer {
		return fmt.Sprintf("tempering %s, K = %d, ε varied", s.Tempering, s.K)
	}
	return fmt.Sprintf("tempering %s, K = %d", s.Tempering, s.K)
}

// Cooling returns the scheme's tempering: 1/√β₀ = 1.4 if fixed, and α between 0.84 and 0.96 if
// free.
func (s Scheme) Cooling(t *ad.Tape[float64]) hvae.Tempering[float64] {
	switch s.Tempering {
	case "fixed":
		return hvae.FixedTempering(t.Scalar(1.4))
	case "free":
		alpha := t.Matrix(s.K, 1)
		for k := range s.K {
			alpha.Data[k] = 0.96 - 0.06*float64(k%3)
		}
		return hvae.FreeTempering(t.Leaf(alpha))
	}
	return hvae.Tempering[float64]{}
}

// Flow returns the scheme's flow for a target in ℓ dimensions, with a different step size,
// between 0.25 and 0.4, in each.
func (s Scheme) Flow(t *ad.Tape[float64], target hvae.Target[float64], dims int) *hvae.Flow[float64] {
	rows := 1
	if s.PerLayer {
		rows = s.K
	}
	epsilon := t.Matrix(rows, dims)
	for i := range epsilon.Data {
		epsilon.Data[i] = 0.25 + 0.05*float64(i%4)
	}
	return &hvae.Flow[float64]{Target: target, K: s.K, StepSize: t.Leaf(epsilon), Tempering: s.Cooling(t)}
}

// The variational prior N(PriorMean, PriorSD²I) of HIS and Draws: it overlaps both modes of
// Bimodal and is neither's shape.
const (
	PriorMean = 0.2
	PriorSD   = 1.1
)

// HIS runs Algorithm 1 for n draws in ℓ dimensions with the variational prior
// N(PriorMean, PriorSD²I).
func HIS(t *ad.Tape[float64], f *hvae.Flow[float64], dims, n int, rng *rand.Rand) hvae.Sample[float64] {
	epsilon := hvae.Noise(t, rng, dims, n)
	return hvae.HIS(f, prior{}, epsilon, hvae.Noise(t, rng, dims, n))
}

// prior is N(PriorMean, PriorSD²I).
type prior struct{}

// Draw implements hvae.Prior.
func (prior) Draw(epsilon *ad.Var[float64]) (z0, logDensity *ad.Var[float64]) {
	z0 = ad.AddConst(ad.Scale(epsilon, PriorSD), PriorMean)
	return z0, ad.AddConst(hvae.LogNormal(epsilon), -float64(epsilon.Rows())*math.Log(PriorSD))
}

// Draws returns log p̂ and the Rao-Blackwellised ELBO of n draws in ℓ dimensions with the
// scheme's flow and HIS. bind puts the target's parameters, if it has any, on a tape.
func Draws(s Scheme, bind func(t *ad.Tape[float64]) hvae.Target[float64], dims, n int, seed uint64) (logEstimates, elbos []float64) {
	const batch = 500
	rng := hvae.Stream(seed, s.String())
	var t ad.Tape[float64]
	for len(logEstimates) < n {
		t.Reset()
		sample := HIS(&t, s.Flow(&t, bind(&t), dims), dims, batch, rng)
		logEstimates = append(logEstimates, sample.LogEstimate().Value.Data...)
		elbos = append(elbos, sample.ELBO().Value.Data...)
	}
	return logEstimates, elbos
}

// OnTape turns a map of phase space in ℓ dimensions into a function of the plain vector
// (z, ρ), for Jacobian.
func OnTape(dims int, f func(t *ad.Tape[float64], s hvae.Phase[float64]) hvae.Phase[float64]) func(s []float64) []float64 {
	return func(s []float64) []float64 {
		var t ad.Tape[float64]
		p := f(&t, hvae.Phase[float64]{Z: t.Const(linalg.Column(s[:dims]...)), Rho: t.Const(linalg.Column(s[dims:]...))})
		return append(append([]float64{}, p.Z.Value.Data...), p.Rho.Value.Data...)
	}
}
