package hvae

import (
	"math"
	"slices"

	"hvae/ad"
	"hvae/linalg"
	"hvae/linalg/numeric"
)

// An Evidence is an estimate of log p_θ(x) from L draws of p̂_θ(x). A draw diverges if its log p̂ is NaN, for example
// because leapfrog steps overflow. A diverged draw counts as p̂ = 0, so E[Log] is still at most log p_θ(x).
//
// An Evidence does not reveal whether the draws miss a region of the posterior. Compare it with an estimate from AIS,
// from another q⁰ or, for simulated x, from ReverseEstimate. Even if the two agree, both may be wrong.
type Evidence struct {
	Log float64 // log (1/L) Σ p̂ᵢ
	// StandardError is the standard error of Log, sd(p̂)/(√L·mean(p̂)). It is valid if TailShape < ½ (the p̂ᵢ are not
	// smoothed), and NaN if L = 1 or Log is infinite.
	StandardError float64
	ELBO          float64 // mean of log p̂ᵢ; NaN if a draw has diverged
	// TailShape is k̂ (numeric.TailShape), or NaN if L < 100 or Log is infinite. If k̂ > ½, p̂ has infinite variance.
	TailShape      float64
	EffectiveDraws float64 // (Σ p̂ᵢ)²/Σ p̂ᵢ², from 1 (one draw dominates) to L (all p̂ᵢ are equal); 0 if Log is infinite
	Draws          int     // L
	Diverged       int     // number of diverged draws
}

// TailLimit returns min(1 − 1/log₁₀ L, 0.7), the largest TailShape for which an estimate from smoothed p̂ᵢ is reliable
// (Vehtari et al., 2024). For L = 1,000, it is 0.667. If TailShape is greater than 0.7, no practical L suffices.
func (e Evidence) TailLimit() float64 { return min(1-1/math.Log10(float64(e.Draws)), 0.7) }

// ImportanceEstimate returns the importance-weighted estimate of log p_θ(x) from L ≥ 1 draws of log p̂_θ(x) (Burda,
// Grosse and Salakhutdinov, 2016). The expectation of the estimate is at most log p_θ(x) and grows with L.
func ImportanceEstimate(logEstimates []float64) Evidence {
	mustBeAtLeast("ImportanceEstimate: the number of draws", len(logEstimates), 1)
	e := Evidence{Draws: len(logEstimates), StandardError: math.NaN(), TailShape: math.NaN()}
	e.ELBO, _ = numeric.MeanSE(logEstimates)
	logs := slices.Clone(logEstimates)
	for i, l := range logs {
		if math.IsNaN(l) {
			e.Diverged++
			logs[i] = math.Inf(-1)
		}
	}
	L := float64(len(logs))
	e.Log = numeric.LogSumExp(logs) - math.Log(L)
	if math.IsInf(e.Log, 0) {
		return e
	}
	ratios, largest := make([]float64, len(logs)), slices.Max(logs)
	for i, l := range logs {
		ratios[i] = math.Exp(l - largest)
	}
	mean, scatter := numeric.MeanScatter(ratios)
	e.StandardError = math.Sqrt(scatter/L/(L-1)) / mean
	e.EffectiveDraws = L * (L * mean * mean / (scatter + L*mean*mean)) // the second factor is at most 1
	e.TailShape = numeric.TailShape(logs)
	return e
}

// ReverseEstimate returns the estimate −log mean(1/p̂_θ(x)) of log p_θ(x), given log p̂_θ(x) from ReverseHIS or
// AIS.Reverse. The estimates for one draw z from the posterior, with several momenta or chains, are adjacent, and
// momenta is their number. ReverseEstimate first averages 1/p̂_θ(x) for each z, because only averages for different z
// are independent. In the result, Draws is the number of draws z, TailShape and EffectiveDraws describe the averages,
// and the expectations of Log and ELBO are upper bounds on log p_θ(x). An estimate of NaN counts as 1/p̂_θ(x) = 0.
func ReverseEstimate(logEstimates []float64, momenta int) Evidence {
	if momenta < 1 || len(logEstimates)%momenta != 0 {
		misuse("ReverseEstimate: %d estimates do not fit %d momenta for each z", len(logEstimates), momenta)
	}
	var means []float64 // log mean(1/p̂) for each z
	diverged := 0
	for draws := range slices.Chunk(logEstimates, momenta) {
		inverses := make([]float64, momenta)
		for j, l := range draws {
			inverses[j] = -l
		}
		z := ImportanceEstimate(inverses)
		means, diverged = append(means, z.Log), diverged+z.Diverged
	}
	e := ImportanceEstimate(means)
	e.Log, e.ELBO, e.Diverged = -e.Log, -e.ELBO, diverged
	return e
}

// ImportanceBound returns log((1/L) Σ p̂ᵢ) [1×B], where the sum runs over the L draws of a column. In the argument log
// p̂ [1×(B·L)], these draws are adjacent (see ad.Repeat). The expected bound is at most log p_θ(x) and does not
// decrease with L (Burda, Grosse and Salakhutdinov, 2016). In the gradient, draw i has weight p̂ᵢ/Σ p̂. For the
// encoder, the signal-to-noise ratio of the gradient falls as 1/√L (Rainforth et al., Tighter variational bounds are
// not necessarily better, 2018). For L = 1, the result is log p̂. If a draw is NaN, the bound is NaN.
//
// README.md says when to use ImportanceBound. For draws from q and a posterior p, training with the ELBO decreases
// KL(q‖p), but an estimate of the evidence needs about exp(KL(p‖q)) draws (Chatterjee and Diaconis, 2018).
func ImportanceBound[T linalg.Float](logEstimates *ad.Var[T], L int) *ad.Var[T] {
	mustNotBeNil("ImportanceBound: log p̂", logEstimates == nil)
	if n := logEstimates.Cols(); L < 1 || n%L != 0 || logEstimates.Rows() != 1 {
		misuse("ImportanceBound: L is %d for log p̂ %v; log p̂ must be [1×(B·L)]", L, logEstimates.Value.Shape())
	}
	B, t := logEstimates.Cols()/L, logEstimates.Tape()
	l, largest := ad.Reshape(logEstimates, B, L), t.Matrix(B, 1)
	for j := range B {
		largest.Data[j] = slices.Max(l.Value.Row(j))
		if infinite(float64(largest.Data[j])) { // without this, −∞ − (−∞) would be NaN
			largest.Data[j] = 0
		}
	}
	shift := t.Const(largest)
	mean := ad.Scale(ad.SumTo(ad.Exp(ad.Sub(l, shift)), B, 1), 1/T(L))
	return ad.Reshape(ad.Add(ad.Log(mean), shift), 1, B)
}
