package plot

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// An element of an SVG document, with the attributes of the groups around it.
type element struct {
	name, text string
	attr       map[string]string
}

// elements parses an SVG document into its elements, groups aside.
func elements(t *testing.T, svg []byte) (list []element) {
	t.Helper()
	stack := []element{{attr: map[string]string{}}}
	for dec := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := dec.Token()
		if err == io.EOF {
			return list
		}
		if err != nil {
			t.Fatalf("not XML: %v\n%s", err, svg)
		}
		switch token := token.(type) {
		case xml.StartElement:
			e := element{name: token.Name.Local, attr: map[string]string{}}
			for k, v := range stack[len(stack)-1].attr {
				e.attr[k] = v
			}
			for _, a := range token.Attr {
				e.attr[a.Name.Local] = a.Value
			}
			stack = append(stack, e)
		case xml.CharData:
			stack[len(stack)-1].text += strings.TrimSpace(string(token))
		case xml.EndElement:
			if e := stack[len(stack)-1]; e.name != "g" {
				list = append(list, e)
			}
			stack = stack[:len(stack)-1]
		}
	}
}

// texts returns what a chart says.
func texts(t *testing.T, svg []byte) (list []string) {
	t.Helper()
	for _, e := range elements(t, svg) {
		if e.name == "text" {
			list = append(list, e.text)
		}
	}
	return list
}

// A point in pixels.
type point struct{ x, y float64 }

var pair = regexp.MustCompile(`([ML])(-?[0-9.]+) (-?[0-9.]+)`)

// path returns the points that a path moves to or draws a line to, absolutely, and how many
// pieces it has.
func path(t *testing.T, d string) (points []point, pieces int) {
	t.Helper()
	for _, m := range pair.FindAllStringSubmatch(d, -1) {
		x, errX := strconv.ParseFloat(m[2], 64)
		y, errY := strconv.ParseFloat(m[3], 64)
		if errX != nil || errY != nil {
			t.Fatalf("not a path: %s", d)
		}
		points = append(points, point{x, y})
		if m[1] == "M" {
			pieces++
		}
	}
	return points, pieces
}

// A reading is what a reader with a ruler takes from a chart: it knows the labels of the
// ticks, where they are, and nothing else.
type reading struct {
	x, y    [2]tickAt // two ticks of each axis
	lines   [][]point // of series in the legend's order, by colour
	bars    [][]point // ends of error bars, lower and upper in turn
	markers [][]point
}

type tickAt struct{ value, pixel float64 }

var superscripts = strings.NewReplacer("⁻", "-", "⁰", "0", "¹", "1", "²", "2", "³", "3", "⁴", "4",
	"⁵", "5", "⁶", "6", "⁷", "7", "⁸", "8", "⁹", "9")

// value reads a label.
func value(t *testing.T, label string) float64 {
	t.Helper()
	s := strings.Replace(label, "−", "-", 1)
	mantissa, exponent, power := strings.Cut(s, "×10")
	if !power && strings.HasPrefix(s, "10") && s != superscripts.Replace(s) {
		mantissa, exponent, power = "1", s[2:], true
	}
	if power {
		s = mantissa + "e" + superscripts.Replace(exponent)
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatalf("a tick says %q", label)
	}
	return v
}

// read measures the first panel of a chart.
func read(t *testing.T, svg []byte) (r reading) {
	t.Helper()
	var xs, ys []tickAt
	var order []string
	for _, e := range elements(t, svg) {
		number := func(name string) float64 {
			v, err := strconv.ParseFloat(e.attr[name], 64)
			if err != nil {
				t.Fatalf("%s = %q: %v", name, e.attr[name], err)
			}
			return v
		}
		switch {
		case e.name == "text" && e.attr["text-anchor"] == "end":
			ys = append(ys, tickAt{value(t, e.text), number("y") - 4.5})
		case e.name == "text" && e.attr["text-anchor"] == "middle" && e.attr["font-weight"] == "" && e.attr["transform"] == "translate(0 0)" && regexp.MustCompile(`^−?[0-9]`).MatchString(e.text):
			xs = append(xs, tickAt{value(t, e.text), number("x")})
		case e.name == "path" && slices.Contains(colours, e.attr["stroke"]):
			i := slices.Index(order, e.attr["stroke"])
			if i < 0 {
				i = len(order)
				order = append(order, e.attr["stroke"])
				r.lines, r.bars, r.markers = append(r.lines, nil), append(r.bars, nil), append(r.markers, nil)
			}
			points, _ := path(t, e.attr["d"])
			switch {
			case e.attr["stroke-linejoin"] == "round" && len(r.lines[i]) == 0:
				r.lines[i] = points
			case e.attr["stroke-width"] == "1.2":
				m := regexp.MustCompile(`^M(\S+) (\S+)m-4 0h8m-4 0V([0-9.]+)`).FindStringSubmatch(e.attr["d"])
				if m == nil {
					t.Fatalf("not an error bar: %s", e.attr["d"])
				}
				low, _ := strconv.ParseFloat(m[3], 64)
				r.bars[i] = append(r.bars[i], point{points[0].x, low}, points[0])
			case e.attr["stroke-width"] == "1.6":
				r.markers[i] = append(r.markers[i], points...)
			}
		}
	}
	if len(xs) < 2 || len(ys) < 2 {
		t.Fatalf("ticks at %v and %v", xs, ys)
	}
	r.x, r.y = [2]tickAt{xs[0], xs[len(xs)-1]}, [2]tickAt{ys[0], ys[len(ys)-1]}
	return r
}

// at returns what a ruler between two ticks says about a pixel.
func at(ticks [2]tickAt, pixel float64, log bool) float64 {
	a, b := ticks[0].value, ticks[1].value
	if log {
		a, b = math.Log(a), math.Log(b)
	}
	v := a + (b-a)*(pixel-ticks[0].pixel)/(ticks[1].pixel-ticks[0].pixel)
	if log {
		return math.Exp(v)
	}
	return v
}

func near(got, want, tolerance float64) bool { return math.Abs(got-want) <= tolerance }

func TestAChartIsReadBackAsTheNumbersThatItDraws(t *testing.T) {
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
		c.Series = []Series{{Label: "one", X: x, Y: y, Error: errors}, {Label: "reference", X: x, Y: y, Style: Dashed}, {Label: "two", X: x, Y: other}}
		r := read(t, c.SVG())
		if len(r.lines) != 2 {
			t.Fatalf("%d coloured series, want 2", len(r.lines))
		}
		for i, want := range [][]float64{y, other} {
			shift := 0.0
			if c.Dodge {
				shift = []float64{-2.5, 2.5}[i]
			}
			for _, drawn := range [][]point{r.lines[i], r.markers[i][:len(x)]} {
				if len(drawn) != len(x) {
					t.Fatalf("%d points, want %d", len(drawn), len(x))
				}
				for j, p := range drawn {
					// A pixel is rounded to a tenth, and so are the ticks.
					gotX, gotY := at(r.x, p.x-shift, c.LogX), at(r.y, p.y, c.LogY)
					slackX, slackY := at(r.x, p.x-shift+0.2, c.LogX)-gotX, at(r.y, p.y-0.2, c.LogY)-gotY
					if !near(gotX, x[j], slackX) || !near(gotY, want[j], slackY) {
						t.Errorf("%+v: series %d shows (%v, %v), want (%v, %v)", c, i, gotX, gotY, x[j], want[j])
					}
				}
			}
		}
		if len(r.bars[0]) != 2*len(x) || len(r.bars[1]) != 0 {
			t.Fatalf("%d and %d ends of error bars, want %d and none", len(r.bars[0]), len(r.bars[1]), 2*len(x))
		}
		for j := range x {
			for k, want := range []float64{y[j] - errors[j], y[j] + errors[j]} {
				p := r.bars[0][2*j+k]
				got := at(r.y, p.y, c.LogY)
				if slack := at(r.y, p.y-0.2, c.LogY) - got; !near(got, want, slack) || p.x != r.lines[0][j].x {
					t.Errorf("%+v: an error bar of the point %v ends at %v, pixel %v, want %v", c, r.lines[0][j], got, p.x, want)
				}
			}
		}
	}
}

func TestChartsSayWhatTheyShow(t *testing.T) {
	c := Chart{
		Title: "a < b & c", XLabel: "d", YLabel: "error",
		Series: []Series{{Label: "first", X: []float64{1, 10}, Y: []float64{3, 7}}, {Label: "floor", X: []float64{1, 10}, Y: []float64{1, 1}, Style: Dashed}},
	}
	said := texts(t, c.SVG())
	for _, want := range []string{"a < b & c", "d", "error", "first", "floor"} {
		if !slices.Contains(said, want) {
			t.Errorf("the chart does not say %q: %q", want, said)
		}
	}
}

// labels returns what an axis says and where its minor ticks are.
func labels(a axis) (list []string) {
	for _, t := range a.ticks {
		list = append(list, t.label)
	}
	return list
}

func axisOf(log bool, v ...float64) axis {
	return newAxis([]Chart{{Series: []Series{{X: v}}}}, log, nil, func(s Series) (v, e []float64) { return s.X, nil })
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
		{false, []float64{2e-6, 8.3e-6}, "2×10⁻⁶ 4×10⁻⁶ 6×10⁻⁶ 8×10⁻⁶"},
		{false, []float64{-2.25e6, 1e6}, "−2×10⁶ −1×10⁶ 0 1×10⁶"},
		{false, []float64{9.5e5, 1.2e6}, "950000 1.00×10⁶ 1.05×10⁶ 1.10×10⁶ 1.15×10⁶ 1.20×10⁶"},
		{true, []float64{2e-3, 5e5}, "10⁻³ 10⁻² 10⁻¹ 10⁰ 10¹ 10² 10³ 10⁴ 10⁵ 10⁶"},
		{true, []float64{1e-12, 1e13}, "10⁻¹² 10⁻⁹ 10⁻⁶ 10⁻³ 10⁰ 10³ 10⁶ 10⁹ 10¹²"},
		{true, []float64{7, 57}, "10 20 50"},
		{true, []float64{0.2, 40}, "0.2 0.5 1 2 5 10 20 50"},
		{true, []float64{4, 6}, "4.0 4.5 5.0 5.5 6.0"},
		{true, []float64{100}, "50 100 200"},
		{false, nil, "0 1"},
	} {
		if got := strings.Join(labels(axisOf(c.log, c.values...)), " "); got != c.want {
			t.Errorf("%v, logarithmic %v: ticks %s, want %s", c.values, c.log, got, c.want)
		}
	}
	// Given ticks are written with the digits that they have.
	a := newAxis([]Chart{{}}, true, []float64{1, 2.5, 301}, func(Series) (v, e []float64) { return nil, nil })
	if got := strings.Join(labels(a), " "); got != "1 2.5 301" {
		t.Errorf("given ticks say %s", got)
	}
}

func TestTicksSayWhereTheyAre(t *testing.T) {
	for _, a := range []axis{axisOf(false, -3, 0.7), axisOf(false, 1, 40), axisOf(true, 1e-3, 1e3), axisOf(true, 3, 70), axisOf(true, 3, 4)} {
		for _, tick := range a.ticks {
			if v := value(t, tick.label); !near(v, tick.value, 1e-12*math.Abs(v)) || !a.contains(v) {
				t.Errorf("a tick at %v says %v on an axis from %v to %v", tick.value, v, a.min, a.max)
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
		{1, 1e12, []float64{1e1, 1e3, 1e5, 1e7, 1e9, 1e11}}, // every other power has a label
	} {
		if diff := cmp.Diff(c.want, axisOf(true, c.low, c.high).minor, cmp.Comparer(func(a, b float64) bool { return near(a, b, 1e-12*a) })); diff != "" {
			t.Errorf("%v to %v: %s", c.low, c.high, diff)
		}
	}
}

func TestTheRangeFitsTheData(t *testing.T) {
	for _, c := range []Chart{
		{Series: []Series{{X: []float64{-3, 0, 7.5}, Y: []float64{-1e-3, 2e-3, 0}}}},
		{LogX: true, LogY: true, XTicks: []float64{1, 2, 301}, Series: []Series{{X: []float64{1, 2, 301}, Y: []float64{1e-9, 1, 1e9}}}},
		{LogY: true, Series: []Series{{X: []float64{5}, Y: []float64{100}}}},
		{Series: []Series{{X: []float64{2, 2}, Y: []float64{0, 0}}}},
		{LogY: true, Dodge: true, Series: []Series{{X: []float64{1, 2}, Y: []float64{1, 2}, Error: []float64{0.999999, 1}}, {X: []float64{1, 2}, Y: []float64{1, 2}}}},
		{Equal: true, Series: []Series{{X: []float64{-6, 6}, Y: []float64{-2, 4}}}},
	} {
		svg := c.SVG()
		if strings.Contains(string(svg), "NaN") || strings.Contains(string(svg), "Inf") {
			t.Errorf("a coordinate is not a number:\n%s", svg)
		}
		var frame [4]float64 // left, top, right, bottom
		for _, e := range elements(t, svg) {
			if n, _ := fmt.Sscanf(e.attr["d"], "M%f %fH%fV%f", &frame[0], &frame[1], &frame[2], &frame[3]); n == 4 {
				break
			}
		}
		low, high := point{math.Inf(1), math.Inf(1)}, point{math.Inf(-1), math.Inf(-1)}
		for _, e := range elements(t, svg) {
			if points, _ := path(t, e.attr["d"]); e.attr["stroke-width"] != "" {
				for _, p := range points {
					low, high = point{min(low.x, p.x), min(low.y, p.y)}, point{max(high.x, p.x), max(high.y, p.y)}
				}
			}
		}
		// Markers keep off the frame, and little space is left.
		within := func(low, high, from, to float64) bool {
			margin := 0.1 * (to - from)
			return low > from+5 && high < to-5 && (low == high || low < from+margin && high > to-margin)
		}
		if !within(low.x, high.x, frame[0], frame[2]) || !within(low.y, high.y, frame[1], frame[3]) {
			t.Errorf("%+v: points from %v to %v in the frame %v", c, low, high, frame)
		}
	}
}

func TestAnErrorBarThatReachesZeroEndsAtTheFrame(t *testing.T) {
	c := Chart{LogY: true, Series: []Series{{X: []float64{1, 2, 3}, Y: []float64{1, 10, 100}, Error: []float64{2, 5, 99.9999}}}}
	y := newAxis([]Chart{c}, true, nil, func(s Series) (v, e []float64) { return s.Y, s.Error })
	if y.min < -0.5 {
		t.Errorf("the axis begins at 10^%v, for points from 1 on", y.min)
	}
	svg := string(c.SVG())
	if n := strings.Count(svg, `m-4 0h8"`); n != 1 {
		t.Errorf("%d error bars have a foot, want the one that ends above the frame", n)
	}
	bottom := fmt.Sprintf("V%.1f\"", float64(top+plotHeight))
	if n := strings.Count(svg, "m-4 0h8m-4 0"+bottom); n != 2 {
		t.Errorf("%d error bars end at the frame %s, want 2", n, bottom)
	}
	for _, e := range []float64{0, math.NaN()} { // no standard error, no bar
		c.Series[0].Error = []float64{e, e, e}
		if r := read(t, c.SVG()); len(r.bars[0]) != 0 {
			t.Errorf("an error of %v draws %v", e, r.bars)
		}
	}
}

func TestSeriesThatCoincideAllShow(t *testing.T) {
	s := Series{X: []float64{1, 2, 3}, Y: []float64{1, 2, 3}}
	r := read(t, Chart{Dodge: true, Series: []Series{s, s, {X: s.X, Y: s.Y, Style: Dashed}, s}}.SVG())
	for i, want := range []float64{-5, 0, 5} {
		for j, p := range r.lines[i] {
			if p.y != r.lines[1][j].y || !near(p.x-r.lines[1][j].x, want, 0.11) || r.markers[i][j] != p {
				t.Errorf("point %d of series %d is at %v, that of the middle one at %v", j, i, p, r.lines[1][j])
			}
		}
	}
	// Without it every other marker is open, and shapes and colours differ.
	seen := map[string]bool{}
	pens := Chart{Series: slices.Repeat([]Series{s}, len(shapes))}.pens()
	for i, p := range pens {
		if seen[p.shape] || seen[p.colour] || p.open != (i%2 == 1) {
			t.Errorf("series %d is drawn by %+v", i, p)
		}
		seen[p.shape], seen[p.colour] = true, true
	}
}

func TestLinesBreakAtValuesThatCannotBeShown(t *testing.T) {
	c := Chart{LogY: true, Series: []Series{{X: []float64{1, 2, 3, 4, 5, 6, 7}, Y: []float64{1, 2, math.NaN(), 3, 0, math.Inf(1), 4}}}}
	found := false
	for _, e := range elements(t, c.SVG()) {
		points, pieces := path(t, e.attr["d"])
		found = found || pieces == 3 && len(points) == 4
	}
	if !found {
		t.Errorf("no line in three pieces, one of two points:\n%s", c.SVG())
	}
	if r := elements(t, Chart{LogX: true, Series: []Series{{Label: "nothing"}}}.SVG()); len(r) < 10 {
		t.Errorf("a chart without points has no axes: %v", r)
	}
}

func TestALongLineHasNoMarkers(t *testing.T) {
	for n, want := range map[int]int{40: 41, 41: 0} { // the legend's included
		s := Series{Label: "s"}
		for i := range n {
			s.X, s.Y = append(s.X, float64(i)), append(s.Y, float64(i))
		}
		if r := read(t, Chart{Series: []Series{s}}.SVG()); len(r.markers[0]) != want || len(r.lines[0]) != n {
			t.Errorf("%d points: %d markers, want %d", n, len(r.markers[0]), want)
		}
	}
}

func TestAUnitIsAsLongOnBothAxes(t *testing.T) {
	r := read(t, Chart{Equal: true, Series: []Series{{X: []float64{-6, 6}, Y: []float64{-2, 4}}}}.SVG())
	scale := func(t [2]tickAt) float64 { return math.Abs((t[1].pixel - t[0].pixel) / (t[1].value - t[0].value)) }
	if x, y := scale(r.x), scale(r.y); !near(x/y, 1, 0.01) {
		t.Errorf("a unit has %v pixels across and %v down", x, y)
	}
}

func TestPanelsShareAxesAndALegend(t *testing.T) {
	one := Chart{Title: "one", Series: []Series{{Label: "s", X: []float64{0, 1}, Y: []float64{0, 1}}}}
	two := Chart{Title: "two", Series: []Series{{Label: "s", X: []float64{5, 10}, Y: []float64{5, 10}}}}
	said := strings.Join(texts(t, Panels(one, two)), "|")
	if strings.Count(said, "|s") != 1 || strings.Count(said, "|10|") != 4 || !strings.Contains(said, "one") || !strings.Contains(said, "two") {
		t.Errorf("two panels say %s", said)
	}
	two.Series[0].Label = "other"
	if said := strings.Join(texts(t, Panels(one, two)), "|"); !strings.Contains(said, "|s") || !strings.Contains(said, "|other") {
		t.Errorf("two panels of different series say %s", said)
	}
}

func TestTheLegendEndsWhereThePictureDoes(t *testing.T) {
	for _, label := range []string{"HVAE, K = 1", "K = 10, no tempering", "θ̂"} {
		var end, width float64
		for _, e := range elements(t, Chart{Series: []Series{{Label: label, X: []float64{1}, Y: []float64{1}}}}.SVG()) {
			switch {
			case e.name == "svg":
				width, _ = strconv.ParseFloat(e.attr["width"], 64)
			case e.text == label:
				x, _ := strconv.ParseFloat(e.attr["x"], 64)
				end = x + textWidth(label)
			}
		}
		if !(width-end >= 0 && width-end <= 20) {
			t.Errorf("%q ends at %v in a picture %v wide", label, end, width)
		}
	}
	// Sums of Helvetica's advance widths, in thousandths of its size.
	for s, want := range map[string]float64{"no tempering": 5836, "planar flow": 4835, "HVAE, K = 1": 5642, "10": 1112} {
		want *= fontSize / 1000.0
		if got := textWidth(s); got < want || got > 1.3*want {
			t.Errorf("%q is taken to be %v wide, it is %v", s, got, want)
		}
	}
	if textWidth("θ̂") != textWidth("θ") {
		t.Error("a hat takes room beside its letter")
	}
}

func TestContoursGoWhereTheFunctionHasTheLevel(t *testing.T) {
	// Circles of radius 2 around two points.
	f := func(x, y float64) float64 { return min(math.Hypot(x-3, y), math.Hypot(x+3, y)) }
	s := Contour(f, 2, -6, -3, 6, 3, 150)
	length, right := 0.0, 0.0
	for i := range s.X {
		if math.IsNaN(s.X[i]) {
			continue
		}
		if !near(f(s.X[i], s.Y[i]), 2, 1e-3) {
			t.Fatalf("f is %v at (%v, %v)", f(s.X[i], s.Y[i]), s.X[i], s.Y[i])
		}
		if i > 0 && !math.IsNaN(s.X[i-1]) {
			l := math.Hypot(s.X[i]-s.X[i-1], s.Y[i]-s.Y[i-1])
			if length += l; s.X[i] > 0 {
				right += l
			}
		}
	}
	if !near(length, 2*2*math.Pi*2, 0.01) || !near(right, length/2, 0.01) || s.Style != Thin {
		t.Errorf("the lines are %v long, %v of it at the right, in style %v", length, right, s.Style)
	}
}
