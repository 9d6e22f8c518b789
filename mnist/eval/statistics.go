package eval

import (
	"fmt"
	"math"

	"hvae/linalg"
)

// MeanSD returns the mean and the standard deviation of x. For a single value, sd is nil.
func MeanSD(x []float64) (mean float64, sd *float64) {
	mean, se := MeanSE(x)
	if se != nil {
		sd = new(*se * math.Sqrt(float64(len(x))))
	}
	return mean, sd
}

// MeanSE returns the mean of x and its standard error. For a single value, se is nil.
func MeanSE(x []float64) (mean float64, se *float64) {
	mean, s := linalg.MeanSE(x)
	if len(x) > 1 {
		se = &s
	}
	return mean, se
}

// overImages computes vᵢ, the mean of value(r, i) over all runs r, for each image i. It returns the mean of
// all vᵢ and the standard error of this mean.
func overImages(runs []results, value func(r results, i int) float64) (mean float64, se *float64) {
	x := make([]float64, len(runs[0].estimates))
	for i := range x {
		for _, r := range runs {
			x[i] += value(r, i) / float64(len(runs))
		}
	}
	return MeanSE(x)
}

// PlusMinus formats a number and its error, such as "83.32 ± 0.05". If err is nil,
// PlusMinus formats only the number.
func PlusMinus(digits int, v float64, err *float64) string {
	v = HalfAway(v)
	if err == nil {
		return fmt.Sprintf("%.*f", digits, v)
	}
	return fmt.Sprintf("%.*f ± %.*f", digits, v, digits, *err)
}

// HalfAway moves v away from zero by 1e-9. A mean such as 83.315, which has no exact binary
// representation, is then printed as 83.32, as in the paper.
func HalfAway(v float64) float64 { return v + math.Copysign(1e-9, v) }

// Bounds holds bounds on log p(x) from annealed importance sampling, averaged over images and runs.
// Standard errors are computed over images. They are null if there is only one image.
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
	Acceptance *float64 `json:"acceptance"` // null if Steps is 1, because there are no transitions
}

// newBounds returns the Bounds computed from the results of all runs.
func newBounds(a Annealing, runs []results) *Bounds {
	b := &Bounds{Method: "ais", Steps: a.Steps, Chains: a.Chains}
	b.Lower, b.LowerSE = overImages(runs, func(r results, i int) float64 { return r.lower[i] })
	b.Missed, b.MissedSE = overImages(runs, func(r results, i int) float64 { return r.lower[i] - r.estimates[i].logEvidence })
	if runs[0].upper != nil {
		upper, upperSE := overImages(runs, func(r results, i int) float64 { return r.upper[i] })
		gap, gapSE := overImages(runs, func(r results, i int) float64 { return r.upper[i] - r.lower[i] })
		b.Upper, b.UpperSE, b.Gap, b.GapSE = &upper, upperSE, &gap, gapSE
	}
	acceptance := 0.0
	for _, r := range runs {
		acceptance += r.acceptance / float64(len(runs))
	}
	if a.Steps > 1 {
		b.Acceptance = &acceptance
	}
	return b
}
