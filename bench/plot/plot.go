// Package plot draws line charts as SVG, for the figures of the gaussian and mnist experiments.
package plot

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Style selects how a series is drawn.
type Style int

const (
	Line   Style = iota // a line, with markers if it has at most 20 points
	Dashed              // a dashed line for reference
	Thin                // a thin grey line, such as a contour
	Points              // markers without a line
)

// A Series is a sequence of points. A series drawn as a line has a gap at each point that the axes cannot show.
type Series struct {
	Label string
	X, Y  []float64
	Error []float64 // half lengths of error bars, or nil
	Style Style
}

// A Chart is a figure with two axes. It omits values that are infinite or NaN and, on a logarithmic axis, values that
// are not positive. Later series are drawn over earlier series.
type Chart struct {
	Title, XLabel, YLabel string
	LogX, LogY            bool
	XTicks                []float64 // nil for round numbers
	Width, Height         float64   // size of the frame in pixels; 0 for the default, 500×366
	Equal                 bool      // whether a unit has the same length on both axes; if so, Height is ignored
	Series                []Series
}

// Add adds a point to the series with the given label and returns the series. If c has no such series, Add creates it.
// The optional argument se is half the length of an error bar.
func (c *Chart) Add(label string, style Style, x, y float64, se ...float64) *Series {
	i := slices.IndexFunc(c.Series, func(s Series) bool { return s.Label == label })
	if i < 0 {
		i = len(c.Series)
		c.Series = append(c.Series, Series{Label: label, Style: style})
	}
	s := &c.Series[i]
	s.X = append(s.X, x)
	s.Y = append(s.Y, y)
	s.Error = append(s.Error, se...)
	return s
}

// colours are based on the palette of Okabe and Ito, for readers with colour blindness.
var colours = []string{"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A5230", "#000000"}

// shapes lists the marker shapes as SVG paths relative to a point: circle, square, upward triangle, diamond, downward
// triangle, cross and plus. A marker is about 9 pixels wide.
var shapes = []string{"m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", "m-4 -4h8v8h-8z", "m0 -5.2l5 9h-10z",
	"m0 -5.5l5 5.5l-5 5.5l-5 -5.5z", "m0 5.2l5 -9h-10z", "m-4.5 -4.5l9 9m0 -9l-9 9", "m0 -5.5v11m-5.5 -5.5h11"}

const left, top, bottom = 84, 44, 60 // margins of the frame in pixels
const glyph, fontSize = 34, 13       // length of a line in the legend and size of the text in pixels

// Panels returns an SVG document with charts in a grid, row by row. Axes with the same label have the same range.
// Series with the same label have the same colour and marker. The legend on the right lists each label once. The first
// chart determines the width of all charts.
func Panels(columns int, charts ...Chart) []byte {
	values := map[string][]float64{} // the values of all charts, by axis label
	for _, c := range charts {
		for _, s := range c.Series {
			values[c.XLabel] = append(values[c.XLabel], s.X...)
			values[c.YLabel] = append(values[c.YLabel], s.Y...)
			for i, e := range s.Error {
				values[c.YLabel] = append(values[c.YLabel], s.Y[i]-e, s.Y[i]+e)
			}
		}
	}
	var b bytes.Buffer
	var legend []Series // a series for each colour and marker
	width, x0, y0, end := cmp.Or(charts[0].Width, 500), 0.0, 0.0, 0.0
	for i, c := range charts {
		if i%columns == 0 {
			x0, y0 = 0, end
		}
		x, y := newAxis(c.LogX, c.XTicks, values[c.XLabel]), newAxis(c.LogY, nil, values[c.YLabel])
		height := cmp.Or(c.Height, 366)
		if c.Equal {
			height = math.Round(width * (y.max - y.min) / (x.max - x.min))
		}
		x.from, x.to = x0+left, x0+left+width
		y.from, y.to = y0+top+height, y0+top
		c.drawFrame(&b, x, y)
		var markers bytes.Buffer // drawn in front of all lines
		for _, s := range c.Series {
			n := slices.IndexFunc(legend, func(l Series) bool { return l.Label == s.Label })
			if n < 0 {
				n, legend = len(legend), append(legend, s)
			}
			s.draw(&b, &markers, n, s.X, s.Y, x, y)
		}
		b.Write(markers.Bytes())
		x0, end = x.to, max(end, y.from+bottom)
	}
	right, x, y, pixels := x0, float64(min(columns, len(charts)))*(left+width)+18, float64(top+12), axis{max: 1, to: 1}
	for n, s := range legend {
		s.Error = nil
		s.draw(&b, &b, n, []float64{x, x + glyph}, []float64{y, y}, pixels, pixels)
		text(&b, x+glyph+12, y+4.5, "", s.Label)
		right, y = max(right, x+glyph+12+textWidth(s.Label)), y+24
	}
	const start = `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0[1]f %.0[2]f" ` +
		`font-family="Helvetica, Arial, sans-serif" font-size="%d">` + "\n" + `<rect width="100%%" height="100%%" fill="white"/>`
	return fmt.Appendf(nil, start+"\n%s</svg>\n", right+12, max(end, y), fontSize, b.Bytes())
}

// drawFrame draws the grid, the frame and the titles of a chart.
func (c Chart) drawFrame(b *bytes.Buffer, x, y axis) {
	for _, t := range y.ticks {
		fmt.Fprintf(b, `<path stroke="#e2e2e2" d="M%.1f %.1fH%.1f"/>`+"\n", x.from, y.at(t), x.to)
		text(b, x.from-9, y.at(t)+4.5, `text-anchor="end"`, y.label(t))
	}
	end := math.Inf(-1)
	for _, t := range x.ticks {
		at, half := x.at(t), textWidth(x.label(t))/2
		fmt.Fprintf(b, `<path stroke="#e2e2e2" d="M%.1f %.1fV%.1f"/>`+"\n", at, y.from, y.to)
		if at-half >= end { // omit labels that would touch
			text(b, at, y.from+20, `text-anchor="middle"`, x.label(t))
			end = at + half + 4
		}
	}
	fmt.Fprintf(b, `<path fill="none" stroke="#404040" d="M%.1f %.1fH%.1fV%.1fH%.1fz"/>`+"\n", x.from, y.to, x.to, y.from, x.from)
	middle := (x.from + x.to) / 2
	text(b, middle, y.to-16, `text-anchor="middle" font-size="15" font-weight="bold"`, c.Title)
	text(b, middle, y.from+44, `text-anchor="middle"`, c.XLabel)
	sideways := fmt.Sprintf(`text-anchor="middle" transform="translate(%.1f %.1f) rotate(-90)"`, x.from-left+22, (y.from+y.to)/2)
	text(b, 0, 0, sideways, c.YLabel)
}

// draw draws a series at the points (xs[i], ys[i]). The number n selects its colour and marker shape.
func (s Series) draw(b, markers *bytes.Buffer, n int, xs, ys []float64, x, y axis) {
	colour, pen, fill := colours[n%len(colours)], `stroke-width="1.8"`, "none"
	switch s.Style {
	case Dashed:
		colour, pen = "#404040", `stroke-width="1.5" stroke-dasharray="6 4"`
	case Thin:
		colour, pen = "#b0b0b0", `stroke-width="1"`
	}
	if n%2 == 0 { // every second marker is filled, so that two markers at the same point are both visible
		fill = colour
	}
	var line, bars, points strings.Builder
	move := "M"
	for i := range xs {
		right, down := x.at(xs[i]), y.at(ys[i])
		if !finite(right + down) {
			move = "M"
			continue
		}
		fmt.Fprintf(&line, "%s%.1f %.1f", move, right, down)
		fmt.Fprintf(&points, "M%.1f %.1f%s", right, down, shapes[n%len(shapes)])
		move = "L"
		if s.Error != nil && s.Error[i] > 0 {
			low, foot := y.at(ys[i]-s.Error[i]), "m-4 0h8"
			if !finite(low) { // on a logarithmic axis, the lower end is not positive
				low, foot = y.from, ""
			}
			fmt.Fprintf(&bars, "M%.1f %.1fm-4 0h8m-4 0V%.1f%s", right, y.at(ys[i]+s.Error[i]), low, foot)
		}
	}
	if s.Style != Points {
		fmt.Fprintf(b, `<path fill="none" stroke="%s" stroke-linejoin="round" %s d="%s"/>`+"\n", colour, pen, line.String())
	}
	if s.Error != nil {
		fmt.Fprintf(b, `<path fill="none" stroke="%s" stroke-width="1.2" d="%s"/>`+"\n", colour, bars.String())
	}
	if s.Style == Points || s.Style == Line && len(s.X) <= 20 {
		fmt.Fprintf(markers, `<path fill="%s" stroke="%s" stroke-width="1.6" d="%s"/>`+"\n", fill, colour, points.String())
	}
}

func text(b *bytes.Buffer, x, y float64, attributes, s string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" %s>%s</text>`+"\n", x, y, attributes, html.EscapeString(s))
}

// textWidth returns an estimate of the width of s in pixels. The estimate is usually too large.
func textWidth(s string) float64 { return 0.58 * fontSize * float64(utf8.RuneCountInString(s)) }

// An axis maps values to pixels.
type axis struct {
	log      bool
	min, max float64 // range of the values, or of their logarithms
	from, to float64 // pixel coordinates of min and max
	ticks    []float64
	powers   bool // tick labels are powers of ten
}

// scale returns v or, on a logarithmic axis, log₁₀ v.
func (a axis) scale(v float64) float64 {
	if a.log {
		return math.Log10(v)
	}
	return v
}

// at returns the pixel coordinate of v. The result is infinite or NaN if the axis cannot show v.
func (a axis) at(v float64) float64 { return a.from + (a.scale(v)-a.min)/(a.max-a.min)*(a.to-a.from) }

func (a axis) label(v float64) string {
	if a.powers {
		return fmt.Sprint("10", superscript.Replace(fmt.Sprint(math.Round(math.Log10(v)))))
	}
	return strings.Replace(strconv.FormatFloat(v, 'f', -1, 32), "-", "−", 1) // float32 hides rounding errors
}

var superscript = strings.NewReplacer("-", "⁻", "0", "⁰", "1", "¹", "2", "²", "3", "³", "4", "⁴", "5", "⁵", "6", "⁶", "7", "⁷", "8", "⁸", "9", "⁹")

func finite(v float64) bool { return math.Abs(v) <= math.MaxFloat64 }

// newAxis returns an axis whose range contains the values, with a small margin. If ticks is nil, newAxis chooses the
// ticks. On a linear axis, it places at most seven ticks with different labels, at multiples of 1, 2 or 5 times a power
// of ten. On a logarithmic axis that contains three or more powers of ten, it places at most eleven ticks, at powers of
// ten. On a shorter logarithmic axis, it places ticks at 1, 2 and 5 times the powers of ten.
func newAxis(logarithmic bool, ticks, values []float64) axis {
	a := axis{log: logarithmic, min: math.Inf(1), max: math.Inf(-1), ticks: ticks}
	for _, v := range values {
		if s := a.scale(v); finite(s) {
			a.min, a.max = min(a.min, s), max(a.max, s)
		}
	}
	if a.min > a.max { // no values
		a.min, a.max = 0, 1
	}
	margin := cmp.Or(0.045*(a.max-a.min), max(0.5, 1e-15*math.Abs(a.min))) // the latter for a single value
	a.min, a.max = a.min-margin, a.max+margin
	switch {
	case ticks != nil:
	case logarithmic:
		a.powers = math.Floor(a.max)-math.Ceil(a.min) >= 2
		step := math.Ceil((a.max - a.min) / 10)
		for e := math.Floor(a.min); e <= a.max; e++ {
			for _, m := range []float64{1, 2, 5} {
				v := e + math.Log10(m)
				if v >= a.min && v <= a.max && (!a.powers || m == 1 && math.Mod(e, step) == 0) {
					a.ticks = append(a.ticks, m*math.Pow(10, e))
				}
			}
		}
	default:
		least := (a.max - a.min) / 6 // smallest distance between ticks
		step := math.Pow(10, math.Floor(math.Log10(least)))
		for _, m := range []float64{2, 2.5, 2} {
			if step < least {
				step *= m
			}
		}
		for i := math.Ceil(a.min / step); i <= a.max/step && a.label(i*step) != a.label((i+1)*step); i++ {
			a.ticks = append(a.ticks, i*step+0) // −0 + 0 = 0
		}
	}
	return a
}
