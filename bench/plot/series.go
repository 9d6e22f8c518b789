package plot

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// colours lists the colours of lines. They are based on the palette of Okabe and Ito, for readers with colour
// blindness. Lines with markers also differ in the shape of the markers.
var colours = []string{"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A5230", "#000000"}

// shapes lists the shapes of markers, as SVG paths relative to a point: circle, square, upward triangle, diamond,
// downward triangle, cross and plus. A marker is about 9 pixels wide.
var shapes = []string{"m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", "m-4 -4h8v8h-8z", "m0 -5.2l5 9h-10z", "m0 -5.5l5 5.5l-5 5.5l-5 -5.5z",
	"m0 5.2l5 -9h-10z", "m-4.5 -4.5l9 9m0 -9l-9 9", "m0 -5.5v11m-5.5 -5.5h11"}

// A curve is a series with its appearance.
type curve struct {
	Series
	colour string
	shape  string  // the SVG path of a marker; "" for no markers
	open   bool    // markers are not filled
	shift  float64 // markers are shifted to the right by this distance in pixels
}

// A legend assigns an appearance to each series.
type legend struct {
	curves []curve // with different labels
	lines  int     // number of coloured curves
}

// curve returns a series with the appearance of the earlier series with the same label, or with a new one. Open and
// filled markers alternate, so that two markers at the same position are both visible.
func (l *legend) curve(s Series) curve {
	if i := slices.IndexFunc(l.curves, func(c curve) bool { return c.Label == s.Label }); i >= 0 {
		c := l.curves[i]
		c.Series = s
		return c
	}
	n := l.lines
	c := curve{Series: s, colour: map[Style]string{Thin: "#b0b0b0", Dashed: "#404040"}[s.Style]}
	if c.colour == "" {
		c.colour, c.open, c.shift = colours[n%len(colours)], n%2 == 1, dodge*float64((n+1)/2*(n%2*2-1)) // 0, 5, −5, 10, …
		l.lines++
	}
	if s.Style == Points || s.Style == Line && len(s.X) <= 40 {
		c.shape = shapes[n%len(shapes)]
	}
	if s.Label != "" {
		l.curves = append(l.curves, c)
	}
	return c
}

// draw draws the legend to the right of x. It returns the width of the legend, which is 0 if no series has a label.
func (l *legend) draw(b *bytes.Buffer, x float64) (width float64) {
	fmt.Fprintln(b, `<g>`)
	y, pixels := float64(top+12), axis{scale: identity, max: 1, to: 1}
	for _, c := range l.curves {
		c.X, c.Y, c.shift = []float64{x, x + legendGlyph}, []float64{y, y}, 0
		c.line(b, pixels, pixels)
		c.X, c.Y = []float64{x + legendGlyph/2}, []float64{y}
		c.markers(b, pixels, pixels)
		text(b, x+legendGlyph+8, y+4.5, "", c.Label)
		width = max(width, legendGlyph+8+math.Ceil(textWidth(c.Label))+12)
		y += rowHeight
	}
	fmt.Fprintln(b, `</g>`)
	return width
}

// line draws the line of a curve, with gaps at points that the axes cannot show.
func (c curve) line(b *bytes.Buffer, x, y axis) {
	if c.Style == Points {
		return
	}
	look := map[Style]string{Dashed: `stroke-width="1.5" stroke-dasharray="6 4"`, Thin: `stroke-width="1"`}[c.Style]
	fmt.Fprintf(b, `<path fill="none" stroke="%s" stroke-linejoin="round" %s d="`, c.colour, cmp.Or(look, `stroke-width="1.8"`))
	move := "M"
	for i := range c.X {
		if right, down := x.at(c.X[i]), y.at(c.Y[i]); finite(right + down) {
			fmt.Fprintf(b, "%s%.1f %.1f", move, right, down)
			move = "L"
		} else {
			move = "M"
		}
	}
	fmt.Fprintln(b, `"/>`)
}

// errors draws the band or the error bars of a series.
func (c curve) errors(b *bytes.Buffer, x, y axis) {
	var upper, lower []string
	for i, e := range c.Error {
		at, high, low, foot := x.at(c.X[i]), y.at(c.Y[i]+e), y.at(c.Y[i]-e), "m-4 0h8"
		switch {
		case !finite(at + high):
		case c.Style == Band:
			upper = append(upper, fmt.Sprintf("%.1f %.1f", at, high))
			lower = append(lower, fmt.Sprintf("%.1f %.1f", at, low))
		case e > 0:
			if !finite(low) { // the lower end is not positive, on a logarithmic axis
				low, foot = y.from, ""
			}
			fmt.Fprintf(b, `<path fill="none" stroke="%s" stroke-width="1.2" d="M%.1f %.1fm-4 0h8m-4 0V%.1f%s"/>`+"\n", c.colour, at+c.shift, high, low, foot)
		}
	}
	if upper != nil { // a band with at least one point
		slices.Reverse(lower)
		fmt.Fprintf(b, `<path fill="%s" fill-opacity="0.18" d="M%sz"/>`+"\n", c.colour, strings.Join(append(upper, lower...), "L"))
	}
}

func (c curve) markers(b *bytes.Buffer, x, y axis) {
	if c.shape == "" {
		return
	}
	fill := c.colour
	if c.open {
		fill = "none"
	}
	fmt.Fprintf(b, `<g stroke="%s" fill="%s" stroke-width="1.6">`+"\n", c.colour, fill)
	for i := range c.X {
		if right, down := x.at(c.X[i]), y.at(c.Y[i]); finite(right + down) {
			fmt.Fprintf(b, `<path d="M%.1f %.1f%s"/>`+"\n", right+c.shift, down, c.shape)
		}
	}
	fmt.Fprintln(b, `</g>`)
}
