// Package plot draws line charts as SVG: the figures of both experiments.
//
// Read plot.go (what a chart is, and how it is drawn), then axis.go (ranges, ticks and
// their labels) and contour.go (contour lines of a function of the plane).
//
// The package imports the standard library only.
package plot

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
)

// A Style selects how a series is drawn.
type Style int

const (
	Line   Style = iota // a line, with markers if there are few points
	Band                // a line without markers, in a band
	Dashed              // a dashed line for reference
	Thin                // a thin grey line, such as a contour
	Trail               // a path: a thin line with a dot at every point and arrowheads
	Points              // markers without a line
)

// A Series is a set of points in order of drawing, with a label for the legend; without
// a label the legend leaves it out. A point that cannot be shown breaks the line.
type Series struct {
	Label string
	X, Y  []float64
	Error []float64 // half lengths of a line's error bars, or half widths of a band; none if nil
	Style Style
}

// A Chart is a figure with axes. A logarithmic axis leaves out values that are not
// positive; either kind leaves out values that are not finite.
type Chart struct {
	Title, XLabel, YLabel string
	LogX, LogY            bool
	XTicks                []float64 // where given, instead of round numbers
	Width, Height         float64   // of the axes in pixels, by default 500 and 366
	Equal                 bool      // a unit of x is as long as a unit of y; the height follows
	Dodge                 bool      // markers of series that coincide stand side by side
	Series                []Series
}

// Sizes in pixels.
const (
	left, top, bottom      = 46, 44, 60 // around the axes, excluding the tick labels at the left
	plotWidth, plotHeight  = 500, 366   // of the axes
	legendGap, legendGlyph = 18, 34     // between axes and legend, and the legend's piece of line
	rowHeight, fontSize    = 24, 13
	noTitle                = 26 // saved above a row whose first chart has no title
	dodge                  = 5  // between neighbouring markers
	markersUpTo            = 40 // points of a line
	arrowheads             = 8  // of a trail, at most one at every eighth point
)

// colours are Okabe and Ito's, which readers with any colour vision can tell apart;
// markers tell the series apart without colour.
var colours = []string{"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A5230", "#000000"}

// SVG returns the chart as an SVG document.
func (c Chart) SVG() []byte { return Panels(1, c) }

// Panels returns an SVG document of charts in a grid, row by row. Charts whose axes have
// the same label share that axis. Series with the same label share colour and marker, and
// one legend at the right lists each label once. The first chart sets the width.
func Panels(columns int, charts ...Chart) []byte {
	width := cmp.Or(charts[0].Width, plotWidth)
	xs, ys, heights := make([]axis, len(charts)), make([]axis, len(charts)), make([]float64, len(charts))
	from := float64(left)
	for i, c := range charts {
		xs[i] = newAxis(sharing(charts, func(d Chart) bool { return d.XLabel == c.XLabel }), c.LogX, c.XTicks, func(s Series) (v, e []float64) { return s.X, nil })
		ys[i] = newAxis(sharing(charts, func(d Chart) bool { return d.YLabel == c.YLabel }), c.LogY, nil, func(s Series) (v, e []float64) {
			if s.Style != Line && s.Style != Band {
				return s.Y, nil
			}
			return s.Y, s.Error
		})
		heights[i] = cmp.Or(c.Height, plotHeight)
		if c.Equal {
			heights[i] = math.Round(width * (ys[i].max - ys[i].min) / (xs[i].max - xs[i].min))
		}
		for _, t := range ys[i].ticks {
			from = max(from, left+math.Ceil(textWidth(t.label)))
		}
	}

	var panels, titles bytes.Buffer
	pens, y := pensOf(charts), 0.0
	for i, c := range charts {
		column := float64(i % columns)
		if i > 0 && column == 0 && c.Title == "" {
			y -= noTitle
		}
		xs[i].from, xs[i].to = from, from+width
		ys[i].from, ys[i].to = top+heights[i], top
		fmt.Fprintf(&panels, `<g transform="translate(%.0f %.0f)">`+"\n", column*(from+width), y)
		c.draw(&panels, xs[i], ys[i], pens[i])
		fmt.Fprintln(&panels, `</g>`)
		if i%columns == columns-1 || i == len(charts)-1 {
			y += top + slices.Max(heights[i-i%columns:i+1]) + bottom
		}
		if c.Title != "" {
			fmt.Fprintf(&titles, "%s; ", c.Title)
		}
	}
	end := float64(min(columns, len(charts)))*(from+width) + legendGap
	end += drawLegend(&panels, end, charts, pens)
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %[1]g %[2]g" font-family="Helvetica, Arial, sans-serif" font-size="%d" role="img" aria-label="%s">`+"\n",
		end, y, fontSize, escape(strings.TrimSuffix(titles.String(), "; ")))
	fmt.Fprintln(&b, `<rect width="100%" height="100%" fill="white"/>`)
	b.Write(panels.Bytes())
	fmt.Fprintln(&b, `</svg>`)
	return b.Bytes()
}

// sharing returns the charts that share an axis.
func sharing(charts []Chart, same func(Chart) bool) (group []Chart) {
	for _, c := range charts {
		if same(c) {
			group = append(group, c)
		}
	}
	return group
}

// draw draws a chart without a legend.
func (c Chart) draw(b *bytes.Buffer, x, y axis, pens []pen) {
	fmt.Fprintln(b, `<g stroke="#e2e2e2">`)
	for _, t := range y.ticks {
		fmt.Fprintf(b, `<path d="M%.1f %.1fH%.1f"/>`+"\n", x.from, y.at(t.value), x.to)
	}
	for _, t := range x.ticks {
		fmt.Fprintf(b, `<path d="M%.1f %.1fV%.1f"/>`+"\n", x.at(t.value), y.from, y.to)
	}
	fmt.Fprintln(b, `</g>`)

	shift := c.shifts()
	for i, p := range pens { // first what is least in the way
		if p.style == Thin {
			p.line(b, c.Series[i], x, y)
		}
	}
	for i, p := range pens {
		if p.style == Line {
			p.bars(b, c.Series[i], x, y, shift[i])
		}
		if p.style == Band {
			p.band(b, c.Series[i], x, y)
		}
		if p.style == Line || p.style == Band || p.style == Trail {
			p.line(b, c.Series[i], x, y)
		}
	}
	for i, p := range pens {
		if p.style == Dashed {
			p.line(b, c.Series[i], x, y)
		}
	}
	for i, p := range pens {
		p.points(b, c.Series[i], x, y, shift[i])
	}

	fmt.Fprintln(b, `<g stroke="#404040">`)
	fmt.Fprintf(b, `<path fill="none" d="M%.1f %.1fH%.1fV%.1fH%.1fz"/>`+"\n", x.from, y.to, x.to, y.from, x.from)
	for _, t := range y.ticks {
		fmt.Fprintf(b, `<path d="M%.1f %.1fh-5"/>`+"\n", x.from, y.at(t.value))
	}
	for _, v := range y.minor {
		fmt.Fprintf(b, `<path d="M%.1f %.1fh-3"/>`+"\n", x.from, y.at(v))
	}
	for _, t := range x.ticks {
		fmt.Fprintf(b, `<path d="M%.1f %.1fv5"/>`+"\n", x.at(t.value), y.from)
	}
	for _, v := range x.minor {
		fmt.Fprintf(b, `<path d="M%.1f %.1fv3"/>`+"\n", x.at(v), y.from)
	}
	fmt.Fprintln(b, `</g>`)
	for _, t := range y.ticks {
		text(b, x.from-9, y.at(t.value)+4.5, `text-anchor="end"`, t.label)
	}
	end := math.Inf(-1)
	for _, t := range x.ticks {
		if half := textWidth(t.label) / 2; x.at(t.value)-half >= end { // labels must not touch
			text(b, x.at(t.value), y.from+20, `text-anchor="middle"`, t.label)
			end = x.at(t.value) + half + 4
		}
	}
	text(b, (x.from+x.to)/2, 28, `text-anchor="middle" font-size="15" font-weight="bold"`, c.Title)
	if slices.ContainsFunc(shift, func(s float64) bool { return s != 0 }) {
		c.XLabel += " (markers are shifted sideways)"
	}
	text(b, (x.from+x.to)/2, y.from+44, `text-anchor="middle"`, c.XLabel)
	fmt.Fprintf(b, `<text transform="translate(22 %.1f) rotate(-90)" text-anchor="middle">%s</text>`+"\n", (y.from+y.to)/2, escape(c.YLabel))
}

// drawLegend draws a legend with its left edge at x and returns its width: 0 without labels.
func drawLegend(b *bytes.Buffer, x float64, charts []Chart, pens [][]pen) (width float64) {
	fmt.Fprintln(b, `<g>`)
	y, seen := float64(top+12), map[string]bool{"": true}
	for i, c := range charts {
		for j, s := range c.Series {
			if seen[s.Label] {
				continue
			}
			seen[s.Label] = true
			// A series in pixels.
			p, sample := pens[i][j], Series{X: []float64{x, x + legendGlyph}, Y: []float64{y, y}}
			pixels := axis{max: 1, to: 1}
			if p.style != Points {
				p.line(b, sample, pixels, pixels)
			}
			if p.style != Trail {
				sample = Series{X: []float64{x + legendGlyph/2}, Y: []float64{y}}
			}
			if len(s.X) <= markersUpTo || s.Style != Line {
				p.points(b, sample, pixels, pixels, 0)
			}
			text(b, x+legendGlyph+8, y+4.5, "", s.Label)
			width = max(width, legendGlyph+8+math.Ceil(textWidth(s.Label))+12)
			y += rowHeight
		}
	}
	fmt.Fprintln(b, `</g>`)
	return width
}

// shifts returns by how many pixels the markers of each series are shifted to the right.
func (c Chart) shifts() []float64 {
	shifts, n := make([]float64, len(c.Series)), 0
	for i, s := range c.Series {
		if s.Style == Line {
			shifts[i] = dodge * float64(n)
			n++
		}
	}
	for i, s := range c.Series {
		if shifts[i] -= dodge * float64(n-1) / 2; !c.Dodge || s.Style != Line {
			shifts[i] = 0
		}
	}
	return shifts
}

// A pen draws a series: in a style, a colour, and markers of a shape.
type pen struct {
	style  Style
	colour string
	shape  string
	open   bool // markers are not filled
}

// pensOf returns a pen for each series of each chart. Every other marker is open, so that
// both show where two coincide.
func pensOf(charts []Chart) [][]pen {
	lines, points, labelled, all := 0, 0, map[string]pen{}, make([][]pen, len(charts))
	for i, c := range charts {
		for _, s := range c.Series {
			p, known := labelled[s.Label]
			if !known {
				switch s.Style {
				case Thin:
					p.colour = "#b0b0b0"
				case Dashed:
					p.colour = "#404040"
				case Points:
					p.colour, p.shape, p.open = "#404040", shapes[points/2%len(shapes)], points%2 == 0
					points++
				case Line, Band, Trail:
					p.colour, p.shape, p.open = colours[lines%len(colours)], shapes[lines%len(shapes)], lines%2 == 1
					lines++
				}
			}
			if p.style = s.Style; s.Label != "" {
				labelled[s.Label] = p
			}
			all[i] = append(all[i], p)
		}
	}
	return all
}

// line draws a series' line, with gaps where a point cannot be shown.
func (p pen) line(b *bytes.Buffer, s Series, x, y axis) {
	var path bytes.Buffer
	move := "M"
	for j := range s.X {
		if !x.shows(s.X[j]) || !y.shows(s.Y[j]) {
			move = "M"
			continue
		}
		fmt.Fprintf(&path, "%s%.1f %.1f", move, x.at(s.X[j]), y.at(s.Y[j]))
		move = "L"
	}
	look := map[Style]string{
		Line:   `stroke-width="1.8"`,
		Band:   `stroke-width="1.8"`,
		Dashed: `stroke-width="1.5" stroke-dasharray="6 4"`,
		Thin:   `stroke-width="1"`,
		Trail:  `stroke-width="1.1"`,
	}[p.style]
	fmt.Fprintf(b, `<path fill="none" stroke="%s" stroke-linejoin="round" %s d="%s"/>`+"\n", p.colour, look, path.String())
}

// band fills the area between the edges of a series' band.
func (p pen) band(b *bytes.Buffer, s Series, x, y axis) {
	var upper, lower []string
	for j := range s.Error {
		if x.shows(s.X[j]) && y.shows(s.Y[j]) {
			px := x.at(s.X[j])
			upper = append(upper, fmt.Sprintf("%.1f %.1f", px, y.at(s.Y[j]+s.Error[j])))
			lower = append(lower, fmt.Sprintf("%.1f %.1f", px, y.at(s.Y[j]-s.Error[j])))
		}
	}
	slices.Reverse(lower)
	fmt.Fprintf(b, `<path fill="%s" fill-opacity="0.18" d="M%sz"/>`+"\n", p.colour, strings.Join(append(upper, lower...), "L"))
}

// bars draws the parts of a series' error bars inside the axes.
func (p pen) bars(b *bytes.Buffer, s Series, x, y axis, shift float64) {
	for j := range s.Error {
		if !x.shows(s.X[j]) || !y.shows(s.Y[j]) || !(s.Error[j] > 0) {
			continue
		}
		px := x.at(s.X[j]) + shift
		high := max(y.to, y.at(s.Y[j]+s.Error[j]))
		low, foot := y.from, ""
		if v := s.Y[j] - s.Error[j]; y.shows(v) && y.at(v) <= y.from {
			low, foot = y.at(v), "m-4 0h8"
		}
		fmt.Fprintf(b, `<path fill="none" stroke="%s" stroke-width="1.2" d="M%.1f %.1fm-4 0h8m-4 0V%.1f%s"/>`+"\n", p.colour, px, high, low, foot)
	}
}

// points draws a series' markers or dots.
func (p pen) points(b *bytes.Buffer, s Series, x, y axis, shift float64) {
	switch {
	case p.style == Trail:
		p.dots(b, s, x, y)
		p.arrowheads(b, s, x, y)
		return
	case p.style == Dashed || p.style == Thin || p.style == Band || p.style == Line && len(s.X) > markersUpTo:
		return
	}
	fill := p.colour
	if p.open {
		fill = "none"
	}
	fmt.Fprintf(b, `<g stroke="%s" fill="%s" stroke-width="1.6">`+"\n", p.colour, fill)
	for j := range s.X {
		if x.shows(s.X[j]) && y.shows(s.Y[j]) {
			fmt.Fprintf(b, `<path d="M%.1f %.1f%s"/>`+"\n", x.at(s.X[j])+shift, y.at(s.Y[j]), p.shape)
		}
	}
	fmt.Fprintln(b, `</g>`)
}

// dots draws a dot at each point of a series: the round ends of lines without length.
func (p pen) dots(b *bytes.Buffer, s Series, x, y axis) {
	fmt.Fprintf(b, `<path fill="none" stroke="%s" stroke-width="2.2" stroke-linecap="round" d="`, p.colour)
	for j := range s.X {
		if x.shows(s.X[j]) && y.shows(s.Y[j]) {
			fmt.Fprintf(b, "M%.1f %.1fh0", x.at(s.X[j]), y.at(s.Y[j]))
		}
	}
	fmt.Fprintln(b, `"/>`)
}

// arrowheads draws arrowheads that point from some points of a series to the next.
func (p pen) arrowheads(b *bytes.Buffer, s Series, x, y axis) {
	every := max(arrowheads, len(s.X)/arrowheads)
	for j := every / 2; j+1 < len(s.X); j += every {
		if !x.shows(s.X[j]) || !y.shows(s.Y[j]) || !x.shows(s.X[j+1]) || !y.shows(s.Y[j+1]) {
			continue
		}
		toX, toY := x.at(s.X[j+1]), y.at(s.Y[j+1])
		angle := math.Atan2(toY-y.at(s.Y[j]), toX-x.at(s.X[j])) * 180 / math.Pi
		fmt.Fprintf(b, `<path fill="%s" transform="translate(%.1f %.1f) rotate(%.1f)" d="M2 0l-7 -3.5v7z"/>`+"\n", p.colour, toX, toY, angle)
	}
}

// shapes are the markers, paths around a point, about 9 pixels wide.
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
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" %s>%s</text>`+"\n", x, y, attributes, escape(s))
}

func escape(s string) string {
	var b bytes.Buffer
	xml.EscapeText(&b, []byte(s)) // writing to a buffer cannot fail
	return b.String()
}

// textWidth returns about how many pixels wide a text is, rather too many than too few.
func textWidth(s string) float64 {
	width := 0.0
	for _, r := range s {
		switch {
		case unicode.Is(unicode.Mn, r): // stands above the letter before it
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
