// Package plottest implements reading charts drawn by package plot, for tests of figures.
//
// It reads a chart as a person with a ruler would: the labels of the ticks define the scale of
// an axis, and the legend identifies the series. It relies on how package plot uses SVG elements
// and attributes, but on none of its internal numbers. It imports only the standard library.
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

// A Panel is one chart of a document. Its coordinates are pixels, rounded to a tenth.
type Panel struct {
	Title, XLabel, YLabel    string
	X, Y                     Axis
	Left, Top, Right, Bottom float64  // of the frame
	Series                   []Series // in the order of the legend
}

// A Series contains the elements drawn in the style of one entry of the legend.
type Series struct {
	Label   string
	Line    [][]Point // the parts of the line between gaps
	Dots    []Point   // of a trail
	Markers []Point
	Bars    []Bar   // error bars
	Band    []Point // corners: the upper edge, then the lower edge backwards
}

// A Point is a position in pixels.
type Point struct{ X, Y float64 }

// A Bar is an error bar. A bar clipped at the bottom of the frame has no foot.
type Bar struct {
	X, Low, High float64
	Foot         bool
}

// An Axis maps values to pixels, using its ticks.
type Axis struct {
	Ticks []Tick
	log   bool
}

// A Tick is a labelled position on an axis.
type Tick struct {
	Label        string
	Value, Pixel float64
}

// Pixel returns the pixel of a value, computed from the first and the last tick. On an axis with
// one tick it returns NaN for all values other than the tick's.
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

// Near reports whether a pixel is the correct position of a value, up to rounding.
func (a Axis) Near(pixel, value float64) bool {
	return math.Abs(a.Pixel(value)-pixel) <= 0.3
}

// Read reads a document; logX and logY state which axes are logarithmic. If the document is
// malformed, or a tick is not at the position of its value, Read fails the test.
func Read(t testing.TB, svg []byte, logX, logY bool) (panels []Panel) {
	t.Helper()
	var document group
	if err := xml.Unmarshal(svg, &document); err != nil {
		t.Fatalf("not XML: %v\n%s", err, svg)
	}
	legend := len(document.Groups) - 1 // the last group; the groups before it are panels
	if legend < 1 {
		t.Fatalf("no chart:\n%s", svg)
	}
	for _, g := range document.Groups[:legend] {
		p := Panel{X: Axis{log: logX}, Y: Axis{log: logY}}
		p.readAxes(g)
		if p.Right == 0 || p.X.Ticks == nil || p.Y.Ticks == nil {
			t.Fatalf("a chart has no frame, or an axis has no ticks:\n%s", svg)
		}
		for _, a := range []Axis{p.X, p.Y} {
			for _, tick := range a.Ticks {
				if !a.Near(tick.Pixel, tick.Value) {
					t.Fatalf("the tick %q is at the pixel %v, but the other ticks imply %v", tick.Label, tick.Pixel, a.Pixel(tick.Value))
				}
			}
		}
		p.readSeries(g, document.Groups[legend])
		panels = append(panels, p)
	}
	return panels
}

// A group is the SVG element g, or a document.
type group struct {
	Stroke string  `xml:"stroke,attr"`
	Fill   string  `xml:"fill,attr"`
	Groups []group `xml:"g"`
	Paths  []path  `xml:"path"`
	Texts  []text  `xml:"text"`
}

type path struct {
	D       string `xml:"d,attr"`
	Stroke  string `xml:"stroke,attr"`
	Fill    string `xml:"fill,attr"`
	Dashes  string `xml:"stroke-dasharray,attr"`
	Join    string `xml:"stroke-linejoin,attr"` // only of the line of a series
	Cap     string `xml:"stroke-linecap,attr"`  // only of dots
	Opacity string `xml:"fill-opacity,attr"`    // only of a band
}

type text struct {
	X    float64 `xml:"x,attr"`
	Y    float64 `xml:"y,attr"`
	Text string  `xml:",chardata"`
}

// paths returns the paths in g and in the groups inside g, which pass their colours to their
// paths.
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

// readAxes reads the frame, the ticks and the texts.
func (p *Panel) readAxes(g group) {
	for _, path := range g.paths() {
		var left, top, right, bottom float64
		if n, _ := fmt.Sscanf(path.D, "M%f %fH%fV%fH", &left, &top, &right, &bottom); n == 4 {
			p.Left, p.Top, p.Right, p.Bottom = left, top, right, bottom
		}
	}
	for _, t := range g.Texts {
		switch {
		case t.X == 0: // the rotated label has no position
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

// readSeries reads the series in g, which have the styles of the samples in the legend.
func (p *Panel) readSeries(g, legend group) {
	index := map[string]int{} // of the series with a style
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

// style returns a string that distinguishes the series. It is the same for the line, the dots,
// the band and the error bars of a series, and another one for the markers.
func (p path) style() string {
	switch {
	case p.Opacity != "":
		return "line " + p.Fill
	case p.Join != "" || p.Cap != "" || strings.Contains(p.D, "m-4 0V"): // a line, dots or an error bar
		return "line " + p.Stroke + p.Dashes
	}
	_, shape, _ := strings.Cut(p.D, "m")
	return "marker " + p.Stroke + p.Fill + shape
}

// add adds a path to the series.
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

// points returns the points of the commands M and L of a path. Each M begins a part.
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

// Value returns the number in a label such as 12, −0.5, 10⁻³ or 2×10⁶, or NaN.
func Value(label string) float64 {
	s := strings.Replace(label, "−", "-", 1)
	if strings.HasPrefix(s, "10") && s != superscripts.Replace(s) {
		s = "1×" + s
	}
	v, err := strconv.ParseFloat(superscripts.Replace(strings.Replace(s, "×10", "e", 1)), 64)
	if err != nil {
		return math.NaN()
	}
	return v
}
