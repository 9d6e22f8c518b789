package hvae

import (
	"math"

	"hvae/ad"
	"hvae/linalg"
)

// Bounded maps each element of y ∈ ℝ [ℓ×B] to v in the interval (lo, hi), as Constrain does. It also returns the log
// Jacobian Σ_j log dv_j/dy_j [1×B]. With it, a variable v with bounded support becomes a latent variable y without
// bounds: LogJoint(y) returns log p_θ(x, v) plus the log Jacobian, and the evidence does not change.
func Bounded[T linalg.Float](y *ad.Var[T], lo, hi float64) (v, logJacobian *ad.Var[T]) {
	slope := y // log dv/dy for v = lo + exp(y)
	if !math.IsInf(hi, 1) {
		// log((hi − lo)·sigmoid(y)·sigmoid(−y)), where log sigmoid(y) = y + log sigmoid(−y) = −softplus(−y)
		slope = ad.Sub(ad.Neg(y), ad.Scale(ad.Softplus(ad.Neg(y)), 2))
		slope = ad.AddConst(slope, T(math.Log(hi-lo)))
	}
	return Constrain(y, lo, hi), ad.SumTo(slope, 1, y.Cols())
}
