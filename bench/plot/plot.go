// Package plot draws line charts as SVG: the figures of both experiments.
//
// The package imports the standard library only.
package plot

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
	"strconv"
)

// A Series is one line: points in order of x, with a label for the legend.
type Series struct {
	Label  string
	X, Y   []float64
	Dashed bool // for a reference line, drawn without markers
}

// A Chart is a figure with axes. A logarithmic axis leaves out values that are not
// positive; either kind leaves out values that are not finite.
type Chart struct {
	Title, XLabel, YLabel string
	LogX, LogY            bool
	XTicks                []float64 // where given, instead of round numbers
	Series                []Series
}

const (
	width, height            = 780, 470
	left, right, top, bottom = 84, 220, 44, 60
	plotRight, plotBottom    = width - right, height - bottom
)

// colours are Okabe and Ito's, which readers with any colour vision can tell apart;
// markers tell the lines apart without colour.
var colours = []string{"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A5230", "#000000"}

// SVG returns the chart as an SVG document.
func (c Chart) SVG() []byte {
	x := c.axis(c.LogX, c.XTicks, func(s Series) []float64 { return s.X })
	y := c.axis(c.LogY, nil, func(s Series) []float64 { return s.Y })
	x.from, x.to = left, plotRight
	y.from, y.to = plotBottom, top

	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="Helvetica, Arial, sans-serif" font-size="13" role="img" aria-label="%s">`+"\n",
		width, height, width, height, escape(c.Title))
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, height)
	text(&b, (left+plotRight)/2, 26, "middle", `font-size="15" font-weight="bold"`, c.Title)

	fmt.Fprintln(&b, `<g stroke="#d8d8d8" stroke-width="1">`)
	for _, v := range y.ticks {
		fmt.Fprintf(&b, `<path d="M%d %.1fH%d"/>`+"\n", left, y.at(v), plotRight)
	}
	for _, v := range x.ticks {
		fmt.Fprintf(&b, `<path d="M%.1f %dV%d"/>`+"\n", x.at(v), top, plotBottom)
	}
	fmt.Fprintln(&b, `</g>`)
	fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" fill="none" stroke="#404040"/>`+"\n", left, top, plotRight-left, plotBottom-top)
	for _, v := range y.ticks {
		text(&b, left-8, y.at(v)+4.5, "end", "", label(v))
	}
	last := math.Inf(-1)
	for _, v := range x.ticks {
		if x.at(v)-last >= 16+4*float64(len(label(v))) { // labels must not touch
			text(&b, x.at(v), plotBottom+18, "middle", "", label(v))
			last = x.at(v)
		}
	}
	text(&b, (left+plotRight)/2, height-16, "middle", "", c.XLabel)
	fmt.Fprintf(&b, `<text transform="translate(20 %d) rotate(-90)" text-anchor="middle">%s</text>`+"\n", (top+plotBottom)/2, escape(c.YLabel))

	marked := 0 // reference lines take no colour and no marker
	for i, s := range c.Series {
		colour, dash := "#404040", ` stroke-dasharray="6 4"`
		if !s.Dashed {
			colour, dash = colours[marked%len(colours)], ""
		}
		row := float64(top + 12 + 24*i)
		fmt.Fprintf(&b, `<g stroke="%s" fill="%s">`+"\n", colour, colour)
		fmt.Fprintf(&b, `<path fill="none" stroke-width="2"%s d="M%d %.1fh34"/>`+"\n", dash, plotRight+18, row)
		var path bytes.Buffer
		pen := "M"
		for j := range s.X {
			if !x.shows(s.X[j]) || !y.shows(s.Y[j]) {
				pen = "M" // a gap, not a line across it
				continue
			}
			fmt.Fprintf(&path, "%s%.1f %.1f", pen, x.at(s.X[j]), y.at(s.Y[j]))
			pen = "L"
		}
		fmt.Fprintf(&b, `<path fill="none" stroke-width="2"%s d="%s"/>`+"\n", dash, path.String())
		if !s.Dashed {
			marker(&b, marked, plotRight+35, row)
			for j := range s.X {
				if x.shows(s.X[j]) && y.shows(s.Y[j]) {
					marker(&b, marked, x.at(s.X[j]), y.at(s.Y[j]))
				}
			}
			marked++
		}
		fmt.Fprintln(&b, `</g>`)
		text(&b, plotRight+60, row+4.5, "start", "", s.Label)
	}
	fmt.Fprintln(&b, `</svg>`)
	return b.Bytes()
}

// marker draws marker number n, 9 pixels wide, every other one open, so that two on top
// of each other both show.
func marker(b *bytes.Buffer, n int, x, y float64) {
	d := []string{
		"M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z", // circle
		"M-4 -4h8v8h-8z",                       // square
		"M0 -5.2L5 3.8h-10z",                   // triangle
		"M0 -5.5L5 0L0 5.5L-5 0z",              // diamond
		"M0 5.2L5 -3.8h-10z",                   // triangle, point down
		"M-4.5 -4.5L4.5 4.5M4.5 -4.5L-4.5 4.5", // cross
		"M0 -5.5V5.5M-5.5 0H5.5",               // plus
	}
	fill := ""
	if n%2 == 1 {
		fill = ` fill="none"`
	}
	fmt.Fprintf(b, `<path transform="translate(%.1f %.1f)" stroke-width="1.6"%s d="%s"/>`+"\n", x, y, fill, d[n%len(d)])
}

func text(b *bytes.Buffer, x, y float64, anchor, attributes, s string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s" %s>%s</text>`+"\n", x, y, anchor, attributes, escape(s))
}

func escape(s string) string {
	var b bytes.Buffer
	xml.EscapeText(&b, []byte(s)) // writing to a buffer cannot fail
	return b.String()
}

func label(v float64) string {
	if v != 0 && (math.Abs(v) < 1e-3 || math.Abs(v) >= 1e7) {
		return strconv.FormatFloat(v, 'e', -1, 64)
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// An axis maps values to pixels.
type axis struct {
	log      bool
	min, max float64 // logarithms of the ends on a logarithmic axis
	from, to float64
	ticks    []float64
}

func (a axis) shows(v float64) bool {
	return !math.IsNaN(v) && !math.IsInf(v, 0) && (!a.log || v > 0)
}

func (a axis) at(v float64) float64 {
	if a.log {
		v = math.Log10(v)
	}
	return a.from + (v-a.min)/(a.max-a.min)*(a.to-a.from)
}

// axis returns an axis that shows one coordinate of every series. With ticks given it
// ends a little beyond the values; else a logarithmic axis goes from one power of ten
// to another, a linear one from one round number to another.
func (c Chart) axis(logarithmic bool, ticks []float64, values func(Series) []float64) axis {
	a := axis{log: logarithmic, min: math.Inf(1), max: math.Inf(-1), ticks: ticks}
	for _, s := range c.Series {
		for _, v := range values(s) {
			if !a.shows(v) {
				continue
			}
			if a.log {
				v = math.Log10(v)
			}
			a.min, a.max = min(a.min, v), max(a.max, v)
		}
	}
	if a.min > a.max { // nothing to show
		a.min, a.max = 0, 1
	}
	if a.min == a.max {
		a.min, a.max = a.min-0.5, a.max+0.5
	}
	if ticks != nil {
		margin := 0.04 * (a.max - a.min)
		a.min, a.max = a.min-margin, a.max+margin
		return a
	}
	if a.log {
		a.min, a.max = math.Floor(a.min), math.Ceil(a.max)
		step := max(1, math.Ceil((a.max-a.min)/10))
		for e := a.min; e <= a.max; e += step {
			a.ticks = append(a.ticks, math.Pow(10, e))
		}
		return a
	}
	step := roundStep((a.max - a.min) / 6)
	a.min, a.max = math.Floor(a.min/step)*step, math.Ceil(a.max/step)*step
	for i := 0; i <= int(math.Round((a.max-a.min)/step)); i++ {
		a.ticks = append(a.ticks, math.Round(a.min/step+float64(i))*step)
	}
	return a
}

// roundStep returns the smallest of 1, 2 and 5 times a power of ten that is at least
// s.
func roundStep(s float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(s)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= s {
			return m * power
		}
	}
	return 10 * power
}
