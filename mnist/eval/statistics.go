package eval

import (
	"encoding/json"
	"fmt"
	"math"

	"hvae/linalg"
)

// A Number is a statistic. It is NaN if it is undefined, like the standard deviation of a single value. NaN is encoded
// as null in JSON.
type Number float64

func (n Number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(n)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

func (n *Number) UnmarshalJSON(b []byte) error {
	*n = undefined // null does not change this value
	return json.Unmarshal(b, (*float64)(n))
}

var undefined = Number(math.NaN())

func finite(n Number) bool { return n-n == 0 }

// MeanSE returns the mean of x and its standard error, which is NaN for a single value.
func MeanSE(x []float64) (mean, se Number) {
	m, s := linalg.MeanSE(x)
	return Number(m), Number(s)
}

// MeanSD returns the mean and the sample standard deviation of x, which is NaN for a single value.
func MeanSD(x []float64) (mean, sd Number) {
	mean, se := MeanSE(x)
	return mean, se * Number(math.Sqrt(float64(len(x))))
}

// PlusMinus formats a number and its error, such as "83.32 ± 0.05". If err is NaN, PlusMinus formats only the number.
func PlusMinus(v, err Number) string {
	text := fmt.Sprintf("%.2f", HalfAway(v))
	if !math.IsNaN(float64(err)) {
		text += fmt.Sprintf(" ± %.2f", err)
	}
	return text
}

// HalfAway moves v away from zero by 1e-9. A mean such as 83.315, which has no exact binary
// representation, is then printed as 83.32, as in the paper.
func HalfAway(v Number) Number { return v + Number(math.Copysign(1e-9, float64(v))) }

// Bounds holds bounds on log p(x) from annealed importance sampling, averaged over images and runs.
// Standard errors are computed over images.
type Bounds struct {
	Method     string `json:"method"`
	Steps      int    `json:"steps"`
	Chains     int    `json:"chains"`
	Lower      Number `json:"lower"`
	LowerSE    Number `json:"lower_se"`
	Upper      Number `json:"upper"` // undefined unless the images are simulated
	UpperSE    Number `json:"upper_se"`
	Gap        Number `json:"gap"` // upper − lower
	GapSE      Number `json:"gap_se"`
	Missed     Number `json:"missed"` // lower − the estimate from importance sampling
	MissedSE   Number `json:"missed_se"`
	Acceptance Number `json:"acceptance"`
}

// newBounds returns the Bounds computed from the estimates of all runs.
func newBounds(o Options, runs [][]estimate, acceptance float64) *Bounds {
	b := &Bounds{Method: "ais", Steps: o.Steps, Chains: o.Chains, Acceptance: Number(acceptance)}
	b.Lower, b.LowerSE = overImages(runs, func(e estimate) float64 { return e.lower })
	b.Upper, b.UpperSE = overImages(runs, func(e estimate) float64 { return e.upper })
	b.Gap, b.GapSE = overImages(runs, func(e estimate) float64 { return e.upper - e.lower })
	b.Missed, b.MissedSE = overImages(runs, func(e estimate) float64 { return e.lower - e.logEvidence })
	return b
}

// overImages computes the mean of a value over all runs for each image. It returns the mean over images of the results
// and the standard error of this mean.
func overImages(runs [][]estimate, value func(e estimate) float64) (mean, se Number) {
	x := make([]float64, len(runs[0]))
	for _, estimates := range runs {
		for i, e := range estimates {
			x[i] += value(e) / float64(len(runs))
		}
	}
	return MeanSE(x)
}
