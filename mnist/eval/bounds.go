package eval

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"hvae/linalg"
	"hvae/linalg/random"
	"hvae/mnist/model"
)

// Bounds holds bounds of log p(x) from annealed importance sampling. The values are means over
// images and runs. Their standard errors are computed over images and are null for one image.
type Bounds struct {
	Method     string   `json:"method"`
	Steps      int      `json:"steps"`
	Chains     int      `json:"chains"`
	Lower      float64  `json:"lower"`
	LowerSE    *float64 `json:"lower_se"`
	Upper      *float64 `json:"upper"` // null unless the images are simulated
	UpperSE    *float64 `json:"upper_se"`
	Gap        *float64 `json:"gap"` // upper − lower
	GapSE      *float64 `json:"gap_se"`
	Missed     float64  `json:"missed"` // lower − the estimate from importance sampling
	MissedSE   *float64 `json:"missed_se"`
	Acceptance *float64 `json:"acceptance"` // null for one step, which has no transitions
}

// A bounder computes the bounds of several runs.
type bounder struct {
	model.Annealing
	checkpoint model.Checkpoint
	images     Dataset

	lower, upper, importance []float64 // for each image, the sum over runs
	acceptance               []float64 // mean acceptance rate of each run
}

// newBounder returns a bounder for images. It tunes the step sizes.
func newBounder(ctx context.Context, c model.Checkpoint, a model.Annealing, images Dataset) (*bounder, error) {
	x, err := images.tuning()
	if err != nil {
		return nil, err
	}
	n := len(images.Indices)
	b := &bounder{Annealing: a, checkpoint: c, images: images,
		lower: make([]float64, n), upper: make([]float64, n), importance: make([]float64, n)}
	return b, b.Tune(ctx, c.Config, c.Params, x, func(image int) *rand.Rand { return random.Stream(images.seed, "mnist ais tuning", image) })
}

// add computes the bounds of a run for images x [784×n] and adds them to the sums. If the images are
// simulated, z [ℓ×n] holds their latent variables. estimates holds the estimates of log p(x) from
// importance sampling for the same images.
func (b *bounder) add(ctx context.Context, run int, x, z linalg.Matrix[float32], estimates []model.Estimate, done func(chains int)) error {
	bound := func(purpose string, z linalg.Matrix[float32], sums []float64) (acceptance float64, err error) {
		noise := func(image, chain int) *rand.Rand {
			return random.Stream(b.images.seed, purpose, run, b.images.Indices[image], chain)
		}
		values, acceptance, err := b.Bound(ctx, b.checkpoint.Config, b.checkpoint.Params, x, z, noise, done)
		for i, v := range values {
			sums[i] += v
		}
		return acceptance, err
	}
	acceptance, err := bound("mnist ais forward", linalg.Matrix[float32]{}, b.lower)
	if err == nil && b.images.Simulated {
		_, err = bound("mnist ais reverse", z, b.upper)
	}
	for i, e := range estimates {
		b.importance[i] += e.LogEvidence
	}
	b.acceptance = append(b.acceptance, acceptance)
	return err
}

// bounds returns the means over images and runs.
func (b *bounder) bounds() *Bounds {
	mean := func(of func(i int) float64) (float64, *float64) {
		x := make([]float64, len(b.lower))
		for i := range x {
			x[i] = of(i) / float64(len(b.acceptance))
		}
		return MeanSE(x)
	}
	all := &Bounds{Method: "ais", Steps: b.Steps, Chains: b.Chains}
	all.Lower, all.LowerSE = mean(func(i int) float64 { return b.lower[i] })
	all.Missed, all.MissedSE = mean(func(i int) float64 { return b.lower[i] - b.importance[i] })
	if b.images.Simulated {
		upper, upperSE := mean(func(i int) float64 { return b.upper[i] })
		gap, gapSE := mean(func(i int) float64 { return b.upper[i] - b.lower[i] })
		all.Upper, all.UpperSE, all.Gap, all.GapSE = &upper, upperSE, &gap, gapSE
	}
	if a, _ := MeanSD(b.acceptance); !math.IsNaN(a) {
		all.Acceptance = &a
	}
	return all
}

// String returns the lines that the command eval prints.
func (b *Bounds) String() string {
	lines := fmt.Sprintf("annealed importance sampling, %d steps, %d chains", b.Steps, b.Chains)
	if b.Acceptance != nil {
		lines += fmt.Sprintf(", acceptance %.2f", *b.Acceptance)
	}
	lines += fmt.Sprintf(" (± standard errors over images)\nlog p(x) ≥ %s\n", PlusMinus(2, b.Lower, b.LowerSE))
	if b.Upper != nil {
		lines += fmt.Sprintf("log p(x) ≤ %s, a gap of %s\n", PlusMinus(2, *b.Upper, b.UpperSE), PlusMinus(2, *b.Gap, b.GapSE))
	}
	return lines + fmt.Sprintf("importance sampling says %s less than the lower bound\n", PlusMinus(2, b.Missed, b.MissedSE))
}
