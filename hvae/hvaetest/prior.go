package hvaetest

import (
	"fmt"
	"math"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/linalg/random"
)

// TestPrior checks a variational prior q⁰ in ℓ = dims dimensions, whose draws must have the same distribution in all
// columns. The function bind returns the prior on a tape. TestPrior returns an error unless Draw returns z₀ [ℓ×B] and log
// q⁰(z₀) [1×B], LogDensity of an hvae.Density agrees, and the mean of h(z₀)/q⁰(z₀) over 20,000 draws is 1 up to its
// standard error. The density h is normal, with the mean of other draws and 0.64 times their covariance. The quotient
// has a finite variance unless the tails of q⁰ are much lighter than normal tails.
func TestPrior(bind func(t *ad.Tape[float64]) hvae.Prior[float64], dims int) error {
	const draws, zBound = 20_000, 4.5 // a correct prior fails with probability 7e-6
	var t ad.Tape[float64]
	q, noise := bind(&t), [2]linalg.Matrix[float64]{}
	for i := range noise {
		noise[i] = linalg.New[float64](dims, draws)
		random.FillNormal(random.Stream(1, "hvaetest prior", i), noise[i])
	}
	z, logPrior := q.Draw(t.Const(noise[0]))
	if z.Value.Shape() != noise[0].Shape() || logPrior.Rows() != 1 || logPrior.Cols() != draws {
		return fmt.Errorf("for noise %v, z₀ is %v and log q⁰(z₀) is %v", noise[0].Shape(), z.Value.Shape(), logPrior.Value.Shape())
	}
	if density, ok := q.(hvae.Density[float64]); ok {
		got, want := density.LogDensity(z).Value.Data, logPrior.Value.Data
		if !(Distance(got, want) <= 1e-6*Norm(want)) {
			return fmt.Errorf("log q⁰(z₀) of the first draw is %v from LogDensity, but %v from Draw", got[0], want[0])
		}
	}
	other, _ := q.Draw(t.Const(noise[1]))
	mean := ad.Scale(ad.SumTo(other, dims, 1), 1.0/draws)
	centred, covariance := ad.Sub(other, mean).Value, linalg.New[float64](dims, dims)
	linalg.MatMulTB(covariance, centred, centred, make([]float64, dims*draws))
	linalg.Scale(covariance, 0.64/draws, covariance)
	h := hvae.Normal[float64]{Mean: mean, Factor: t.Const(linalg.Cholesky(covariance))}
	ratio, se := linalg.MeanSE(ad.Exp(ad.Sub(h.LogDensity(z), logPrior)).Value.Data)
	if !(math.Abs(ratio-1) <= zBound*se && se <= 0.1) {
		return fmt.Errorf("the mean of h(z₀)/q⁰(z₀) is %.3g ± %.2g; it must be 1, with a standard error of at most 0.1", ratio, se)
	}
	return nil
}
