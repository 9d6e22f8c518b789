package eval

import (
	"bytes"
	"math"
	"testing"

	"hvae/mnist/data"
	"hvae/mnist/model"
)

// Step sizes for test images must be tuned on validation images, and vice versa. Here, validation images
// are white and test images are black.
func TestStepSizesAreTunedOnTheOtherSplit(t *testing.T) {
	const n = 120
	set := data.Set{
		Train: data.Images{Pixels: bytes.Repeat([]byte{255}, n*data.Side*data.Side)},
		Test:  data.Images{Pixels: make([]byte, n*data.Side*data.Side)},
	}
	for split, want := range map[string]float32{"test": 1, "validation": 0} {
		d := Split(set, split, 1, 1)
		x, _, err := d.tuning.draw(t.Context(), model.Checkpoint{}, "test")
		if err != nil || x.Cols != tuningImages || x.Data[0] != want {
			t.Errorf("for the %s images, step sizes are tuned on %d images with pixels %v (error %v), want %d images of the other split", split, x.Cols, x.Data[0], err, tuningImages)
		}
		if y, _, err := d.draw(t.Context(), model.Checkpoint{}, "test"); err != nil || y.Data[0] != 1-want {
			t.Errorf("the %s images have pixels %v (error %v), want %v", split, y.Data[0], err, 1-want)
		}
	}
}

func TestMeanSDOmitsTheDeviationOfASingleValue(t *testing.T) {
	if mean, sd := MeanSD([]float64{1, 2, 3, 6}); mean != 3 || !(math.Abs(*sd**sd-14.0/3) <= 1e-14) {
		t.Errorf("1, 2, 3 and 6 have the mean %v and the variance %v, want 3 and 14/3", mean, *sd**sd)
	}
	if mean, sd := MeanSD([]float64{5}); mean != 5 || sd != nil {
		t.Errorf("a single 5 has the mean %v and the standard deviation %v, want 5 and nil", mean, sd)
	}
}

// JSON has no NaN, so there is no correlation if one of the two is undefined.
func TestAnUndefinedCorrelationIsOmitted(t *testing.T) {
	for _, e := range []model.Estimate{{Z0: math.NaN(), ZK: 0.1}, {Z0: 0.1, ZK: math.NaN()}} {
		if c := newCorrelation([]results{{estimates: []model.Estimate{e}}}, 10); c != nil {
			t.Errorf("the correlation of %+v is %+v, want nil", e, c)
		}
	}
}

func TestBoundsAreMeansOverImagesAndRuns(t *testing.T) {
	estimates := []model.Estimate{{LogEvidence: -11}, {LogEvidence: -22}}
	c := newBounds(&model.Annealing{Steps: 2}, []results{
		{estimates, []float64{-9, -18}, []float64{-8, -17}, 0.5},
		{estimates, []float64{-10, -20}, []float64{-9, -18}, 0.6},
		{estimates, []float64{-11, -22}, []float64{-10, -19}, 0.9},
	})
	for name, v := range map[string][2]float64{
		"lower": {c.Lower, -15}, "upper": {*c.Upper, -13.5}, "gap": {*c.Gap, 1.5}, "missed": {c.Missed, 1.5}, "acceptance": {*c.Acceptance, 2. / 3},
		"lower_se": {*c.LowerSE, 5}, "gap_se": {*c.GapSE, 0.5},
	} {
		if !(math.Abs(v[0]-v[1]) <= 1e-12) {
			t.Errorf("%s is %v, want %v", name, v[0], v[1])
		}
	}
}
