package plot

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// gallery returns charts with every style and every special case.
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
			{X: []float64{0, 40}, Y: []float64{-7, -7}}, // without a label
		}},
		{XLabel: "one value", YLabel: "nothing", Height: 60, Series: []Series{{Label: "a < b", X: []float64{5}, Y: []float64{nan}}}},
		{XLabel: "few powers", YLabel: "many powers", LogX: true, LogY: true, Series: []Series{
			{Label: "reference", X: []float64{7, 57}, Y: []float64{1e-6, 1e9}, Style: Dashed},
		}},
	}
}

func TestGalleryMatchesTheCheckedInFigure(t *testing.T) {
	got := Panels(2, gallery()...)
	want, err := os.ReadFile("testdata/gallery.svg")
	if err != nil || !bytes.Equal(got, want) {
		name := filepath.Join(os.TempDir(), "gallery.svg")
		err := os.WriteFile(name, got, 0o644)
		t.Errorf("the charts differ from testdata/gallery.svg; if %s (error %v) looks right, copy it to testdata", name, err)
	}
}

func TestTicksAreRoundAndShort(t *testing.T) {
	for _, c := range []struct {
		log    bool
		values []float64
		want   string
	}{
		{false, []float64{1, 2, 3, 30}, "0 10 20 30"},
		{false, []float64{1.1, 2.05}, "1.2 1.4 1.6 1.8 2"},
		{false, []float64{2e-6, 8.3e-6}, "0.000002 0.000004 0.000006 0.000008"},
		{false, []float64{-2.25e6, 1e6}, "−2000000 −1000000 0 1000000"},
		{true, []float64{2e-3, 5e5}, "10⁻³ 10⁻² 10⁻¹ 10⁰ 10¹ 10² 10³ 10⁴ 10⁵ 10⁶"},
		{true, []float64{1e-12, 1e13}, "10⁻¹² 10⁻⁹ 10⁻⁶ 10⁻³ 10⁰ 10³ 10⁶ 10⁹ 10¹²"},
		{true, []float64{0.2, 40}, "0.2 0.5 1 2 5 10 20 50"},
		{true, []float64{0.3}, "0.1 0.2 0.5"},
		{false, []float64{-100.5}, "−101 −100.8 −100.6 −100.4 −100.2 −100"},
		{false, nil, "0 0.2 0.4 0.6 0.8 1"},
	} {
		var labels []string
		a := newAxis(c.log, nil, c.values)
		for _, tick := range a.ticks {
			labels = append(labels, a.label(tick))
		}
		if got := strings.Join(labels, " "); got != c.want {
			t.Errorf("values %v, logarithmic axis %v: the ticks are %s, want %s", c.values, c.log, got, c.want)
		}
	}
}
