package paper_test

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/linalg/random"
)

// A scheme describes the tempering and step sizes of a flow.
type scheme struct {
	Tempering string // "none", "fixed" or "free"
	K         int    // number of steps
	PerLayer  bool   // whether each step has separate step sizes
}

// schemes returns schemes with no, fixed and free tempering for each of K = 0, 1, 2 and 5. For K > 1, there are two
// schemes of each kind: one with the same step sizes for all steps, and one with separate step sizes for each step.
func schemes() (all []scheme) {
	for _, K := range []int{0, 1, 2, 5} {
		for _, tempering := range []string{"none", "fixed", "free"} {
			all = append(all, scheme{tempering, K, false})
			if K > 1 {
				all = append(all, scheme{tempering, K, true})
			}
		}
	}
	return all
}

// String returns a unique name such as "tempering free, K = 2, ε varied".
func (s scheme) String() string {
	return fmt.Sprintf("tempering %s, K = %d%s", s.Tempering, s.K, map[bool]string{true: ", ε varied"}[s.PerLayer])
}

// Flow returns the flow of the scheme for a target in dims dimensions. Step sizes are 0.25 to 0.4. Fixed tempering has
// 1/√β₀ = 1.4, and free tempering has α_k between 0.84 and 0.96.
func (s scheme) Flow(t *ad.Tape[float64], target hvae.Target[float64], dims int) *hvae.Flow[float64] {
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

// priorMean and priorSD define the variational prior N(priorMean, PriorSD²I) of drawHIS and logEstimates. It overlaps both modes.
const priorMean, priorSD = 0.2, 1.1

// drawHIS returns n draws of Algorithm 1 in dims dimensions.
func drawHIS(t *ad.Tape[float64], f *hvae.Flow[float64], dims, n int, rng *rand.Rand) hvae.Sample[float64] {
	prior := hvae.DiagonalNormal[float64]{Mean: t.Fill(dims, 1, priorMean), SD: t.Fill(dims, 1, priorSD)}
	epsilon, gamma0 := t.Matrix(dims, n), t.Matrix(dims, n)
	random.FillNormal(rng, epsilon)
	random.FillNormal(rng, gamma0)
	return hvae.HIS(f, prior, t.Const(epsilon), t.Const(gamma0))
}

// logEstimates returns log p̂ for n draws of drawHIS with the flow of scheme s in dims dimensions, where n is rounded up to a
// multiple of 500. The function bind returns the target on a tape.
func logEstimates(s scheme, bind func(t *tape) hvae.Target[float64], dims, n int, seed uint64) (all []float64) {
	rng := random.Stream(seed, s.String())
	var t tape
	for len(all) < n {
		t.Reset()
		all = append(all, drawHIS(&t, s.Flow(&t, bind(&t), dims), dims, 500, rng).LogEstimate().Value.Data...)
	}
	return all
}

// onTape converts f, a map of phases in dims dimensions, to a map of vectors (z, ρ) [2·dims], as needed by Jacobian.
func onTape(dims int, f func(t *ad.Tape[float64], s hvae.Phase[float64]) hvae.Phase[float64]) func(s []float64) []float64 {
	return func(s []float64) []float64 {
		var t ad.Tape[float64]
		p := f(&t, hvae.Phase[float64]{Z: t.Const(linalg.Column(s[:dims]...)), Rho: t.Const(linalg.Column(s[dims:]...))})
		return slices.Concat(p.Z.Value.Data, p.Rho.Value.Data)
	}
}

// slope returns f′(0) by Richardson extrapolation of central differences with step sizes h and h/2.
func slope(f func(float64) float64, h float64) float64 {
	central := func(h float64) float64 { return (f(h) - f(-h)) / (2 * h) }
	return (4*central(h/2) - central(h)) / 3
}

// apply returns the slice y with elements y_i = f(x_i).
func apply(x []float64, f func(float64) float64) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = f(v)
	}
	return y
}

// differences returns a − b, element by element. If a and b are two estimates from the same noise,
// their difference often has a smaller variance than either estimate.
func differences(a, b []float64) []float64 {
	d := make([]float64, len(a))
	for i := range a {
		d[i] = a[i] - b[i]
	}
	return d
}

// integrate returns an approximate integral of f from lo to hi, h·Σ_i f(lo + ih) for i = 0, …, n and h = (hi − lo)/n.
// If f is smooth and vanishes near both ends, the error decreases faster than any power of 1/n.
func integrate(f func(float64) float64, lo, hi float64, n int) float64 {
	h, sum := (hi-lo)/float64(n), 0.0
	for i := range n + 1 {
		sum += f(lo + float64(i)*h)
	}
	return sum * h
}
