// Package plottest reads charts drawn by package plot, for tests of figures. Like a reader of the
// figure, it computes the scale of an axis from the labels of the ticks, and it identifies a series by
// its sample in the legend. It relies on the SVG elements and attributes that package plot writes.
package plottest

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A Panel is one chart of a document. All positions are in pixels, rounded to a tenth of a pixel.
type Panel struct {
	Title, XLabel, YLabel    string
	X, Y                     Axis
	Left, Top, Right, Bottom float64  // of the frame
	Series                   []Series // in the order of the legend
}

// A Series contains the lines and markers that have the colour and shape of one legend entry.
type Series struct {
	Label   string
	Line    [][]Point // a gap in the line begins a new slice
	Dots    []Point   // on a line in the style plot.Trail
	Markers []Point
	Bars    []Bar   // error bars
	Band    []Point // the upper edge from left to right, then the lower edge from right to left
}

// A Point is a position in pixels.
type Point struct{ X, Y float64 }

// A Bar is an error bar. Foot is true if a short horizontal line marks its lower end, and false if the
// bar is clipped at the bottom of the frame.
type Bar struct {
	X, Low, High float64
	Foot         bool
}

// An Axis maps values to pixels by interpolation between its ticks.
type Axis struct {
	Ticks []Tick
	log   bool
}

// A Tick is a labelled position on an axis. Value is the number in the label.
type Tick struct {
	Label        string
	Value, Pixel float64
}

// Pixel returns the pixel position of a value, computed from the first and the last tick. If the
// axis has only one tick, Pixel returns NaN for all values except the value of the tick.
func (a Axis) Pixel(v float64) float64 {
	scale := func(v float64) float64 { return v }
	if a.log {
		scale = math.Log
	}
	p, q := a.Ticks[0], a.Ticks[len(a.Ticks)-1]
	if v == p.Value {
		return p.Pixel
	}
	return p.Pixel + (q.Pixel-p.Pixel)*(scale(v)-scale(p.Value))/(scale(q.Value)-scale(p.Value))
}

// Near reports whether a pixel coordinate is within 0.3 pixels of the position of a value. The tolerance
// allows for rounding errors.
func (a Axis) Near(pixel, value float64) bool {
	return math.Abs(a.Pixel(value)-pixel) <= 0.3
}

// Read returns the panels of an SVG document. logX and logY specify whether the x axes and the y axes
// are logarithmic. Read fails the test if the document is malformed, or if a tick is not at the
// position of its value.
func Read(t testing.TB, svg []byte, logX, logY bool) (panels []Panel) {
	t.Helper()
	var document group
	err := xml.Unmarshal(svg, &document)
	legend := len(document.Groups) - 1 // the last group is the legend; all other groups are panels
	if err != nil || legend < 1 {
		t.Fatalf("the document contains no chart (XML error %v):\n%s", err, svg)
	}
	for _, g := range document.Groups[:legend] {
		p := Panel{X: Axis{log: logX}, Y: Axis{log: logY}}
		p.readAxes(g)
		if p.Bottom == 0 || p.X.Ticks == nil || p.Y.Ticks == nil {
			t.Fatalf("a chart has no frame, or an axis has no ticks:\n%s", svg)
		}
		for _, a := range []Axis{p.X, p.Y} {
			for _, tick := range a.Ticks {
				if !a.Near(tick.Pixel, tick.Value) {
					t.Fatalf("the tick %q is at the pixel %v, but should be at %v according to the other ticks", tick.Label, tick.Pixel, a.Pixel(tick.Value))
				}
			}
		}
		p.readSeries(g, document.Groups[legend])
		panels = append(panels, p)
	}
	return panels
}

// A group is an SVG <g> element, or the document.
type group struct {
	Stroke string  `xml:"stroke,attr"`
	Fill   string  `xml:"fill,attr"`
	Groups []group `xml:"g"`
	Paths  []path  `xml:"path"`
	Texts  []text  `xml:"text"`
}

// A path is an SVG <path> element.
type path struct {
	D       string `xml:"d,attr"`
	Stroke  string `xml:"stroke,attr"`
	Fill    string `xml:"fill,attr"`
	Dashes  string `xml:"stroke-dasharray,attr"`
	Join    string `xml:"stroke-linejoin,attr"` // set for the line of a series
	Cap     string `xml:"stroke-linecap,attr"`  // set for dots
	Opacity string `xml:"fill-opacity,attr"`    // set for a band
}

// A text is an SVG <text> element.
type text struct {
	X    float64 `xml:"x,attr"`
	Y    float64 `xml:"y,attr"`
	Text string  `xml:",chardata"`
}

// paths returns the paths in g and in the groups inside g. A path without a colour inherits the
// colour of its group.
func (g group) paths() []path {
	all := g.Paths
	for _, inner := range g.Groups {
		for _, p := range inner.Paths {
			p.Stroke, p.Fill = cmp.Or(p.Stroke, inner.Stroke), cmp.Or(p.Fill, inner.Fill)
			all = append(all, p)
		}
	}
	return all
}

// readAxes reads the frame, the ticks and the labels of a panel.
func (p *Panel) readAxes(g group) {
	if n := len(g.Groups); n > 0 && len(g.Groups[n-1].Paths) > 0 { // the last group begins with the frame
		fmt.Sscanf(g.Groups[n-1].Paths[0].D, "M%f %fH%fV%f", &p.Left, &p.Top, &p.Right, &p.Bottom)
	}
	for _, t := range g.Texts {
		switch {
		case t.X == 0: // the rotated label has no attributes x and y
			p.YLabel = t.Text
		case t.Y < p.Top:
			p.Title = t.Text
		case t.X < p.Left:
			p.Y.Ticks = append(p.Y.Ticks, Tick{t.Text, Value(t.Text), t.Y - 4.5})
		case t.Y < p.Bottom+30:
			p.X.Ticks = append(p.X.Ticks, Tick{t.Text, Value(t.Text), t.X})
		default:
			p.XLabel = t.Text
		}
	}
}

// readSeries reads the series of a panel. A path in g belongs to the series whose sample in the legend has
// the same style.
func (p *Panel) readSeries(g, legend group) {
	index := map[string]int{} // from style to index in p.Series
	for i, label := range legend.Texts {
		p.Series = append(p.Series, Series{Label: label.Text})
		for _, sample := range legend.paths() {
			if sample.points()[0][0].Y == label.Y-4.5 { // the sample is beside the label
				index[sample.style()] = i
			}
		}
	}
	for _, path := range g.paths() {
		if i, ok := index[path.style()]; ok {
			p.Series[i].add(path)
		}
	}
}

// style returns a string that identifies the series of a path. The string is the same for the line,
// the dots, the band and the error bars of a series. For markers, the string includes their shape.
func (p path) style() string {
	_, shape, _ := strings.Cut(p.D, "m")
	if p.Join+p.Cap+p.Opacity == "" && !strings.Contains(shape, "m-4 0V") { // not a line, dots, a band or an error bar
		return "marker " + p.Stroke + p.Fill + shape
	}
	return "line " + cmp.Or(p.Stroke, p.Fill) + p.Dashes
}

// add appends a path to the field of s for its kind: Line, Dots, Markers, Bars or Band.
func (s *Series) add(p path) {
	var b Bar
	n, _ := fmt.Sscanf(p.D, "M%f %fm-4 0h8m-4 0V%f", &b.X, &b.High, &b.Low)
	parts := p.points()
	switch points := slices.Concat(parts...); {
	case n == 3:
		b.Foot = strings.HasSuffix(p.D, "m-4 0h8")
		s.Bars = append(s.Bars, b)
	case p.Join != "":
		s.Line = append(s.Line, parts...)
	case p.Cap != "":
		s.Dots = append(s.Dots, points...)
	case p.Opacity != "":
		s.Band = append(s.Band, points...)
	default:
		s.Markers = append(s.Markers, points...)
	}
}

// points returns the arguments of the SVG commands M and L in a path. Each M begins a new slice.
func (p path) points() (parts [][]Point) {
	for _, part := range strings.Split(p.D, "M")[1:] {
		var points []Point
		for pair := range strings.SplitSeq(part, "L") {
			var q Point
			fmt.Sscanf(pair, "%f %f", &q.X, &q.Y)
			points = append(points, q)
		}
		parts = append(parts, points)
	}
	return parts
}

var superscripts = strings.NewReplacer("⁻", "-", "⁰", "0", "¹", "1", "²", "2", "³", "3", "⁴", "4",
	"⁵", "5", "⁶", "6", "⁷", "7", "⁸", "8", "⁹", "9")

// Value returns the number in a label such as 12, −0.5 or 10⁻³. It returns NaN for other labels.
func Value(label string) float64 {
	if power, ok := strings.CutPrefix(label, "10"); ok && power != superscripts.Replace(power) {
		label = "1e" + superscripts.Replace(power)
	}
	v, err := strconv.ParseFloat(strings.Replace(label, "−", "-", 1), 64)
	if err != nil {
		return math.NaN()
	}
	return v
}
