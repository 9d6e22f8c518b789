package plot

import (
	"math"
	"testing"

	"hvae/bench/document"
)

// gallery returns charts that cover every style and every special case of points and ticks.
func gallery() []Chart {
	nan, inf := math.NaN(), math.Inf(1)
	var long Series // too many points for markers
	for i := range 21 {
		long.X, long.Y = append(long.X, 2*float64(i)), append(long.Y, math.Sin(float64(i)/2))
	}
	long.Label = "21 points"
	x := []float64{10, 50, 100, 300}
	return []Chart{
		{Title: "Error bars & gaps", XLabel: "ticks 10 … 300", YLabel: "logarithmic", LogY: true, Width: 300, Height: 200,
			XTicks: []float64{10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120, 200, 250, 300},
			Series: []Series{
				{Label: "a < b", X: x, Y: []float64{1, 10, 100, 1e4}, Error: []float64{0.93, 12, 99.9, 0}}, // the second bar contains negative numbers
				{Label: "same points", X: x, Y: []float64{1, 10, 100, 1e4}},
				{Label: "gaps", X: []float64{10, 50, 100, 200, 250, 300}, Y: []float64{2, 3, nan, 0, inf, 5}},
				{Label: "reference", X: []float64{10, 300}, Y: []float64{3, 3}, Style: Dashed},
			}},
		{Title: "Styles", XLabel: "x", YLabel: "y", Equal: true, Series: []Series{
			long,
			{Label: "thin", X: []float64{0, 10, nan, 30, 40}, Y: []float64{-5, -6, nan, -5, -4}, Style: Thin},
			{Label: "points", X: []float64{0, 40}, Y: []float64{6, 7}, Style: Points},
			{Label: "other points", X: []float64{0, 40}, Y: []float64{7, 6}, Style: Points},
		}},
		{XLabel: "one value", YLabel: "nothing", Height: 60, Series: []Series{{Label: "a < b", X: []float64{5}, Y: []float64{nan}}}},
		{XLabel: "few powers", YLabel: "many powers", LogX: true, LogY: true, Series: []Series{
			{Label: "reference", X: []float64{7, 57}, Y: []float64{1e-6, 1e14}, Style: Dashed},
		}},
		{XLabel: "short numbers", YLabel: "large numbers", Height: 100, Series: []Series{
			{Label: "thin", X: []float64{1.1, 2.05}, Y: []float64{-2.25e6, 1e6}, Style: Thin},
		}},
		{XLabel: "small numbers", YLabel: "one power", LogY: true, Height: 100, Series: []Series{
			{Label: "thin", X: []float64{2e-6, 8.3e-6}, Y: []float64{0.3, 0.3}, Style: Thin},
		}},
	}
}

func TestGalleryMatchesTheCheckedInFigure(t *testing.T) {
	document.File(t, "testdata/gallery.svg", Panels(2, gallery()...))
}

// Between numbers that have the same label, an axis has at most one tick.
func TestAxesOfNearlyEqualNumbers(t *testing.T) {
	for _, values := range [][]float64{{-105.66, -105.66000000000003}, {99.99999999999996, 100}, {1e17}, {-1e300}} {
		a := newAxis(false, nil, values)
		a.to = 1
		if len(a.ticks) > 1 || !finite(a.at(values[0])) {
			t.Errorf("for the values %v, the ticks are %v, and the first value is at %v", values, a.ticks, a.at(values[0]))
		}
	}
}
