package data

import (
	"math"
	"math/rand/v2"
	"sync"

	"hvae/linalg"
	"hvae/linalg/random"
)

// synthetic returns 2,400 training images and 400 test images of digit-like strokes. The images
// are always the same.
var synthetic = sync.OnceValue(func() Set {
	set := Set{Name: Synthetic, Train: Images{make([]byte, 2400*pixels)}, Test: Images{make([]byte, 400*pixels)}}
	for purpose, images := range map[string]Images{"synthetic train": set.Train, "synthetic test": set.Test} {
		linalg.For(images.Len(), 100, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				draw(images.Image(i), random.Stream(1, purpose, i))
			}
		})
	}
	return set
})

type point struct{ x, y float64 }

// glyphs contains the strokes of the ten digits as polygonal lines. Coordinates are from −1 to 1,
// and the y axis points down.
var glyphs = [10][][]point{
	{arc(0, 0, 0.5, 0.8, 0, 360)},
	{{{-0.2, -0.5}, {0.1, -0.8}, {0.1, 0.8}}},
	{append(arc(0, -0.4, 0.5, 0.4, 190, 400), point{-0.5, 0.8}, point{0.5, 0.8})},
	{arc(0, -0.4, 0.45, 0.4, 210, 450), arc(0, 0.4, 0.5, 0.4, 270, 510)},
	{{{0.3, 0.8}, {0.3, -0.8}, {-0.5, 0.3}, {0.6, 0.3}}},
	{append([]point{{0.5, -0.8}, {-0.4, -0.8}, {-0.45, -0.1}}, arc(0, 0.3, 0.5, 0.5, 230, 500)...)},
	{append([]point{{0.3, -0.8}, {-0.3, -0.1}}, arc(0, 0.4, 0.45, 0.4, 180, 540)...)},
	{{{-0.5, -0.8}, {0.5, -0.8}, {-0.1, 0.8}}},
	{arc(0, -0.4, 0.4, 0.4, 0, 360), arc(0, 0.4, 0.48, 0.4, 0, 360)},
	{append(arc(0, -0.4, 0.45, 0.4, 0, 360), point{0.35, 0.8})},
}

// arc returns 17 points on the ellipse with centre (cx, cy) and radii rx and ry, between two
// angles in degrees.
func arc(cx, cy, rx, ry, from, to float64) (points []point) {
	const n = 16
	for i := range n + 1 {
		a := (from + (to-from)*float64(i)/n) * math.Pi / 180
		points = append(points, point{cx + rx*math.Cos(a), cy + ry*math.Sin(a)})
	}
	return points
}

// draw draws a random digit with random rotation, slant, size, position and thickness.
func draw(image []byte, rng *rand.Rand) {
	glyph := glyphs[rng.IntN(len(glyphs))]
	uniform := func(lo, hi float64) float64 { return lo + (hi-lo)*rng.Float64() }
	turn, slant := uniform(-0.2, 0.2), uniform(-0.3, 0.1)
	width, height := uniform(7.5, 10.5), uniform(9, 11)
	cx, cy, thickness := uniform(12.5, 14.5), uniform(12.5, 14.5), uniform(0.9, 1.7)
	place := func(p point) point {
		x, y := width*(p.x+slant*p.y), height*p.y
		return point{cx + x*math.Cos(turn) - y*math.Sin(turn), cy + x*math.Sin(turn) + y*math.Cos(turn)}
	}
	reach := thickness + 0.5 // distance from a line at which the ink ends
	var ink [pixels]float64
	for _, stroke := range glyph {
		for i := range stroke[1:] {
			a, b := place(stroke[i]), place(stroke[i+1])
			first := func(u, v float64) int { return max(0, int(math.Floor(min(u, v)-reach))) }
			last := func(u, v float64) int { return min(Side-1, int(math.Ceil(max(u, v)+reach))) }
			for y := first(a.y, b.y); y <= last(a.y, b.y); y++ {
				for x := first(a.x, b.x); x <= last(a.x, b.x); x++ {
					v := &ink[y*Side+x]
					*v = max(*v, reach-distance(point{float64(x), float64(y)}, a, b))
				}
			}
		}
	}
	for i, v := range ink {
		image[i] = byte(math.Round(255 * min(1, v))) // the edge of a line is one pixel wide
	}
}

// distance returns the distance between p and the line segment from a to b.
func distance(p, a, b point) float64 {
	dx, dy := b.x-a.x, b.y-a.y
	t := 0.0
	if l := dx*dx + dy*dy; l > 0 {
		t = min(1, max(0, ((p.x-a.x)*dx+(p.y-a.y)*dy)/l))
	}
	ex, ey := p.x-a.x-t*dx, p.y-a.y-t*dy
	return math.Sqrt(ex*ex + ey*ey)
}
