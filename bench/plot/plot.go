// Package plot draws line charts as SVG, for the figures of both experiments. plot.go contains the types
// and the drawing code, axis.go the ranges and ticks of axes, and contour.go the contour lines.
package plot

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
	"unicode"
)

// A Style selects how a series is drawn.
type Style int

const (
	Line   Style = iota // a line, with markers if it has at most 40 points
	Band                // a line without markers in the middle of a coloured band
	Dashed              // a dashed line for reference
	Thin                // a thin grey line, such as a contour
	Trail               // a thin line with a dot at every point and arrowheads
	Points              // markers without a line
)

// A Series is a sequence of points. The line has a gap at a point that the axes cannot show. The
// legend omits a series without a label.
type Series struct {
	Label string
	X, Y  []float64
	Error []float64 // half lengths of error bars (Line) or half heights of the band (Band), else nil
	Style Style
}

// A Chart is a figure with two axes. It omits values that are infinite or NaN and, on a logarithmic
// axis, values that are not positive.
type Chart struct {
	Title, XLabel, YLabel string
	LogX, LogY            bool
	XTicks                []float64 // nil for round numbers
	Width, Height         float64   // size of the frame in pixels; 0 for the default, 500×366
	Equal                 bool      // a unit has the same length on both axes, which determines the height
	Dodge                 bool      // shift markers sideways so that no series hides another
	Series                []Series
}

// Sizes in pixels.
const (
	left, top, bottom      = 46, 44, 60 // margins of the frame; left excludes the tick labels
	plotWidth, plotHeight  = 500, 366   // default size of the frame
	legendGap, legendGlyph = 18, 34     // gap between frame and legend; length of the legend's lines
	rowHeight, fontSize    = 24, 13
	noTitle                = 26 // height removed above a row whose first chart has no title
	dodge                  = 5  // distance between shifted markers of two series
)

const markersUpTo = 40 // a line with more points has no markers

// colours is based on the palette of Okabe and Ito, for readers with colour blindness. Series with markers
// also differ in the shape of the marker.
var colours = []string{"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A5230", "#000000"}

var greys = map[Style]string{Thin: "#b0b0b0", Dashed: "#404040", Points: "#404040"}

// SVG returns the chart as an SVG document.
func (c Chart) SVG() []byte { return Panels(1, c) }

// Panels returns an SVG document with charts in a grid, row by row. Axes with the same label have the
// same range. Series with the same label have the same colour and marker. The legend on the right
// lists each label once. The first chart determines the width of all charts.
func Panels(columns int, charts ...Chart) []byte {
	width := cmp.Or(charts[0].Width, plotWidth)
	xs, ys, heights := make([]axis, len(charts)), make([]axis, len(charts)), make([]float64, len(charts))
	forX, forY := map[string][]Series{}, map[string][]Series{} // the series of all charts, by axis label
	for _, c := range charts {
		for _, s := range c.Series {
			forX[c.XLabel], forY[c.YLabel] = append(forX[c.XLabel], Series{Y: s.X}), append(forY[c.YLabel], s)
		}
	}
	from := float64(left)
	for i, c := range charts {
		xs[i], ys[i] = newAxis(c.LogX, c.XTicks, forX[c.XLabel]), newAxis(c.LogY, nil, forY[c.YLabel])
		heights[i] = cmp.Or(c.Height, plotHeight)
		if c.Equal {
			heights[i] = math.Round(width * (ys[i].max - ys[i].min) / (xs[i].max - xs[i].min))
		}
		for _, t := range ys[i].ticks {
			from = max(from, left+math.Ceil(textWidth(t.label)))
		}
	}

	var panels bytes.Buffer
	var titles []string
	curves, y := curvesOf(charts), 0.0
	for i, c := range charts {
		column := float64(i % columns)
		if i > 0 && column == 0 && c.Title == "" {
			y -= noTitle
		}
		xs[i].from, xs[i].to = from, from+width
		ys[i].from, ys[i].to = top+heights[i], top
		fmt.Fprintf(&panels, `<g transform="translate(%.0f %.0f)">`+"\n", column*(from+width), y)
		c.draw(&panels, xs[i], ys[i], curves[i])
		fmt.Fprintln(&panels, `</g>`)
		if i%columns == columns-1 || i == len(charts)-1 {
			y += top + slices.Max(heights[i-i%columns:i+1]) + bottom
		}
		if c.Title != "" {
			titles = append(titles, c.Title)
		}
	}
	end := float64(min(columns, len(charts)))*(from+width) + legendGap
	end += drawLegend(&panels, end, slices.Concat(curves...))
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %[1]g %[2]g" font-family="Helvetica, Arial, sans-serif" font-size="%d" role="img" aria-label="%s">`+"\n",
		end, y, fontSize, html.EscapeString(strings.Join(titles, "; ")))
	fmt.Fprintln(&b, `<rect width="100%" height="100%" fill="white"/>`)
	b.Write(panels.Bytes())
	fmt.Fprintln(&b, `</svg>`)
	return b.Bytes()
}

// draw draws the chart without the legend.
func (c Chart) draw(b *bytes.Buffer, x, y axis, curves []curve) {
	alongX := func(v float64) point { return point{x.at(v), y.from} }
	alongY := func(v float64) point { return point{x.from, y.at(v)} }
	marks := func(ticks []tick, along func(float64) point, line string) {
		for _, t := range ticks {
			fmt.Fprintf(b, `<path d="M%.1f %.1f%s"/>`+"\n", along(t.value).x, along(t.value).y, line)
		}
	}
	fmt.Fprintln(b, `<g stroke="#e2e2e2">`) // the grid
	marks(y.ticks, alongY, fmt.Sprintf("H%.1f", x.to))
	marks(x.ticks, alongX, fmt.Sprintf("V%.1f", y.to))
	fmt.Fprintln(b, `</g>`)

	var dodging []int // indices of the series with shifted markers
	for i, s := range c.Series {
		for j := range s.X {
			curves[i].points = append(curves[i].points, point{x.at(s.X[j]), y.at(s.Y[j])})
		}
		if c.Dodge && s.Style == Line {
			dodging = append(dodging, i)
		}
	}
	for k, i := range dodging {
		curves[i].shift = dodge * (float64(k) - float64(len(dodging)-1)/2)
	}
	for _, layer := range [][]Style{{Thin}, {Line, Band, Trail}, {Dashed}} { // from back to front
		for _, p := range curves {
			if slices.Contains(layer, p.Style) {
				p.errors(b, y)
				p.line(b)
			}
		}
	}
	for _, p := range curves {
		p.markers(b)
	}

	fmt.Fprintln(b, `<g stroke="#404040">`) // the frame and the ticks
	fmt.Fprintf(b, `<path fill="none" d="M%.1f %.1fH%.1fV%.1fH%.1fz"/>`+"\n", x.from, y.to, x.to, y.from, x.from)
	marks(y.ticks, alongY, "h-5")
	marks(y.minor, alongY, "h-3")
	marks(x.ticks, alongX, "v5")
	marks(x.minor, alongX, "v3")
	fmt.Fprintln(b, `</g>`)
	for _, t := range y.ticks {
		text(b, x.from-9, y.at(t.value)+4.5, `text-anchor="end"`, t.label)
	}
	end := math.Inf(-1)
	for _, t := range x.ticks {
		if half := textWidth(t.label) / 2; x.at(t.value)-half >= end { // omit labels that would touch
			text(b, x.at(t.value), y.from+20, `text-anchor="middle"`, t.label)
			end = x.at(t.value) + half + 4
		}
	}
	text(b, (x.from+x.to)/2, 28, `text-anchor="middle" font-size="15" font-weight="bold"`, c.Title)
	if len(dodging) > 1 {
		c.XLabel += " (markers are shifted sideways)"
	}
	text(b, (x.from+x.to)/2, y.from+44, `text-anchor="middle"`, c.XLabel)
	fmt.Fprintf(b, `<text transform="translate(22 %.1f) rotate(-90)" text-anchor="middle">%s</text>`+"\n", (y.from+y.to)/2, html.EscapeString(c.YLabel))
}

// drawLegend draws the legend to the right of x. It returns the width of the legend, which is 0 if no
// series has a label.
func drawLegend(b *bytes.Buffer, x float64, curves []curve) (width float64) {
	fmt.Fprintln(b, `<g>`)
	y, seen := float64(top+12), map[string]bool{"": true}
	for _, p := range curves {
		if seen[p.Label] {
			continue
		}
		seen[p.Label] = true
		p.points, p.shift = []point{{x, y}, {x + legendGlyph, y}}, 0
		if p.Style != Points {
			p.line(b)
		}
		if p.Style != Trail {
			p.points = []point{{x + legendGlyph/2, y}}
		}
		p.markers(b)
		text(b, x+legendGlyph+8, y+4.5, "", p.Label)
		width = max(width, legendGlyph+8+math.Ceil(textWidth(p.Label))+12)
		y += rowHeight
	}
	fmt.Fprintln(b, `</g>`)
	return width
}

// A curve is a series with its appearance and its points in pixels.
type curve struct {
	Series
	colour string
	shape  string  // the SVG path of a marker
	open   bool    // markers are not filled
	shift  float64 // markers are shifted to the right by this distance in pixels
	points []point
}

// A point is a position in pixels. Its coordinates are infinite or NaN if the axes cannot show the values.
type point struct{ x, y float64 }

func (p point) shown() bool { return finite(p.x) && finite(p.y) }

// curvesOf returns the curves of each chart. The caller must add their points. Open and filled markers
// alternate, so that two markers at the same position are both visible.
func curvesOf(charts []Chart) [][]curve {
	lines, points, labelled, all := 0, 0, map[string]curve{}, make([][]curve, len(charts))
	for i, c := range charts {
		for _, s := range c.Series {
			p, known := labelled[s.Label]
			if !known {
				p.colour = greys[s.Style]
				switch s.Style {
				case Points:
					p.shape, p.open = shapes[points/2%len(shapes)], points%2 == 0
					points++
				case Line, Band, Trail:
					p.colour, p.shape, p.open = colours[lines%len(colours)], shapes[lines%len(shapes)], lines%2 == 1
					lines++
				}
			}
			if p.Series = s; s.Label != "" {
				labelled[s.Label] = p
			}
			all[i] = append(all[i], p)
		}
	}
	return all
}

// line draws the line of a series, with gaps at points that the axes cannot show.
func (c curve) line(b *bytes.Buffer) {
	look := map[Style]string{
		Line:   `stroke-width="1.8"`,
		Band:   `stroke-width="1.8"`,
		Dashed: `stroke-width="1.5" stroke-dasharray="6 4"`,
		Thin:   `stroke-width="1"`,
		Trail:  `stroke-width="1.1"`,
	}[c.Style]
	fmt.Fprintf(b, `<path fill="none" stroke="%s" stroke-linejoin="round" %s d="`, c.colour, look)
	move := "M"
	for _, p := range c.points {
		if p.shown() {
			fmt.Fprintf(b, "%s%.1f %.1f", move, p.x, p.y)
			move = "L"
		} else {
			move = "M"
		}
	}
	fmt.Fprintln(b, `"/>`)
}

// errors draws the band or the error bars of a series. It clips error bars to the frame.
func (c curve) errors(b *bytes.Buffer, y axis) {
	var upper, lower []string
	for j, e := range c.Error {
		p, high, low, foot := c.points[j], y.at(c.Y[j]+e), y.at(c.Y[j]-e), "m-4 0h8"
		switch {
		case !p.shown():
		case c.Style == Band:
			upper = append(upper, fmt.Sprintf("%.1f %.1f", p.x, high))
			lower = append(lower, fmt.Sprintf("%.1f %.1f", p.x, low))
		case e > 0:
			if !(low <= y.from) { // the end is below the frame, or NaN on a logarithmic axis
				low, foot = y.from, ""
			}
			fmt.Fprintf(b, `<path fill="none" stroke="%s" stroke-width="1.2" d="M%.1f %.1fm-4 0h8m-4 0V%.1f%s"/>`+"\n", c.colour, p.x+c.shift, max(y.to, high), low, foot)
		}
	}
	if upper != nil { // a band with points in the frame
		slices.Reverse(lower)
		fmt.Fprintf(b, `<path fill="%s" fill-opacity="0.18" d="M%sz"/>`+"\n", c.colour, strings.Join(append(upper, lower...), "L"))
	}
}

// markers draws the markers of a series, or the dots and arrowheads of a trail.
func (c curve) markers(b *bytes.Buffer) {
	if c.Style == Trail {
		c.dots(b)
	}
	if c.Style != Points && (c.Style != Line || len(c.X) > markersUpTo) {
		return
	}
	fill := c.colour
	if c.open {
		fill = "none"
	}
	fmt.Fprintf(b, `<g stroke="%s" fill="%s" stroke-width="1.6">`+"\n", c.colour, fill)
	for _, p := range c.points {
		if p.shown() {
			fmt.Fprintf(b, `<path d="M%.1f %.1f%s"/>`+"\n", p.x+c.shift, p.y, c.shape)
		}
	}
	fmt.Fprintln(b, `</g>`)
}

// dots draws the dots of a trail as lines of length 0 with round ends. It also draws at most nine
// arrowheads, which point along the trail.
func (c curve) dots(b *bytes.Buffer) {
	fmt.Fprintf(b, `<path fill="none" stroke="%s" stroke-width="2.2" stroke-linecap="round" d="`, c.colour)
	for _, p := range c.points {
		if p.shown() {
			fmt.Fprintf(b, "M%.1f %.1fh0", p.x, p.y)
		}
	}
	fmt.Fprintln(b, `"/>`)
	every := max(8, len(c.points)/8) // about 8 arrowheads, at least 8 points apart
	for j := every / 2; j+1 < len(c.points); j += every {
		if from, to := c.points[j], c.points[j+1]; from.shown() && to.shown() {
			angle := math.Atan2(to.y-from.y, to.x-from.x) * 180 / math.Pi
			fmt.Fprintf(b, `<path fill="%s" transform="translate(%.1f %.1f) rotate(%.1f)" d="M2 0l-7 -3.5v7z"/>`+"\n", c.colour, to.x, to.y, angle)
		}
	}
}

// shapes lists the markers as SVG paths relative to a point. A marker is about 9 pixels wide.
var shapes = []string{
	"m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", // circle
	"m-4 -4h8v8h-8z",                      // square
	"m0 -5.2l5 9h-10z",                    // triangle
	"m0 -5.5l5 5.5l-5 5.5l-5 -5.5z",       // diamond
	"m0 5.2l5 -9h-10z",                    // triangle, point down
	"m-4.5 -4.5l9 9m0 -9l-9 9",            // cross
	"m0 -5.5v11m-5.5 -5.5h11",             // plus
}

func text(b *bytes.Buffer, x, y float64, attributes, s string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" %s>%s</text>`+"\n", x, y, attributes, html.EscapeString(s))
}

// textWidth returns an upper bound on the width of s in pixels.
func textWidth(s string) float64 {
	width := 0.0
	for _, r := range s {
		switch {
		case unicode.Is(unicode.Mn, r): // a combining mark
		case r == ' ' || r == '.' || r == ',' || r == 'i' || r == 'l' || r == 'j':
			width += 0.32
		case r == 'm' || r == 'w' || unicode.IsUpper(r):
			width += 0.8
		default:
			width += 0.58
		}
	}
	return width * fontSize
}
