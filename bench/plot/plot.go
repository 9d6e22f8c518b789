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
	dodge                  = 5 // distance between shifted markers of two series
)

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
	var titles []string
	for i, c := range charts {
		xs[i], ys[i] = newAxis(c.LogX, c.XTicks, forX[c.XLabel]), newAxis(c.LogY, nil, forY[c.YLabel])
		heights[i] = cmp.Or(c.Height, plotHeight)
		if c.Equal {
			heights[i] = math.Round(width * (ys[i].max - ys[i].min) / (xs[i].max - xs[i].min))
		}
		for _, t := range ys[i].ticks {
			from = max(from, left+math.Ceil(textWidth(t.label)))
		}
		titles = append(titles, c.Title)
	}

	var b bytes.Buffer
	curves, y := curvesOf(charts), 0.0
	for i, c := range charts {
		column := i % columns
		xs[i].from, xs[i].to = from, from+width
		ys[i].from, ys[i].to = top+heights[i], top
		fmt.Fprintf(&b, `<g transform="translate(%.0f %.0f)">`+"\n", float64(column)*(from+width), y)
		c.draw(&b, xs[i], ys[i], curves[i])
		fmt.Fprintln(&b, `</g>`)
		if column == columns-1 || i == len(charts)-1 {
			y += top + slices.Max(heights[i-column:i+1]) + bottom
		}
	}
	end := float64(min(columns, len(charts)))*(from+width) + legendGap
	end += drawLegend(&b, end, slices.Concat(curves...))
	return fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %[1]g %[2]g" font-family="Helvetica, Arial, sans-serif" font-size="%d" role="img" aria-label="%s">
<rect width="100%%" height="100%%" fill="white"/>
%s</svg>
`, end, y, fontSize, html.EscapeString(strings.Join(titles, "; ")), b.Bytes())
}

// draw draws the chart without the legend.
func (c Chart) draw(b *bytes.Buffer, x, y axis, curves []curve) {
	marksX := func(ticks []tick, line string) {
		for _, t := range ticks {
			fmt.Fprintf(b, `<path d="M%.1f %.1f%s"/>`+"\n", x.at(t.value), y.from, line)
		}
	}
	marksY := func(ticks []tick, line string) {
		for _, t := range ticks {
			fmt.Fprintf(b, `<path d="M%.1f %.1f%s"/>`+"\n", x.from, y.at(t.value), line)
		}
	}
	fmt.Fprintln(b, `<g stroke="#e2e2e2">`) // the grid
	marksY(y.ticks, fmt.Sprintf("H%.1f", x.to))
	marksX(x.ticks, fmt.Sprintf("V%.1f", y.to))
	fmt.Fprintln(b, `</g>`)

	shifted := c.drawCurves(b, x, y, curves)

	fmt.Fprintln(b, `<g stroke="#404040">`) // the frame and the ticks
	fmt.Fprintf(b, `<path fill="none" d="M%.1f %.1fH%.1fV%.1fH%.1fz"/>`+"\n", x.from, y.to, x.to, y.from, x.from)
	marksY(y.ticks, "h-5")
	marksY(y.minor, "h-3")
	marksX(x.ticks, "v5")
	marksX(x.minor, "v3")
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
	if shifted > 1 {
		c.XLabel += " (markers are shifted sideways)"
	}
	text(b, (x.from+x.to)/2, y.from+44, `text-anchor="middle"`, c.XLabel)
	fmt.Fprintf(b, `<text transform="translate(22 %.1f) rotate(-90)" text-anchor="middle">%s</text>`+"\n", (y.from+y.to)/2, html.EscapeString(c.YLabel))
}

// drawCurves sets the points of the curves and draws the curves. It returns the number of curves with shifted
// markers.
func (c Chart) drawCurves(b *bytes.Buffer, x, y axis, curves []curve) int {
	var shifted []*curve // curves with shifted markers
	for i, s := range c.Series {
		for j := range s.X {
			curves[i].points = append(curves[i].points, point{x.at(s.X[j]), y.at(s.Y[j])})
		}
		if c.Dodge && s.Style == Line {
			shifted = append(shifted, &curves[i])
		}
	}
	for k, p := range shifted {
		p.shift = dodge * (float64(k) - float64(len(shifted)-1)/2)
	}
	for _, layer := range [][]Style{{Thin}, {Line, Band}, {Dashed}} { // from back to front
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
	return len(shifted)
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
		p.line(b)
		p.points = []point{{x + legendGlyph/2, y}}
		p.markers(b)
		text(b, x+legendGlyph+8, y+4.5, "", p.Label)
		width = max(width, legendGlyph+8+math.Ceil(textWidth(p.Label))+12)
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
