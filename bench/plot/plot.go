// Package plot draws line charts as SVG, for the figures of both experiments. plot.go contains the types and the layout
// of charts, series.go draws a series, and axis.go computes the ranges and ticks of axes.
package plot

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// A Style selects how a series is drawn. Styles are in the order from back to front.
type Style int

const (
	Thin   Style = iota - 1 // a thin grey line, such as a contour
	Line                    // a line, with markers if it has at most 40 points
	Band                    // a line without markers in the middle of a coloured band
	Dashed                  // a dashed line for reference
	Points                  // markers without a line
)

// A Series is a sequence of points. A line has a gap at each point that the axes cannot show. The legend omits a series
// without a label.
type Series struct {
	Label string
	X, Y  []float64
	Error []float64 // half lengths of error bars (Line) or half heights of the band (Band), else nil
	Style Style
}

// A Chart is a figure with two axes. It omits values that are infinite or NaN and, on a logarithmic axis, values that
// are not positive.
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

// Panels returns an SVG document with charts in a grid, row by row. Axes with the same label have the same range.
// Series with the same label have the same colour and marker. The legend on the right lists each label once. The first
// chart determines the width of all charts.
func Panels(columns int, charts ...Chart) []byte {
	values := map[string][]float64{} // of all charts, by axis label
	for _, c := range charts {
		for _, s := range c.Series {
			values[c.XLabel] = append(values[c.XLabel], s.X...)
			values[c.YLabel] = append(values[c.YLabel], s.Y...)
			for i, e := range s.Error {
				values[c.YLabel] = append(values[c.YLabel], s.Y[i]-e, s.Y[i]+e)
			}
		}
	}
	width, from := cmp.Or(charts[0].Width, plotWidth), float64(left)
	panels, titles := make([]panel, len(charts)), make([]string, len(charts))
	for i, c := range charts {
		p := panel{c, newAxis(c.LogX, c.XTicks, values[c.XLabel]), newAxis(c.LogY, nil, values[c.YLabel])}
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
	var l legend
	y := 0.0
	for row := range slices.Chunk(panels, columns) {
		height := 0.0
		for column, p := range row {
			fmt.Fprintf(&b, `<g transform="translate(%.0f %.0f)">`+"\n", float64(column)*(from+width), y)
			p.x.from, p.x.to, p.y.from, p.y.to = from, from+width, top+p.Height, top
			p.draw(&b, &l)
			fmt.Fprintln(&b, `</g>`)
			height = max(height, p.Height)
		}
		y += top + height + bottom
	}
	end := float64(min(columns, len(charts)))*(from+width) + legendGap
	end += l.draw(&b, end)
	return fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %[1]g %[2]g" font-family="Helvetica, Arial, sans-serif" font-size="%d" role="img" aria-label="%s">
<rect width="100%%" height="100%%" fill="white"/>
%s</svg>
`, end, y, fontSize, html.EscapeString(strings.Join(titles, "; ")), b.Bytes())
}

// A panel is a chart with its axes.
type panel struct {
	Chart
	x, y axis
}

// draw draws the panel from back to front: grid, lines, markers, frame and titles.
func (p panel) draw(b *bytes.Buffer, l *legend) {
	x, y := p.x, p.y
	for _, t := range y.ticks {
		fmt.Fprintf(b, `<path stroke="#e2e2e2" d="M%.1f %.1fH%.1f"/>`+"\n", x.from, y.at(t.value), x.to)
		text(b, x.from-9, y.at(t.value)+4.5, `text-anchor="end"`, t.label)
	}
	end := math.Inf(-1)
	for _, t := range x.ticks {
		at, half := x.at(t.value), textWidth(t.label)/2
		fmt.Fprintf(b, `<path stroke="#e2e2e2" d="M%.1f %.1fV%.1f"/>`+"\n", at, y.from, y.to)
		if at-half >= end { // omit labels that would touch
			text(b, at, y.from+20, `text-anchor="middle"`, t.label)
			end = at + half + 4
		}
	}
	var curves []curve
	for _, s := range p.Series {
		c := l.curve(s)
		if !p.Dodge {
			c.shift = 0
		}
		curves = append(curves, c)
	}
	slices.SortStableFunc(curves, func(a, b curve) int { return int(a.Style - b.Style) })
	for _, c := range curves {
		c.errors(b, x, y)
		c.line(b, x, y)
	}
	for _, c := range curves {
		c.markers(b, x, y)
	}
	fmt.Fprintf(b, `<path fill="none" stroke="#404040" d="M%.1f %.1fH%.1fV%.1fH%.1fz"/>`+"\n", x.from, y.to, x.to, y.from, x.from)
	if p.Dodge && l.lines > 1 {
		p.XLabel += " (markers are shifted sideways)"
	}
	text(b, (x.from+x.to)/2, 28, `text-anchor="middle" font-size="15" font-weight="bold"`, p.Title)
	text(b, (x.from+x.to)/2, y.from+44, `text-anchor="middle"`, p.XLabel)
	fmt.Fprintf(b, `<text transform="translate(22 %.1f) rotate(-90)" text-anchor="middle">%s</text>`+"\n", (y.from+y.to)/2, html.EscapeString(p.YLabel))
}

func text(b *bytes.Buffer, x, y float64, attributes, s string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" %s>%s</text>`+"\n", x, y, attributes, html.EscapeString(s))
}

// textWidth returns an estimate of the width of s in pixels, which is too large for most texts.
func textWidth(s string) float64 { return 0.58 * fontSize * float64(utf8.RuneCountInString(s)) }
