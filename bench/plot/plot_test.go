package plot

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hvae/bench/plot/plottest"
)

func near(got, want, tolerance float64) bool { return math.Abs(got-want) <= tolerance }

// almost treats pixel positions as equal if they differ by at most 0.11, because the SVG document
// contains positions rounded to a tenth of a pixel.
var almost = cmp.Comparer(func(a, b float64) bool { return near(a, b, 0.11) })

// read draws a chart and reads it with package plottest.
func read(t *testing.T, c Chart) plottest.Panel {
	t.Helper()
	return plottest.Read(t, c.SVG(), c.LogX, c.LogY)[0]
}

func TestChartsShowTheirSeriesAndTexts(t *testing.T) {
	x, y := []float64{1, 2, 5, 11, 30}, []float64{0.03, 2, 40, 3e3, 5e5}
	errors := []float64{0.01, 0.5, 30, 1e3, 1e5}
	other := []float64{0.02, 1, 60, 1e3, 1e6}
	for _, c := range []Chart{
		{LogX: true, LogY: true, XTicks: x},
		{LogY: true},
		{LogX: true},
		{},
		{XTicks: []float64{0, 10, 20}, LogY: true, Dodge: true},
	} {
		c.Title, c.XLabel, c.YLabel = "a < b & c", "dimension", "error"
		c.Series = []Series{{Label: "one", X: x, Y: y, Error: errors}, {Label: "reference", X: x, Y: y, Style: Dashed}, {Label: "two", X: x, Y: other}}
		p := read(t, c)
		if c.Dodge {
			c.XLabel += " (markers are shifted sideways)"
		}
		if p.Title != c.Title || p.XLabel != c.XLabel || p.YLabel != c.YLabel || len(p.Series) != 3 {
			t.Fatalf("the chart has the title %q, the axis labels %q and %q and %d series, want the texts of the Chart and 3 series", p.Title, p.XLabel, p.YLabel, len(p.Series))
		}
		if c.XTicks != nil && !slices.EqualFunc(p.X.Ticks, c.XTicks, func(t plottest.Tick, v float64) bool { return t.Value == v }) {
			t.Errorf("the ticks are %v, want %v", p.X.Ticks, c.XTicks)
		}
		for i, s := range c.Series {
			drawn, shift := p.Series[i], 0.0
			if c.Dodge {
				shift = []float64{-2.5, 0, 2.5}[i] // of the markers, not of the line
			}
			onLine := func(marker plottest.Point) plottest.Point {
				return plottest.Point{X: marker.X - shift, Y: marker.Y}
			}
			if drawn.Label != s.Label || len(drawn.Line) != 1 || len(drawn.Line[0]) != len(x) || i != 1 && len(drawn.Markers) != len(x) || i == 1 && drawn.Markers != nil {
				t.Fatalf("the series %q is drawn as %+v, want one line with %d points and, unless it is dashed, markers", s.Label, drawn, len(x))
			}
			for j, d := range drawn.Line[0] {
				if !p.X.Near(d.X, x[j]) || !p.Y.Near(d.Y, s.Y[j]) || i != 1 && cmp.Diff(onLine(drawn.Markers[j]), d, almost) != "" {
					t.Errorf("%q: the point (%v, %v) is drawn at the pixels %v, want (%v, %v)", s.Label, x[j], s.Y[j], d, p.X.Pixel(x[j]), p.Y.Pixel(s.Y[j]))
				}
			}
			if len(drawn.Bars) != len(s.Error) {
				t.Fatalf("%q has %d error bars, want %d", s.Label, len(drawn.Bars), len(s.Error))
			}
			for j, b := range drawn.Bars {
				if b.X != drawn.Markers[j].X || !p.Y.Near(b.Low, y[j]-errors[j]) || !p.Y.Near(b.High, y[j]+errors[j]) || !b.Foot {
					t.Errorf("the error bar of %v ± %v is %+v, want pixels %v to %v", y[j], errors[j], b, p.Y.Pixel(y[j]-errors[j]), p.Y.Pixel(y[j]+errors[j]))
				}
			}
		}
	}
}

// labels returns the labels of an axis.
func labels(a axis) (list []string) {
	for _, t := range a.ticks {
		list = append(list, t.label)
	}
	return list
}

// axisOf returns an axis for the values v.
func axisOf(log bool, v ...float64) axis {
	return newAxis(log, nil, []Series{{Y: v}})
}

func TestTicksAreRoundAndShort(t *testing.T) {
	for _, c := range []struct {
		log    bool
		values []float64
		want   string
	}{
		{false, []float64{1}, "1"}, // an epoch
		{false, []float64{1, 2}, "1 2"},
		{false, []float64{1, 2, 3, 4}, "1 2 3 4"},
		{false, []float64{1, 2, 3, 30}, "0 10 20 30"},
		{false, []float64{1, 1500}, "0 500 1000 1500"},
		{false, []float64{0.2, 1.8}, "0.5 1.0 1.5"},
		{false, []float64{1.1, 2.05}, "1.2 1.4 1.6 1.8 2.0"},
		{false, []float64{-214.1, -110.25}, "−200 −180 −160 −140 −120"},
		{false, []float64{-0.5, 1.5}, "−0.5 0 0.5 1.0 1.5"},
		{false, []float64{2e-6, 8.3e-6}, "0.000002 0.000004 0.000006 0.000008"},
		{false, []float64{-2.25e6, 1e6}, "−2000000 −1000000 0 1000000"},
		{true, []float64{2e-3, 5e5}, "10⁻³ 10⁻² 10⁻¹ 10⁰ 10¹ 10² 10³ 10⁴ 10⁵ 10⁶"},
		{true, []float64{1e-12, 1e13}, "10⁻¹² 10⁻⁹ 10⁻⁶ 10⁻³ 10⁰ 10³ 10⁶ 10⁹ 10¹²"},
		{true, []float64{7, 57}, "10 20 50"},
		{true, []float64{0.2, 40}, "0.2 0.5 1 2 5 10 20 50"},
		{true, []float64{4, 6}, "4.0 4.5 5.0 5.5 6.0"},
		{true, []float64{100}, "50 100 200"},
		{true, []float64{0.3}, "0.1 0.2 0.5"},
		{false, []float64{-0.25}, "−0.6 −0.4 −0.2 0 0.2"},
		{false, []float64{-100.5}, "−110 −105 −100 −95"},
		{false, nil, "0 1"},
	} {
		if got := strings.Join(labels(axisOf(c.log, c.values...)), " "); got != c.want {
			t.Errorf("values %v, logarithmic axis %v: the ticks are %s, want %s", c.values, c.log, got, c.want)
		}
	}
	// The labels of XTicks are not rounded.
	a := newAxis(true, []float64{1, 2.5, 301}, nil)
	if got := strings.Join(labels(a), " "); got != "1 2.5 301" {
		t.Errorf("the labels of XTicks are %s, want 1 2.5 301", got)
	}
}

func TestTicksAreAtTheirValues(t *testing.T) {
	for _, a := range []axis{axisOf(false, -3, 0.7), axisOf(false, 1, 40), axisOf(true, 1e-3, 1e3), axisOf(true, 3, 70), axisOf(true, 3, 4)} {
		for _, tick := range a.ticks {
			if v := plottest.Value(tick.label); !near(v, tick.value, 1e-12*math.Abs(v)) || a.scale(v) < a.min || a.scale(v) > a.max {
				t.Errorf("the tick at %v has the label %s on an axis from %v to %v, want its value as the label and a tick in the range", tick.value, tick.label, a.min, a.max)
			}
		}
	}
}

func TestLogarithmicAxesHaveMinorTicks(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		want      []float64
	}{
		{0.75, 110, []float64{0.6, 0.7, 0.8, 0.9, 2, 3, 4, 5, 6, 7, 8, 9, 20, 30, 40, 50, 60, 70, 80, 90}},
		{7, 57, []float64{7, 8, 9, 30, 40, 60}},
		{1, 1e12, []float64{1e1, 1e3, 1e5, 1e7, 1e9, 1e11}}, // every second power has a label
	} {
		var minor []float64
		for _, t := range axisOf(true, c.low, c.high).minor {
			minor = append(minor, t.value)
		}
		if diff := cmp.Diff(c.want, minor, cmp.Comparer(func(a, b float64) bool { return near(a, b, 1e-12*a) })); diff != "" {
			t.Errorf("values from %v to %v: minor ticks (-want +got):\n%s", c.low, c.high, diff)
		}
	}
}

func TestMinorTicksAreDrawnOnTheirAxis(t *testing.T) {
	values, other := []float64{0.75, 110}, []float64{0, 4}
	want := axisOf(true, values...).minor
	for _, c := range []struct {
		chart Chart
		axis  func(plottest.Panel) plottest.Axis
		path  string
	}{
		{Chart{LogY: true, Series: []Series{{X: other, Y: values}}}, func(p plottest.Panel) plottest.Axis { return p.Y }, `M\S+ (\S+)h-3"`},
		{Chart{LogX: true, Series: []Series{{X: values, Y: other}}}, func(p plottest.Panel) plottest.Axis { return p.X }, `M(\S+) \S+v3"`},
	} {
		axis, svg := c.axis(read(t, c.chart)), string(c.chart.SVG())
		drawn := regexp.MustCompile(c.path).FindAllStringSubmatch(svg, -1)
		if n := strings.Count(svg, `h-3"`) + strings.Count(svg, `v3"`); len(drawn) != len(want) || n != len(want) {
			t.Fatalf("there are %d minor ticks on the logarithmic axis and %d on both axes, want %d", len(drawn), n, len(want))
		}
		for i, m := range want {
			if pixel, err := strconv.ParseFloat(drawn[i][1], 64); err != nil || !axis.Near(pixel, m.value) {
				t.Errorf("the minor tick for %v is at the wrong pixel %v", m.value, pixel)
			}
		}
	}
}

func TestTickLabelsDoNotTouch(t *testing.T) {
	var x []float64
	for d := 10.0; d <= 300; d += 10 {
		x = append(x, d)
	}
	p := read(t, Chart{XTicks: x, Series: []Series{{X: x, Y: x}}})
	if n := len(p.X.Ticks); n < 12 || n == len(x) || p.X.Ticks[0].Label != "10" {
		t.Errorf("%d of %d ticks have a label, and the first is %v; want 12 to 29 labels, beginning with 10", n, len(x), p.X.Ticks[0])
	}
	for i, b := range p.X.Ticks[1:] {
		if a := p.X.Ticks[i]; b.Pixel-a.Pixel < (textWidth(a.Label)+textWidth(b.Label))/2+3 {
			t.Errorf("the labels of %v and %v touch", a, b)
		}
	}
}

func TestGreySeriesUseNoColourOfThePalette(t *testing.T) {
	curves := curvesOf([]Chart{{Series: []Series{{Style: Thin}, {Style: Dashed}, {Style: Points}, {}, {Style: Trail}}}})[0]
	for i, p := range curves {
		want := []string{"#b0b0b0", "#404040", "#404040", colours[0], colours[1]}[i]
		if p.colour != want {
			t.Errorf("series %d is drawn in %s, want %s", i, p.colour, want)
		}
	}
}

func TestTheRangeOfAnAxisIsTheDataWithASmallMargin(t *testing.T) {
	for _, c := range []Chart{
		{Series: []Series{{X: []float64{-3, 0, 7.5}, Y: []float64{-1e-3, 2e-3, 0}}}},
		{LogX: true, LogY: true, XTicks: []float64{1, 2, 301}, Series: []Series{{X: []float64{1, 2, 301}, Y: []float64{1e-9, 1, 1e9}}}},
		{LogY: true, Series: []Series{{X: []float64{5}, Y: []float64{100}}}},
		{Series: []Series{{X: []float64{2, 2}, Y: []float64{0, 0}}}},
		{LogY: true, Dodge: true, Series: []Series{{X: []float64{1, 2}, Y: []float64{1, 2}, Error: []float64{0.999999, 1}}, {X: []float64{1, 2}, Y: []float64{1, 2}}}},
		{Equal: true, Series: []Series{{X: []float64{-6, 6}, Y: []float64{-2, 4}}}},
	} {
		if svg := string(c.SVG()); strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
			t.Errorf("a coordinate is NaN or infinite:\n%s", svg)
		}
		for i := range c.Series {
			c.Series[i].Label = "s"
		}
		p := read(t, c)
		low, high := plottest.Point{X: p.Right, Y: p.Bottom}, plottest.Point{}
		for _, s := range p.Series {
			for _, m := range s.Markers {
				low, high = plottest.Point{X: min(low.X, m.X), Y: min(low.Y, m.Y)}, plottest.Point{X: max(high.X, m.X), Y: max(high.Y, m.Y)}
			}
			for _, b := range s.Bars {
				low.Y, high.Y = min(low.Y, b.High), max(high.Y, b.High)
			}
		}
		// fits reports whether the margins between the points and the frame are more than 5 pixels and less
		// than 10 % of the frame. If all points are equal, the margins may be greater.
		fits := func(low, high, from, to float64) bool {
			margin := 0.1 * (to - from)
			return low > from+5 && high < to-5 && (low == high || low < from+margin && high > to-margin)
		}
		if !fits(low.X, high.X, p.Left, p.Right) || !fits(low.Y, high.Y, p.Top, p.Bottom) {
			t.Errorf("%+v: the points range from %v to %v in the frame %+v, want a small margin", c, low, high, p)
		}
	}
}

func TestLogarithmicAxesClipErrorBarsBelowZero(t *testing.T) {
	c := Chart{LogY: true, Series: []Series{{Label: "s", X: []float64{1, 2, 3}, Y: []float64{1, 10, 100}, Error: []float64{2, 5, 99.9999}}}}
	y := newAxis(true, nil, c.Series)
	if y.min < -0.5 {
		t.Errorf("the axis begins at 10^%v, want at least 10^-0.5, because the smallest value is 1", y.min)
	}
	p := read(t, c)
	for i, b := range p.Series[0].Bars {
		if wantFoot := i == 1; b.Foot != wantFoot || !wantFoot && b.Low != p.Bottom || !p.Y.Near(b.High, c.Series[0].Y[i]+c.Series[0].Error[i]) {
			t.Errorf("error bar %d is %+v, want a foot only if its end is positive", i, b)
		}
	}
	for _, e := range []float64{0, math.NaN()} {
		c.Series[0].Error = []float64{e, e, e}
		if p := read(t, c); len(p.Series[0].Bars) != 0 {
			t.Errorf("a standard error of %v is drawn as %v, want no error bar", e, p.Series[0].Bars)
		}
	}
}

func TestCoincidingSeriesAreAllVisible(t *testing.T) {
	series := func(label string) Series {
		return Series{Label: label, X: []float64{1, 2, 3}, Y: []float64{1, 2, 3}}
	}
	reference := series("r")
	reference.Style = Dashed
	p := read(t, Chart{Dodge: true, Series: []Series{series("a"), series("b"), reference, series("c")}})
	for i, want := range []float64{-5, 0, 0, 5} {
		for j, d := range p.Series[i].Line[0] {
			if !p.X.Near(d.X, float64(j+1)) || !p.Y.Near(d.Y, float64(j+1)) {
				t.Errorf("point %d on the line of series %d is at the wrong pixels %v", j, i, d)
			}
			if i == 2 {
				continue
			}
			if m := p.Series[i].Markers[j]; !near(m.X-p.X.Pixel(float64(j+1)), want, 0.3) || m.Y != d.Y {
				t.Errorf("marker %d of series %d is at the wrong pixels %v", j, i, m)
			}
		}
	}
	// Open and filled markers must alternate, and all shapes and colours must differ.
	seen := map[string]bool{}
	curves := curvesOf([]Chart{{Series: slices.Repeat([]Series{series("")}, len(shapes))}})[0]
	for i, p := range curves {
		if seen[p.shape] || seen[p.colour] || p.open != (i%2 == 1) {
			t.Errorf("series %d has the colour %s, the shape %s and open = %v; want a new colour and shape, and alternating markers", i, p.colour, p.shape, p.open)
		}
		seen[p.shape], seen[p.colour] = true, true
	}
	points := Series{Style: Points}
	type marker struct {
		shape string
		open  bool
	}
	markers := map[marker]bool{}
	for _, p := range curvesOf([]Chart{{Series: slices.Repeat([]Series{points}, 2*len(shapes))}})[0] {
		markers[marker{p.shape, p.open}] = true
	}
	if len(markers) != 2*len(shapes) {
		t.Errorf("%d series of points have %d different markers", 2*len(shapes), len(markers))
	}
	// With eight colours and seven shapes, lines 1 and 9 have the same colour, but different shapes.
	if nine := curvesOf([]Chart{{Series: slices.Repeat([]Series{series("")}, 9)}})[0]; nine[8].colour != nine[0].colour || nine[8].shape == nine[0].shape {
		t.Errorf("lines 1 and 9 have the colours %s and %s, and the shapes %s and %s", nine[0].colour, nine[8].colour, nine[0].shape, nine[8].shape)
	}
}

func TestLinesHaveGapsAtValuesThatAxesCannotShow(t *testing.T) {
	c := Chart{LogY: true, Series: []Series{{Label: "s", X: []float64{1, 2, 3, 4, 5, 6, 7}, Y: []float64{1, 2, math.NaN(), 3, 0, math.Inf(1), 4}}}}
	var lengths []int
	for _, part := range read(t, c).Series[0].Line {
		lengths = append(lengths, len(part))
	}
	if diff := cmp.Diff([]int{2, 1, 1}, lengths); diff != "" {
		t.Errorf("the numbers of points between gaps differ (-want +got):\n%s", diff)
	}
	if p := read(t, Chart{LogX: true, LogY: true, Series: []Series{{Label: "nothing"}}}); len(p.Series) != 1 || p.Series[0].Line != nil {
		t.Errorf("a series without points is drawn as %+v, want an empty series", p)
	}
	nothing := Series{Label: "nothing", Style: Band, X: []float64{1}, Y: []float64{math.NaN()}, Error: []float64{1}}
	if svg := string(Chart{Series: []Series{nothing}}.SVG()); strings.Contains(svg, `d="Mz"`) {
		t.Errorf("a band without points is drawn as an empty path: %s", svg)
	}
}

func TestALongLineHasNoMarkers(t *testing.T) {
	for n, want := range map[int]int{40: 40, 41: 0} {
		s := Series{Label: "s"}
		for i := range n {
			s.X, s.Y = append(s.X, float64(i)), append(s.Y, float64(i))
		}
		p := read(t, Chart{Series: []Series{s}})
		if len(p.Series[0].Markers) != want || len(p.Series[0].Line[0]) != n {
			t.Errorf("a line with %d points has %d markers, want %d", n, len(p.Series[0].Markers), want)
		}
	}
}

func TestTrailsPointsAndThinLinesAreDrawnAtTheirValues(t *testing.T) {
	x, y := []float64{1, 3, 2}, []float64{5, 2, 9}
	p := read(t, Chart{Series: []Series{
		{Label: "trail", X: x, Y: y, Style: Trail},
		{Label: "points", X: y, Y: x, Style: Points},
		{Label: "others", X: x, Y: x, Style: Points},
		{Label: "thin", X: y, Y: y, Style: Thin},
	}})
	check := func(label string, got []plottest.Point, x, y []float64) {
		if len(got) != len(x) {
			t.Fatalf("%s: %d points, want %d", label, len(got), len(x))
		}
		for i, d := range got {
			if !p.X.Near(d.X, x[i]) || !p.Y.Near(d.Y, y[i]) {
				t.Errorf("%s: (%v, %v) is drawn at the wrong pixels %v", label, x[i], y[i], d)
			}
		}
	}
	check("trail", p.Series[0].Line[0], x, y)
	check("its dots", p.Series[0].Dots, x, y)
	check("points", p.Series[1].Markers, y, x)
	check("others", p.Series[2].Markers, x, x)
	check("thin", p.Series[3].Line[0], y, y)
	if p.Series[1].Line != nil || p.Series[3].Markers != nil {
		t.Errorf("the style Points draws the line %v, and Thin draws the markers %v; want neither", p.Series[1].Line, p.Series[3].Markers)
	}
}

func TestEqualChartsHaveTheSameScaleOnBothAxes(t *testing.T) {
	p := read(t, Chart{Equal: true, Series: []Series{{X: []float64{-6, 6}, Y: []float64{-2, 2}}}})
	if x, y := p.X.Pixel(1)-p.X.Pixel(0), p.Y.Pixel(0)-p.Y.Pixel(1); !near(x/y, 1, 0.01) {
		t.Errorf("one unit has %v pixels in x and %v pixels in y, want the same number", x, y)
	}
}

func TestPanelsShareRangesByAxisLabelAndOneLegend(t *testing.T) {
	series := func(label string, v ...float64) []Series { return []Series{{Label: label, X: v, Y: v}} }
	svg := Panels(2,
		Chart{Title: "one", XLabel: "x", YLabel: "y", Series: series("s", 0, 1)},
		Chart{Title: "two", XLabel: "x", YLabel: "z", Height: 100, Series: series("r", 5, 10)},
		Chart{XLabel: "k", YLabel: "y", Series: append(series("s", 2, 3), series("", 0, 1)...)},
		Chart{XLabel: "m", YLabel: "w", Series: series("r", 5, 10)},
	)
	panels := plottest.Read(t, svg, false, false)
	if len(panels) != 4 || panels[0].Title != "one" || panels[1].Title != "two" {
		t.Fatalf("the panels are %+v, want four panels, of which the first two have the titles one and two", panels)
	}
	if !bytes.Contains(svg, []byte(`role="img" aria-label="one; two"`)) {
		t.Error("the aria-label lacks the title of a panel")
	}
	for i, c := range []struct {
		label     string
		at        []float64
		low, high [2]float64 // the range of the points on the axes
	}{
		{"s", []float64{0, 1}, [2]float64{0, 0}, [2]float64{10, 3}},
		{"r", []float64{5, 10}, [2]float64{0, 5}, [2]float64{10, 10}},
		{"s", []float64{2, 3}, [2]float64{0, 0}, [2]float64{3, 3}},
	} {
		p := panels[i]
		for _, s := range p.Series {
			if (s.Line != nil) != (s.Label == c.label) {
				t.Errorf("panel %d draws the line %v for the series %q, want lines only for its own series", i, s.Line, s.Label)
			}
			for j := range s.Line {
				for k, d := range s.Line[j] {
					if !p.X.Near(d.X, c.at[k]) || !p.Y.Near(d.Y, c.at[k]) {
						t.Errorf("panel %d: the value %v is drawn at the wrong pixels %v", i, c.at[k], d)
					}
				}
			}
		}
		for j, a := range []plottest.Axis{p.X, p.Y} {
			ends := [2]float64{p.Left, p.Right}
			if j == 1 {
				ends = [2]float64{p.Bottom, p.Top}
			}
			margin := 0.06 * (ends[1] - ends[0])
			if low, high := a.Pixel(c.low[j])-ends[0], ends[1]-a.Pixel(c.high[j]); !(low/margin > 0 && low/margin < 1 && high/margin > 0 && high/margin < 1) {
				t.Errorf("panel %d, axis %d: the values %v and %v are %v and %v pixels from the ends, want at most %v", i, j, c.low[j], c.high[j], low, high, margin)
			}
		}
	}
	if bytes.Count(svg, []byte(">s</text>")) != 1 || bytes.Count(svg, []byte(">r</text>")) != 1 {
		t.Errorf("the legend does not list each label once:\n%s", svg)
	}
	var positions []string
	for part := range strings.SplitSeq(string(svg), `<g transform="translate(`) {
		positions = append(positions, part[:strings.IndexByte(part, '"')])
	}
	if x, y := panels[0].Right, 44+366+60-26; !slices.Equal(positions[1:], []string{"0 0)", fmt.Sprintf("%v 0)", x), fmt.Sprintf("0 %v)", y), fmt.Sprintf("%v %v)", x, y)}) {
		t.Errorf("the panels are at the wrong positions %v", positions[1:])
	}
	if h := panels[1].Bottom - panels[1].Top; h != 100 {
		t.Errorf("the frame of the second panel is %v pixels high, want 100", h)
	}
}

func TestArrowheadsPointAlongTheTrail(t *testing.T) {
	for points, want := range map[int]int{4: 0, 9: 1, 65: 8, 129: 8, 1000: 8} {
		s := Series{X: make([]float64, points), Y: make([]float64, points), Style: Trail}
		if n := strings.Count(string(Chart{Series: []Series{s}}.SVG()), ") rotate(") - 1; n != want {
			t.Errorf("a trail of %d points has %d arrowheads, want %d", points, n, want)
		}
	}
	s := Series{Style: Trail}
	for j := range 10 {
		s.X, s.Y = append(s.X, float64(j*j)), append(s.Y, float64(-j))
	}
	svg := string(Chart{Series: []Series{s}}.SVG())
	svg = svg[strings.Index(svg, `transform="translate(`)+1:]
	var x, y, angle float64
	i := strings.Index(svg, ") rotate(")
	if _, err := fmt.Sscanf(svg[strings.LastIndex(svg[:i], "translate("):], "translate(%f %f) rotate(%f)", &x, &y, &angle); err != nil || strings.Count(svg, ") rotate(") != 2 {
		t.Fatalf("%v:\n%s", err, svg) // the label of the y axis is rotated, too
	}
	s.Label = "s"
	line := read(t, Chart{Series: []Series{s}}).Series[0].Line[0]
	if want := math.Atan2(line[5].Y-line[4].Y, line[5].X-line[4].X) * 180 / math.Pi; !near(x, line[5].X, 0.06) || !near(y, line[5].Y, 0.06) || !near(angle, want, 0.5) {
		t.Errorf("the arrowhead is at (%v, %v) with the angle %v°, want %v and %v°", x, y, angle, line[5], want)
	}
}

func TestTheDocumentIsWideEnoughForTheLegend(t *testing.T) {
	for _, label := range []string{"HVAE, K = 1", "K = 10, no tempering", "θ̂"} {
		svg := Chart{Series: []Series{{Label: label, X: []float64{1}, Y: []float64{1}}}}.SVG()
		var width, x float64
		fmt.Sscanf(string(svg[bytes.Index(svg, []byte("width=")):]), "width=\"%f\"", &width)
		fmt.Sscanf(string(svg[bytes.LastIndex(svg, []byte("<text")):]), "<text x=\"%f\"", &x)
		end := x + textWidth(label)
		if !(width-end >= 0 && width-end <= 20) {
			t.Errorf("the label %q ends at the pixel %v, but the document is %v pixels wide", label, end, width)
		}
	}
	p := Chart{Series: []Series{{Label: "a long label", X: []float64{1}, Y: []float64{1}}, {Label: "b", X: []float64{1}, Y: []float64{1}}}}
	q := Chart{Series: []Series{p.Series[1], p.Series[0]}}
	if a, b := bytes.Index(p.SVG(), []byte(" height")), bytes.Index(q.SVG(), []byte(" height")); string(p.SVG()[:a]) != string(q.SVG()[:b]) {
		t.Errorf("the order of the labels changes the width of the document: %s, %s", p.SVG()[:a], q.SVG()[:b])
	}
	// The expected widths are sums of advance widths of Helvetica, in thousandths of the font size.
	for s, want := range map[string]float64{"no tempering": 5836, "planar flow": 4835, "HVAE, K = 1": 5642, "10": 1112} {
		want *= fontSize / 1000.0
		if got := textWidth(s); got < want || got > 1.3*want {
			t.Errorf("textWidth(%q) is %v pixels, want %v to %v", s, got, want, 1.3*want)
		}
	}
	if textWidth("θ̂") != textWidth("θ") {
		t.Error("textWidth counts a combining hat as a character")
	}
}

func TestContoursAreThePointsWithTheLevel(t *testing.T) {
	// The contours f = 2 are circles of radius 2 around (−3, 0) and (3, 0). Their total length is
	// 8π.
	f := func(x, y float64) float64 { return min(math.Hypot(x-3, y), math.Hypot(x+3, y)) }
	s := Contour(f, 2, -6, -3, 6, 3, 150)
	length, right := 0.0, 0.0
	for i := range s.X {
		if math.IsNaN(s.X[i]) {
			continue
		}
		if !near(f(s.X[i], s.Y[i]), 2, 1e-3) {
			t.Fatalf("f is %v at the point (%v, %v) of the contour, want 2", f(s.X[i], s.Y[i]), s.X[i], s.Y[i])
		}
		if i > 0 && !math.IsNaN(s.X[i-1]) {
			l := math.Hypot(s.X[i]-s.X[i-1], s.Y[i]-s.Y[i-1])
			if length += l; s.X[i] > 0 {
				right += l
			}
		}
	}
	if !near(length, 2*2*math.Pi*2, 0.01) || !near(right, length/2, 0.01) || s.Style != Thin {
		t.Errorf("the contours have the length %v, of which %v is at the right, and the style %v; want 8π, 4π and Thin", length, right, s.Style)
	}
}

// The sign of f alternates around the corners of the grid's only square, so two lines must cross it.
func TestContoursHaveTwoLinesAtASaddlePoint(t *testing.T) {
	s := Contour(func(x, y float64) float64 { return x * y }, 0, -1, -1, 1, 1, 1)
	if len(s.X) != 6 || len(s.Y) != 6 {
		t.Errorf("the contour has %d points and gaps, want two lines of two points and a gap", len(s.X))
	}
}
