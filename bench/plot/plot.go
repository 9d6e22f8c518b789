// Package plot implements line charts as SVG, for the figures of both experiments. Charts and
// how they are drawn are in plot.go, ranges and ticks in axis.go, contour lines in contour.go.
// The package imports only the standard library.
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
	Band                // a line without markers, inside a band
	Dashed              // a dashed line for reference
	Thin                // a thin grey line, such as a contour
	Trail               // a path: a thin line with a dot at every point and arrowheads
	Points              // markers without a line
)

// A Series is a sequence of points. A point that the axes cannot show breaks the line. The legend
// omits a series without a label.
type Series struct {
	Label string
	X, Y  []float64
	Error []float64 // half lengths of a line's error bars, or half heights of a band; nil for none
	Style Style
}

// A Chart is a figure with two axes. Values that are not finite are not shown, nor values ≤ 0 on
// a logarithmic axis.
type Chart struct {
	Title, XLabel, YLabel string
	LogX, LogY            bool
	XTicks                []float64 // nil for round numbers
	Width, Height         float64   // of the frame in pixels, by default 500 and 366
	Equal                 bool      // x and y have the same scale, which determines the height
	Dodge                 bool      // shift the markers of different series sideways, so that none hides another
	Series                []Series
}

// Sizes in pixels.
const (
	left, top, bottom      = 46, 44, 60 // margins of the frame; left excludes the tick labels
	plotWidth, plotHeight  = 500, 366   // of the frame
	legendGap, legendGlyph = 18, 34     // between frame and legend; length of the legend's sample lines
	rowHeight, fontSize    = 24, 13
	noTitle                = 26 // height saved above a row whose first chart has no title
	dodge                  = 5  // distance of shifted markers
	markersUpTo            = 40 // a line with more points has no markers
	arrowheads             = 8  // about 8 on a trail, at least 8 points apart
)

// colours is based on the palette of Okabe and Ito, which people with any colour vision can
// distinguish. Different markers distinguish the series without colour.
var colours = []string{"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A5230", "#000000"}

// SVG returns the chart as an SVG document.
func (c Chart) SVG() []byte { return Panels(1, c) }

// Panels returns an SVG document with charts in a grid, row by row. Axes with the same label have
// the same range. Series with the same label have the same colour and marker, and the legend at
// the right lists each label once. The first chart determines the width of all charts.
func Panels(columns int, charts ...Chart) []byte {
	width := cmp.Or(charts[0].Width, plotWidth)
	xs, ys, heights := make([]axis, len(charts)), make([]axis, len(charts)), make([]float64, len(charts))
	from := float64(left)
	for i, c := range charts {
		xs[i] = newAxis(slices.DeleteFunc(slices.Clone(charts), func(d Chart) bool { return d.XLabel != c.XLabel }), c.LogX, c.XTicks, func(s Series) (v, e []float64) { return s.X, nil })
		ys[i] = newAxis(slices.DeleteFunc(slices.Clone(charts), func(d Chart) bool { return d.YLabel != c.YLabel }), c.LogY, nil, func(s Series) (v, e []float64) {
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

// draw draws the chart without its legend.
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
	for _, layer := range [][]Style{{Thin}, {Line, Band, Trail}, {Dashed}} { // from back to front
		for i, p := range pens {
			if !slices.Contains(layer, p.style) {
				continue
			}
			switch p.style {
			case Line:
				p.bars(b, c.Series[i], x, y, shift[i])
			case Band:
				p.band(b, c.Series[i], x, y)
			}
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

// drawLegend draws the legend with its left edge at x and returns its width, 0 without labels.
func drawLegend(b *bytes.Buffer, x float64, charts []Chart, pens [][]pen) (width float64) {
	fmt.Fprintln(b, `<g>`)
	y, seen := float64(top+12), map[string]bool{"": true}
	for i, c := range charts {
		for j, s := range c.Series {
			if seen[s.Label] {
				continue
			}
			seen[s.Label] = true
			// The sample is a series whose values are pixels.
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

// shifts returns the shift of each series' markers to the right in pixels.
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

// A pen is the appearance of a series.
type pen struct {
	style  Style
	colour string
	shape  string
	open   bool // markers are not filled
}

// pensOf returns a pen for each series of each chart. Open and filled markers alternate, so that
// two markers at the same point are both visible.
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

// line draws the line of a series, with gaps at points that the axes cannot show.
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

// band fills the band of a series.
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

// bars draws the error bars of a series, clipped to the frame.
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

// points draws the markers of a series, or the dots and arrowheads of a trail.
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

// dots draws a dot at each point of a series, as a line of length 0 with round ends.
func (p pen) dots(b *bytes.Buffer, s Series, x, y axis) {
	fmt.Fprintf(b, `<path fill="none" stroke="%s" stroke-width="2.2" stroke-linecap="round" d="`, p.colour)
	for j := range s.X {
		if x.shows(s.X[j]) && y.shows(s.Y[j]) {
			fmt.Fprintf(b, "M%.1f %.1fh0", x.at(s.X[j]), y.at(s.Y[j]))
		}
	}
	fmt.Fprintln(b, `"/>`)
}

// arrowheads draws arrowheads at some points of a series, in the direction of the line.
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

// shapes lists the markers as SVG paths relative to the point, about 9 pixels wide.
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

// textWidth returns an upper bound of the width of a text in pixels.
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
