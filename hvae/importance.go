package hvae

import (
	"math"

	"hvae/linalg"
)

// ImportanceEstimate returns the importance-weighted estimate of log p_θ(x) from L
// draws of log p̂_θ(x), log (1/L) Σ p̂ᵢ (Burda, Grosse and Salakhutdinov, 2016), and its
// standard error by the delta method, sd(p̂)/(√L · mean(p̂)). In expectation the
// estimate never exceeds log p_θ(x), and it tightens as L grows. The standard error of
// a single draw is +Inf.
func ImportanceEstimate(logEstimates []float64) (logEvidence, standardError float64) {
	n := float64(len(logEstimates))
	total := linalg.LogSumExp(logEstimates)
	logEvidence = total - math.Log(n)
	if n < 2 {
		return logEvidence, math.Inf(1)
	}
	sum := 0.0
	for _, l := range logEstimates {
		d := math.Expm1(l - logEvidence) // p̂ᵢ/mean − 1
		sum += d * d
	}
	return logEvidence, math.Sqrt(sum / (n - 1) / n)
}
