package eval

import (
	"math"

	"hvae/mnist/model"
)

// Bounds holds bounds on log p(x) from annealed importance sampling. The values are means over
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

// newBounds returns the Bounds computed from the results of all runs.
func newBounds(a *model.Annealing, runs []results) *Bounds {
	b := &Bounds{Method: "ais", Steps: a.Steps, Chains: a.Chains}
	b.Lower, b.LowerSE = overImages(runs, func(r results, i int) float64 { return r.lower[i] })
	b.Missed, b.MissedSE = overImages(runs, func(r results, i int) float64 { return r.lower[i] - r.estimates[i].LogEvidence })
	if runs[0].upper != nil {
		upper, upperSE := overImages(runs, func(r results, i int) float64 { return r.upper[i] })
		gap, gapSE := overImages(runs, func(r results, i int) float64 { return r.upper[i] - r.lower[i] })
		b.Upper, b.UpperSE, b.Gap, b.GapSE = &upper, upperSE, &gap, gapSE
	}
	acceptance := 0.0
	for _, r := range runs {
		acceptance += r.acceptance / float64(len(runs))
	}
	if !math.IsNaN(acceptance) {
		b.Acceptance = &acceptance
	}
	return b
}
