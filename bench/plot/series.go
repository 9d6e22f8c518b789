package plot

import (
	"bytes"
	"cmp"
	"fmt"
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

// addCurves adds a curve for each series of each panel. The curves have no points yet. It returns the curves that the
// legend lists. Open and filled markers alternate, so that two markers at the same position are both visible.
func addCurves(panels []panel) (legend []curve) {
	lines, points, labelled := 0, 0, map[string]curve{}
	for i := range panels {
		p := &panels[i]
		var dodged []*curve
		p.curves = make([]curve, len(p.Series))
		for j, s := range p.Series {
			c, known := labelled[s.Label]
			switch {
			case known:
			case s.Style == Line || s.Style == Band:
				c = curve{colour: colours[lines%len(colours)], shape: shapes[lines%len(shapes)], open: lines%2 == 1}
				lines++
			case s.Style == Points:
				c = curve{colour: "#404040", shape: shapes[points/2%len(shapes)], open: points%2 == 0}
				points++
			default:
				c.colour = map[Style]string{Thin: "#b0b0b0", Dashed: "#404040"}[s.Style]
			}
			c.Series = s
			if !known && s.Label != "" {
				labelled[s.Label], legend = c, append(legend, c)
			}
			if p.curves[j] = c; p.Dodge && s.Style == Line {
				dodged = append(dodged, &p.curves[j])
			}
		}
		for k, c := range dodged {
			c.shift = dodge * (float64(k) - float64(len(dodged)-1)/2)
		}
		if len(dodged) > 1 {
			p.XLabel += " (markers are shifted sideways)"
		}
	}
	return legend
}

// extent returns the Y values and the ends of their error bars. For a logarithmic axis, it omits each lower end that
// is at most a tenth of its Y value.
func (s Series) extent(logarithmic bool) []float64 {
	all := slices.Clone(s.Y)
	for i, e := range s.Error {
		all = append(all, s.Y[i]+e)
		if low := s.Y[i] - e; !logarithmic || low > s.Y[i]/10 {
			all = append(all, low)
		}
	}
	return all
}

// line draws the line of a curve, with gaps at points that the axes cannot show.
func (c curve) line(b *bytes.Buffer) {
	if c.Style == Points {
		return
	}
	look := map[Style]string{Dashed: `stroke-width="1.5" stroke-dasharray="6 4"`, Thin: `stroke-width="1"`}[c.Style]
	fmt.Fprintf(b, `<path fill="none" stroke="%s" stroke-linejoin="round" %s d="`, c.colour, cmp.Or(look, `stroke-width="1.8"`))
	move := "M"
	for _, p := range c.points {
		if !p.shown() {
			move = "M"
			continue
		}
		fmt.Fprintf(b, "%s%.1f %.1f", move, p.x, p.y)
		move = "L"
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
	if upper != nil { // a band with at least one point
		slices.Reverse(lower)
		fmt.Fprintf(b, `<path fill="%s" fill-opacity="0.18" d="M%sz"/>`+"\n", c.colour, strings.Join(append(upper, lower...), "L"))
	}
}

func (c curve) markers(b *bytes.Buffer) {
	if c.Style != Points && (c.Style != Line || len(c.X) > 40) {
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
