// Package plottest implements reading charts drawn by package plot, for tests of figures.
//
// It reads a chart as a person with a ruler would: the labels of the ticks define the scale of
// an axis, and the legend identifies the series. It relies on how package plot uses SVG elements
// and attributes, but on none of its internal numbers. It imports only the standard library.
package plottest

import (
	"encoding/xml"
	"fmt"
	"math"
	"regexp"
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
	Minor []float64 // pixels of the ticks without a label
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
	var document node
	if err := xml.Unmarshal(svg, &document); err != nil {
		t.Fatalf("not XML: %v\n%s", err, svg)
	}
	var l legend
	for _, n := range document.Nodes { // the legend is the only group without a transform
		if n.XMLName.Local == "g" && n.attr("transform") == "" {
			l.read(n.flatten(nil))
		}
	}
	for _, n := range document.Nodes {
		if !strings.HasPrefix(n.attr("transform"), "translate(") {
			continue
		}
		p := Panel{X: Axis{log: logX}, Y: Axis{log: logY}}
		if err := p.read(n.flatten(nil), l); err != nil {
			t.Fatalf("%v:\n%s", err, svg)
		}
		panels = append(panels, p)
	}
	if len(panels) == 0 {
		t.Fatalf("no chart:\n%s", svg)
	}
	return panels
}

// A node is an XML element.
type node struct {
	XMLName xml.Name
	Attrs   []xml.Attr `xml:",any,attr"`
	Nodes   []node     `xml:",any"`
	Text    string     `xml:",chardata"`
}

func (n node) attr(name string) string {
	for i := len(n.Attrs) - 1; i >= 0; i-- {
		if n.Attrs[i].Name.Local == name {
			return n.Attrs[i].Value
		}
	}
	return ""
}

// flatten returns the elements inside n that are not groups, each with the attributes of its
// groups.
func (n node) flatten(inherited []xml.Attr) (all []node) {
	for _, c := range n.Nodes {
		c.Attrs = slices.Concat(inherited, c.Attrs)
		if c.XMLName.Local == "g" {
			all = append(all, c.flatten(c.Attrs)...)
		} else {
			all = append(all, c)
		}
	}
	return all
}

var (
	frame  = regexp.MustCompile(`^M([0-9.]+) ([0-9.]+)H([0-9.]+)V([0-9.]+)H[0-9.]+z$`)
	bar    = regexp.MustCompile(`^M([0-9.]+) ([0-9.]+)m-4 0h8m-4 0V([0-9.]+)(m-4 0h8)?$`)
	dot    = regexp.MustCompile(`M([0-9.]+) ([0-9.]+)h0`)
	marker = regexp.MustCompile(`^M(-?[0-9.]+) (-?[0-9.]+)(m.*)$`)
	minorX = regexp.MustCompile(`^M([0-9.]+) [0-9.]+v3$`)
	minorY = regexp.MustCompile(`^M[0-9.]+ ([0-9.]+)h-3$`)
	vertex = regexp.MustCompile(`([ML])(-?[0-9.]+) (-?[0-9.]+)`)
	count  = regexp.MustCompile(`^−?[0-9]`)
)

// numbers parses strings; a string that is not a number becomes NaN.
func numbers(s []string) (v []float64) {
	for _, s := range s {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			f = math.NaN()
		}
		v = append(v, f)
	}
	return v
}

// A legend maps styles to labels.
type legend struct {
	labels []string
	styles map[string]int // indices of labels
}

// read reads a legend, in which each label follows its samples.
func (l *legend) read(nodes []node) {
	l.styles = map[string]int{}
	for _, n := range nodes {
		if style := styleOf(n); style != "" {
			l.styles[style] = len(l.labels)
		}
		if n.XMLName.Local == "text" {
			l.labels = append(l.labels, n.Text)
		}
	}
}

// read reads a panel.
func (p *Panel) read(nodes []node, l legend) error {
	for _, n := range nodes {
		if m := frame.FindStringSubmatch(n.attr("d")); m != nil {
			v := numbers(m[1:])
			p.Left, p.Top, p.Right, p.Bottom = v[0], v[1], v[2], v[3]
		}
		if m := minorX.FindStringSubmatch(n.attr("d")); m != nil {
			p.X.Minor = append(p.X.Minor, numbers(m[1:])...)
		}
		if m := minorY.FindStringSubmatch(n.attr("d")); m != nil {
			p.Y.Minor = append(p.Y.Minor, numbers(m[1:])...)
		}
	}
	if p.Right == 0 {
		return fmt.Errorf("a chart has no frame")
	}
	for _, n := range nodes {
		v := numbers([]string{n.attr("x"), n.attr("y")})
		switch {
		case n.XMLName.Local != "text":
		case n.attr("font-weight") == "bold":
			p.Title = n.Text
		case strings.Contains(n.attr("transform"), "rotate"):
			p.YLabel = n.Text
		case n.attr("text-anchor") == "end" && v[0] < p.Left:
			if err := p.Y.add(n.Text, v[1]-4.5); err != nil {
				return err
			}
		case n.attr("text-anchor") == "middle" && count.MatchString(n.Text) && v[1] < p.Bottom+30:
			if err := p.X.add(n.Text, v[0]); err != nil {
				return err
			}
		case n.attr("text-anchor") == "middle":
			p.XLabel = n.Text
		default:
			return fmt.Errorf("the text %q has an unknown position", n.Text)
		}
	}
	for _, a := range []*Axis{&p.X, &p.Y} {
		if err := a.check(); err != nil {
			return err
		}
	}
	for _, label := range l.labels {
		p.Series = append(p.Series, Series{Label: label})
	}
	for _, n := range nodes {
		i, known := l.styles[styleOf(n)]
		if bar.MatchString(n.attr("d")) { // belongs to the line with the same colour
			i, known = l.styles["line "+n.attr("stroke")]
		}
		if n.attr("fill-opacity") != "" {
			i, known = l.styles["line "+n.attr("fill")]
		}
		if known {
			p.Series[i].add(n)
		}
	}
	return nil
}

// styleOf returns a key that elements of the same series share, or "" if the element is not part
// of a series.
func styleOf(n node) string {
	d := n.attr("d")
	switch m := marker.FindStringSubmatch(d); {
	case n.attr("stroke-linejoin") == "round":
		return "line " + n.attr("stroke") + n.attr("stroke-dasharray")
	case n.attr("stroke-linecap") == "round":
		return "dots " + n.attr("stroke")
	case bar.MatchString(d):
		return "bar " + n.attr("stroke")
	case m != nil:
		return "marker " + n.attr("stroke") + n.attr("fill") + m[3]
	}
	return ""
}

// add adds an element to the series.
func (s *Series) add(n node) {
	d := n.attr("d")
	point := func(m []string) Point { v := numbers(m); return Point{v[0], v[1]} }
	if m := bar.FindStringSubmatch(d); m != nil {
		v := numbers(m[1:4])
		s.Bars = append(s.Bars, Bar{X: v[0], High: v[1], Low: v[2], Foot: m[4] != ""})
		return
	}
	if m := marker.FindStringSubmatch(d); m != nil {
		s.Markers = append(s.Markers, point(m[1:3]))
		return
	}
	for _, m := range dot.FindAllStringSubmatch(d, -1) {
		s.Dots = append(s.Dots, point(m[1:]))
	}
	for _, m := range vertex.FindAllStringSubmatch(d, -1) {
		switch {
		case n.attr("stroke-linecap") == "round": // dots
		case n.attr("fill-opacity") != "":
			s.Band = append(s.Band, point(m[2:]))
		case m[1] == "M":
			s.Line = append(s.Line, []Point{point(m[2:])})
		default:
			last := &s.Line[len(s.Line)-1]
			*last = append(*last, point(m[2:]))
		}
	}
}

var superscripts = strings.NewReplacer("⁻", "-", "⁰", "0", "¹", "1", "²", "2", "³", "3", "⁴", "4",
	"⁵", "5", "⁶", "6", "⁷", "7", "⁸", "8", "⁹", "9")

// Value returns the number in a label such as 12, −0.5, 10⁻³ or 2×10⁶.
func Value(label string) (float64, error) {
	s := strings.Replace(label, "−", "-", 1)
	mantissa, exponent, power := strings.Cut(s, "×10")
	if !power && strings.HasPrefix(s, "10") && s != superscripts.Replace(s) {
		mantissa, exponent, power = "1", s[2:], true
	}
	if power {
		s = mantissa + "e" + superscripts.Replace(exponent)
	}
	return strconv.ParseFloat(s, 64)
}

func (a *Axis) add(label string, pixel float64) error {
	v, err := Value(label)
	a.Ticks = append(a.Ticks, Tick{label, v, pixel})
	return err
}

// check returns an error if a tick is not at the position of its value.
func (a Axis) check() error {
	if len(a.Ticks) == 0 {
		return fmt.Errorf("an axis has no ticks")
	}
	for _, t := range a.Ticks {
		if !a.Near(t.Pixel, t.Value) {
			return fmt.Errorf("the tick %q is at the pixel %v, but the other ticks imply %v", t.Label, t.Pixel, a.Pixel(t.Value))
		}
	}
	return nil
}
