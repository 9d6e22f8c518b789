package eval

import (
	"math"
	"testing"
)

// Bounds are means over runs of means over images.
func TestBoundsAreMeansOverRuns(t *testing.T) {
	c := (&bounder{
		images: Dataset{Simulated: true},
		lower:  []float64{-30, -60}, upper: []float64{-27, -54}, importance: []float64{-33, -66}, acceptance: []float64{0.5, 0.6, 0.9},
	}).bounds()
	for what, v := range map[string][2]float64{
		"lower": {c.Lower, -15}, "upper": {*c.Upper, -13.5}, "gap": {*c.Gap, 1.5}, "missed": {c.Missed, 1.5}, "acceptance": {*c.Acceptance, 2. / 3},
		"lower_se": {*c.LowerSE, 5}, "gap_se": {*c.GapSE, 0.5},
	} {
		if !(math.Abs(v[0]-v[1]) <= 1e-12) {
			t.Errorf("%s is %v, want %v", what, v[0], v[1])
		}
	}
}
