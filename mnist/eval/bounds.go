package eval

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"hvae/linalg"
	"hvae/linalg/random"
	"hvae/mnist/data"
	"hvae/mnist/model"
)

// Bounds are bounds of log p(x) by annealed importance sampling: means over images and runs,
// with standard errors over images.
type Bounds struct {
	Method     string   `json:"method"`
	Steps      int      `json:"steps"`
	Chains     int      `json:"chains"`
	Lower      float64  `json:"lower"`
	LowerSE    *float64 `json:"lower_se"` // null for one image, as the other errors
	Upper      *float64 `json:"upper"`    // null unless the images are simulated
	UpperSE    *float64 `json:"upper_se"`
	Gap        *float64 `json:"gap"` // upper − lower
	GapSE      *float64 `json:"gap_se"`
	Missed     float64  `json:"missed"` // lower − the estimate by importance sampling
	MissedSE   *float64 `json:"missed_se"`
	Acceptance *float64 `json:"acceptance"` // null for one step, which has no transitions
}

// A bounder computes bounds and adds them up over runs.
type bounder struct {
	model.Annealing
	checkpoint model.Checkpoint
	images     Dataset

	lower, upper, importance []float64 // sums over runs, for each image
	acceptance               []float64 // of each run
}

// newBounder returns a bounder with tuned step sizes.
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

// add adds the bounds of a run. The estimates are importance sampling's for the same images.
func (b *bounder) add(ctx context.Context, run int, fill Fill, z linalg.Matrix[float32], estimates []model.Estimate, done func(chains int)) error {
	x, one := linalg.New[float32](data.Side*data.Side, len(estimates)), linalg.New[float32](data.Side*data.Side, 1)
	for j := range x.Cols {
		fill(j, one, new(random.Keyed))
		for i, v := range one.Data {
			x.Row(i)[j] = v
		}
	}
	noise := func(purpose string) func(image, chain int) *rand.Rand {
		return func(image, chain int) *rand.Rand {
			return random.Stream(b.images.seed, purpose, run, b.images.Indices[image], chain)
		}
	}
	lower, acceptance, err := b.Bound(ctx, b.checkpoint.Config, b.checkpoint.Params, x, linalg.Matrix[float32]{}, noise("mnist ais forward"), done)
	if err != nil {
		return err
	}
	upper := make([]float64, len(lower))
	if b.images.Simulated {
		if upper, _, err = b.Bound(ctx, b.checkpoint.Config, b.checkpoint.Params, x, z, noise("mnist ais reverse"), done); err != nil {
			return err
		}
	}
	for i, e := range estimates {
		b.lower[i] += lower[i]
		b.upper[i] += upper[i]
		b.importance[i] += e.LogEvidence
	}
	b.acceptance = append(b.acceptance, acceptance)
	return nil
}

// bounds returns the means over all runs.
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
	if a, _ := model.MeanSD(b.acceptance); !math.IsNaN(a) {
		all.Acceptance = &a
	}
	return all
}

// String returns the lines that eval prints.
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
