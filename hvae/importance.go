package hvae

import (
	"math"
	"slices"

	"hvae/ad"
	"hvae/linalg"
)

// An Evidence is an estimate of log p_θ(x) from L draws of p̂_θ(x).
type Evidence struct {
	Log           float64 // log (1/L) Σ p̂ᵢ
	StandardError float64 // of Log, sd(p̂)/(√L · mean(p̂)) by the delta method; NaN for L = 1
	// TailShape is the shape k̂ of a generalised Pareto distribution that is fitted to the tail, the largest min(L/5,
	// 3√L) values p̂ᵢ. For k̂ > ½, p̂ has infinite variance and StandardError is too small. For k̂ > 0.7, no practical L
	// suffices (Vehtari et al., Pareto smoothed importance sampling, 2024). TailShape is +Inf if the largest p̂ᵢ exceeds
	// the first quartile of the tail by more than a factor of e⁷⁰⁰. It is NaN if the tail has fewer than five values, or
	// if its first quartile equals the largest value below the tail, up to rounding relative to the largest p̂ᵢ.
	TailShape float64
}

// ImportanceEstimate returns the importance-weighted estimate of log p_θ(x) from L draws of log p̂_θ(x) (Burda, Grosse
// and Salakhutdinov, 2016). The expectation of the estimate is at most log p_θ(x) and grows with L.
func ImportanceEstimate(logEstimates []float64) Evidence {
	mean := linalg.LogSumExp(logEstimates) - math.Log(float64(len(logEstimates)))
	ratios := make([]float64, len(logEstimates)) // p̂ᵢ/mean
	for i, l := range logEstimates {
		ratios[i] = math.Exp(l - mean)
	}
	_, se := linalg.MeanSE(ratios)
	return Evidence{mean, se, tailShape(logEstimates)}
}

// ImportanceBound returns log (1/L) Σ p̂ᵢ [1×B] over the L adjacent draws of each column of log p̂ [1×(B·L)]. Its
// expectation is a lower bound on log p_θ(x) that does not decrease with L (Burda, Grosse and Salakhutdinov, 2016). Its
// gradient weights each draw by p̂ᵢ/Σ p̂. The signal-to-noise ratio of the gradient with respect to the encoder falls as
// 1/√L (Rainforth et al., Tighter variational bounds are not necessarily better, 2018). For L = 1, the result is log p̂.
func ImportanceBound[T linalg.Float](logEstimates *ad.Var[T], L int) *ad.Var[T] {
	require(logEstimates.Rows() == 1 && L > 0 && logEstimates.Cols()%L == 0, "ImportanceBound: log p̂ is %v for L = %d; it must be [1×(B·L)]", logEstimates.Value.Shape(), L)
	B, t := logEstimates.Cols()/L, logEstimates.Tape()
	l, largest := ad.Reshape(logEstimates, B, L), t.Matrix(B, 1)
	for j := range B {
		largest.Data[j] = max(slices.Max(l.Value.Row(j)), -math.MaxFloat32) // −∞ − (−∞) would be NaN
	}
	shift := t.Const(largest)
	mean := ad.Scale(ad.SumTo(ad.Exp(ad.Sub(l, shift)), B, 1), 1/T(L))
	return ad.Reshape(ad.Add(ad.Log(mean), shift), 1, B)
}

// tailShape returns Evidence.TailShape, given the logarithms of the values p̂ᵢ. It computes the empirical
// Bayes estimate of Zhang and Stephens (2009) and shrinks it towards ½ by the weak prior of Vehtari et al.
func tailShape(logWeights []float64) float64 {
	l := len(logWeights)
	n := int(math.Ceil(min(float64(l)/5, 3*math.Sqrt(float64(l)))))
	if n < 5 {
		return math.NaN()
	}
	x := slices.Sorted(slices.Values(logWeights))
	largest, cutoff := x[l-1], x[l-n-1]
	x = x[l-n:]
	quartile := (n+2)/4 - 1 // index of the first quartile
	if x[quartile]-largest < -700 {
		return math.Inf(1)
	}
	for i, w := range x {
		x[i] = math.Exp(w-largest) - math.Exp(cutoff-largest) // excess of p̂ over the cutoff, relative to the largest p̂
	}
	shape := func(theta float64) (k float64) { // returns the maximum-likelihood k for θ = −k/scale
		for _, v := range x {
			k += math.Log1p(-theta*v) / float64(n)
		}
		return k
	}
	m := 30 + math.Floor(math.Sqrt(float64(n)))
	var thetas, logLikelihoods []float64
	for j := 1.0; j <= m; j++ {
		theta := 1/x[n-1] + (1-math.Sqrt(m/(j-0.5)))/(3*x[quartile])
		k := shape(theta)
		thetas, logLikelihoods = append(thetas, theta), append(logLikelihoods, float64(n)*(math.Log(-theta/k)-k-1))
	}
	total, mean := linalg.LogSumExp(logLikelihoods), 0.0
	for j, theta := range thetas {
		mean += theta * math.Exp(logLikelihoods[j]-total)
	}
	return (shape(mean)*float64(n) + 10*0.5) / float64(n+10)
}
