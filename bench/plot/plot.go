// Package plot draws line charts as SVG, for the figures of both experiments. plot.go contains the types
// and the layout of charts, series.go draws a series, and axis.go computes the ranges and ticks of axes.
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
	Points              // markers without a line
)

// A Series is a sequence of points. A line has a gap at each point that the axes cannot show. The
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
	dodge                  = 5 // distance between shifted markers of two series
)

// SVG returns the chart as an SVG document.
func (c Chart) SVG() []byte { return Panels(1, c) }

// Panels returns an SVG document with charts in a grid, row by row. Axes with the same label have the
// same range. Series with the same label have the same colour and marker. The legend on the right
// lists each label once. The first chart determines the width of all charts.
func Panels(columns int, charts ...Chart) []byte {
	values := map[string][]float64{} // of all charts, by axis label
	for _, c := range charts {
		for _, s := range c.Series {
			values[c.XLabel] = append(values[c.XLabel], s.X...)
			values[c.YLabel] = append(values[c.YLabel], s.extent(c.LogY)...)
		}
	}
	width, from := cmp.Or(charts[0].Width, plotWidth), float64(left)
	panels, titles := make([]panel, len(charts)), make([]string, len(charts))
	for i, c := range charts {
		p := panel{c, newAxis(c.LogX, c.XTicks, values[c.XLabel]), newAxis(c.LogY, nil, values[c.YLabel]), nil}
		p.Height = cmp.Or(c.Height, plotHeight)
		if c.Equal {
			p.Height = math.Round(width * (p.y.max - p.y.min) / (p.x.max - p.x.min))
		}
		for _, t := range p.y.ticks {
			from = max(from, left+math.Ceil(textWidth(t.label)))
		}
		panels[i], titles[i] = p, c.Title
	}
	var b bytes.Buffer
	legend, y := addCurves(panels), 0.0
	for row := range slices.Chunk(panels, columns) {
		height := 0.0
		for column, p := range row {
			fmt.Fprintf(&b, `<g transform="translate(%.0f %.0f)">`+"\n", float64(column)*(from+width), y)
			p.x.from, p.x.to, p.y.from, p.y.to = from, from+width, top+p.Height, top
			p.draw(&b)
			fmt.Fprintln(&b, `</g>`)
			height = max(height, p.Height)
		}
		y += top + height + bottom
	}
	end := float64(min(columns, len(charts)))*(from+width) + legendGap
	end += drawLegend(&b, end, legend)
	return fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %[1]g %[2]g" font-family="Helvetica, Arial, sans-serif" font-size="%d" role="img" aria-label="%s">
<rect width="100%%" height="100%%" fill="white"/>
%s</svg>
`, end, y, fontSize, html.EscapeString(strings.Join(titles, "; ")), b.Bytes())
}

// A panel is a chart with its axes and curves.
type panel struct {
	Chart
	x, y   axis
	curves []curve
}

// draw draws the panel from back to front: grid, lines, markers, frame and text.
func (p panel) draw(b *bytes.Buffer) {
	x, y := p.x, p.y
	marks := func(a axis, ticks []tick, format string) { // draws a line at each tick; format contains %.1f for the position of the tick
		for _, t := range ticks {
			fmt.Fprintf(b, `<path d="M`+format+`"/>`+"\n", a.at(t.value))
		}
	}
	fmt.Fprintln(b, `<g stroke="#e2e2e2">`)
	marks(y, y.ticks, fmt.Sprintf("%.1f %%.1fH%.1f", x.from, x.to))
	marks(x, x.ticks, fmt.Sprintf("%%.1f %.1fV%.1f", y.from, y.to))
	fmt.Fprintln(b, `</g>`)
	for i, c := range p.curves {
		for j := range c.X {
			p.curves[i].points = append(p.curves[i].points, point{x.at(c.X[j]), y.at(c.Y[j])})
		}
	}
	for _, layer := range [][]Style{{Thin}, {Line, Band}, {Dashed}} {
		for _, c := range p.curves {
			if slices.Contains(layer, c.Style) {
				c.errors(b, y)
				c.line(b)
			}
		}
	}
	for _, c := range p.curves {
		c.markers(b)
	}
	fmt.Fprintf(b, `<g stroke="#404040">
<path fill="none" d="M%.1f %.1fH%.1fV%.1fH%.1fz"/>
`, x.from, y.to, x.to, y.from, x.from)
	marks(y, y.ticks, fmt.Sprintf("%.1f %%.1fh-5", x.from))
	marks(y, y.minor, fmt.Sprintf("%.1f %%.1fh-3", x.from))
	marks(x, x.ticks, fmt.Sprintf("%%.1f %.1fv5", y.from))
	marks(x, x.minor, fmt.Sprintf("%%.1f %.1fv3", y.from))
	fmt.Fprintln(b, `</g>`)
	for _, t := range y.ticks {
		text(b, x.from-9, y.at(t.value)+4.5, `text-anchor="end"`, t.label)
	}
	end := math.Inf(-1)
	for _, t := range x.ticks {
		if at, half := x.at(t.value), textWidth(t.label)/2; at-half >= end { // omit labels that would touch
			text(b, at, y.from+20, `text-anchor="middle"`, t.label)
			end = at + half + 4
		}
	}
	text(b, (x.from+x.to)/2, 28, `text-anchor="middle" font-size="15" font-weight="bold"`, p.Title)
	text(b, (x.from+x.to)/2, y.from+44, `text-anchor="middle"`, p.XLabel)
	fmt.Fprintf(b, `<text transform="translate(22 %.1f) rotate(-90)" text-anchor="middle">%s</text>`+"\n", (y.from+y.to)/2, html.EscapeString(p.YLabel))
}

// drawLegend draws the legend to the right of x. It returns the width of the legend, which is 0 if no
// series has a label.
func drawLegend(b *bytes.Buffer, x float64, legend []curve) (width float64) {
	fmt.Fprintln(b, `<g>`)
	y := float64(top + 12)
	for _, c := range legend {
		c.points = []point{{x, y}, {x + legendGlyph, y}}
		c.line(b)
		c.points = []point{{x + legendGlyph/2, y}}
		c.markers(b)
		text(b, x+legendGlyph+8, y+4.5, "", c.Label)
		width = max(width, legendGlyph+8+math.Ceil(textWidth(c.Label))+12)
		y += rowHeight
	}
	fmt.Fprintln(b, `</g>`)
	return width
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
		case strings.ContainsRune(" .,ilj", r):
			width += 0.32
		case r == 'm' || r == 'w' || unicode.IsUpper(r):
			width += 0.8
		default:
			width += 0.58
		}
	}
	return width * fontSize
}
