package hvaetest

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/linalg/random"
)

// A Scheme describes the tempering and step sizes of a flow.
type Scheme struct {
	Tempering string // "none", "fixed" or "free"
	K         int    // number of steps
	PerLayer  bool   // whether each step has separate step sizes
}

// Schemes returns schemes with no, fixed and free tempering for each of K = 0, 1, 2 and 5. For K > 1, there are two
// schemes of each kind: one with the same step sizes for all steps, and one with separate step sizes for each step.
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

// String returns a unique name such as "tempering free, K = 2, ε varied".
func (s Scheme) String() string {
	return fmt.Sprintf("tempering %s, K = %d%s", s.Tempering, s.K, map[bool]string{true: ", ε varied"}[s.PerLayer])
}

// Flow returns the flow of the scheme for a target in dims dimensions. Step sizes are 0.25 to 0.4. Fixed tempering has
// 1/√β₀ = 1.4, and free tempering has α_k between 0.84 and 0.96.
func (s Scheme) Flow(t *ad.Tape[float64], target hvae.Target[float64], dims int) *hvae.Flow[float64] {
	rows := 1
	if s.PerLayer {
		rows = s.K
	}
	epsilon, alpha := t.Matrix(rows, dims), t.Matrix(s.K, 1)
	for i := range epsilon.Data {
		epsilon.Data[i] = 0.25 + 0.05*float64(i%4)
	}
	for k := range alpha.Data {
		alpha.Data[k] = 0.96 - 0.06*float64(k%3)
	}
	f := &hvae.Flow[float64]{Target: target, K: s.K, StepSize: t.Leaf(epsilon)}
	switch s.Tempering {
	case "fixed":
		f.Tempering = hvae.FixedTempering(s.K, t.Scalar(1.4))
	case "free":
		f.Tempering = hvae.FreeTempering(t.Leaf(alpha))
	}
	return f
}

// Inverse returns (z₀, ρ₀) = H⁻¹(z_K, ρ_K) for the flow H = f and s = (z_K, ρ_K). The inverse of a
// leapfrog step is a leapfrog step with the opposite step sizes.
func Inverse(f *hvae.Flow[float64], s hvae.Phase[float64]) hvae.Phase[float64] {
	alpha := f.Tempering.Alpha()
	for k := f.K - 1; k >= 0; k-- {
		if alpha != nil {
			s.Rho = ad.Div(s.Rho, ad.RowRange(alpha, k, k+1))
		}
		row := min(k, f.StepSize.Rows()-1)
		s = hvae.Leapfrog(f.Target, ad.Neg(ad.RowRange(f.StepSize, row, row+1)), s)
	}
	return s
}

// PriorMean and PriorSD define the variational prior N(PriorMean, PriorSD²I) of HIS and Draws. It overlaps both modes.
const PriorMean, PriorSD = 0.2, 1.1

// HIS returns n draws of Algorithm 1 in dims dimensions.
func HIS(t *ad.Tape[float64], f *hvae.Flow[float64], dims, n int, rng *rand.Rand) hvae.Sample[float64] {
	prior := hvae.DiagonalNormal[float64]{Mean: t.Fill(dims, 1, PriorMean), SD: t.Fill(dims, 1, PriorSD)}
	epsilon, gamma0 := t.Matrix(dims, n), t.Matrix(dims, n)
	random.FillNormal(rng, epsilon)
	random.FillNormal(rng, gamma0)
	return hvae.HIS(f, prior, t.Const(epsilon), t.Const(gamma0))
}

// Draws returns log p̂ for n draws of HIS with the flow of scheme s in dims dimensions, where n is rounded up to a
// multiple of 500. The function bind returns the target on a tape.
func Draws(s Scheme, bind func(t *ad.Tape[float64]) hvae.Target[float64], dims, n int, seed uint64) (logEstimates []float64) {
	rng := random.Stream(seed, s.String())
	var t ad.Tape[float64]
	for len(logEstimates) < n {
		t.Reset()
		logEstimates = append(logEstimates, HIS(&t, s.Flow(&t, bind(&t), dims), dims, 500, rng).LogEstimate().Value.Data...)
	}
	return logEstimates
}

// OnTape converts f, a map of phases in dims dimensions, to a map of vectors (z, ρ) [2·dims], as needed by Jacobian.
func OnTape(dims int, f func(t *ad.Tape[float64], s hvae.Phase[float64]) hvae.Phase[float64]) func(s []float64) []float64 {
	return func(s []float64) []float64 {
		var t ad.Tape[float64]
		p := f(&t, hvae.Phase[float64]{Z: t.Const(linalg.Column(s[:dims]...)), Rho: t.Const(linalg.Column(s[dims:]...))})
		return slices.Concat(p.Z.Value.Data, p.Rho.Value.Data)
	}
}
