package numeric

import (
	"math"
	"slices"
)

// TailShape returns the shape k̂ of a generalised Pareto distribution fitted to the tail of L weights wᵢ, given log wᵢ
// (Vehtari et al., Pareto smoothed importance sampling, 2024). The tail consists of the min(L/5, 3√L) largest weights.
// For k̂ > ½, the weights have infinite variance. The result is NaN if L < 100.
//
// Let q be the first quartile of the tail. The result is −Inf if the tail is constant to within 0.1 %, +Inf if the
// largest weight is more than e⁷⁰⁰·q, and NaN if a weight outside the tail equals q. TailShape computes the empirical
// Bayes estimate of Zhang and Stephens (2009) and shrinks it towards ½ with the weak prior of Vehtari et al.
func TailShape(logWeights []float64) float64 {
	l := len(logWeights)
	if l < 100 {
		return math.NaN()
	}
	n := int(math.Ceil(min(float64(l)/5, 3*math.Sqrt(float64(l)))))
	x := slices.Sorted(slices.Values(logWeights))
	largest, cutoff := x[l-1], x[l-n-1] // cutoff is the largest value outside the tail
	x = x[l-n:]
	quartile := (n+2)/4 - 1 // index of the first quartile
	switch {
	case largest-cutoff < 1e-3:
		return math.Inf(-1)
	case x[quartile]-largest < -700:
		return math.Inf(1)
	}
	for i, w := range x {
		x[i] = math.Exp(w-largest) - math.Exp(cutoff-largest) // excess of w over the cutoff, relative to the largest w
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
	total, mean := LogSumExp(logLikelihoods), 0.0
	for j, theta := range thetas {
		mean += theta * math.Exp(logLikelihoods[j]-total)
	}
	return (shape(mean)*float64(n) + 10*0.5) / float64(n+10)
}
